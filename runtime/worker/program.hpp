#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/rpc/add_function.hpp"
#include "runtime/worker/options.hpp"

namespace rehearse {

class Worker;

/// What all workers of a job run, and how it is described to its users.
class Workload {
 public:
  using Body = std::function<void(Worker&)>;

  Workload(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}

  Workload& help(std::string text);
  /// Declares an option that scenario files may set under `[job] options`.
  Workload& option(OptionSpec spec);
  Workload& option(std::string name, std::int64_t default_value, std::string help,
                   std::int64_t min = 1, std::int64_t max = 1'000'000);
  /// How many workers it needs at least. Default: one.
  Workload& workers(std::function<std::int64_t(const Options&)> at_least);
  /// Says why these options do not go together; empty: they do. Scenario files are refused with it.
  Workload& refuse(std::function<std::string(const Options&)> why);
  /// Without an uncut run to compare with: it reads a clock, say.
  Workload& without_oracle();

  const std::string& name() const { return name_; }
  const std::string& help_text() const { return help_; }
  const std::vector<OptionSpec>& options() const { return options_; }
  std::int64_t workers_needed(const Options& options) const { return workers_(options); }
  std::string refusal(const Options& options) const { return refusal_(options); }
  bool has_oracle() const { return has_oracle_; }
  const Body& body() const { return body_; }

 private:
  std::string name_, help_;
  Body body_;
  std::vector<OptionSpec> options_;
  std::function<std::int64_t(const Options&)> workers_ = [](const Options&) { return 1; };
  std::function<std::string(const Options&)> refusal_ = [](const Options&) { return ""; };
  bool has_oracle_ = true;
};

/// A training program: functions that workers call on each other, and workloads that all workers
/// run. One executable serves every world: `main` is its command line, with the subcommands of
/// `rehearse` itself.
class Program {
 public:
  explicit Program(std::string name);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Registers a function under a name of its own; a `Worker&` as first parameter is the callee.
  /// Ends the process if the name is taken: a bug of the program.
  template <class F>
  auto function(std::string name, F body) {
    check_fresh(name, rpc::add_function(functions_, name, std::move(body)));
    return Function<typename rpc::Callable<std::decay_t<F>>::Signature>(std::move(name));
  }

  /// Registers what every worker runs; it returns when its part of the job is done.
  Workload& workload(std::string name, Workload::Body body);

  /// Runs the command line; the exit code is the verdict (`--help` lists both).
  int main(int argc, char** argv);

  const std::string& name() const { return name_; }
  const rpc::Functions& functions() const { return functions_; }
  const Workload* find_workload(std::string_view name) const;
  const std::map<std::string, Workload, std::less<>>& workloads() const { return workloads_; }

 private:
  void check_fresh(const std::string& function, bool fresh) const;

  std::string name_;
  rpc::Functions functions_;
  std::map<std::string, Workload, std::less<>> workloads_;
};

}  // namespace rehearse
