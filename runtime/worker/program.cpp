#include "runtime/worker/program.hpp"

#include <fmt/format.h>

#include "runtime/base/check.hpp"
#include "runtime/training/step_functions.hpp"

namespace rehearse {

Workload& Workload::help(std::string text) {
  help_ = std::move(text);
  return *this;
}

Workload& Workload::option(OptionSpec spec) {
  options_.push_back(std::move(spec));
  return *this;
}

Workload& Workload::option(std::string name, std::int64_t default_value, std::string help,
                           std::int64_t min, std::int64_t max) {
  return option(OptionSpec{std::move(name),
                           default_value,
                           std::move(help),
                           static_cast<double>(min),
                           static_cast<double>(max),
                           {}});
}

Workload& Workload::workers(std::function<std::int64_t(const Options&)> at_least) {
  workers_ = std::move(at_least);
  return *this;
}

Workload& Workload::refuse(std::function<std::string(const Options&)> why) {
  refusal_ = std::move(why);
  return *this;
}

Workload& Workload::without_oracle() {
  has_oracle_ = false;
  return *this;
}

Program::Program(std::string name) : name_(std::move(name)) {
  training::add_step_functions(functions_);
}
Program::~Program() = default;

void Program::check_fresh(const std::string& function, bool fresh) const {
  REHEARSE_CHECK(fresh, fmt::format("two functions of {} are named '{}'", name_, function));
}

Workload& Program::workload(std::string name, Workload::Body body) {
  const auto [added, fresh] = workloads_.try_emplace(name, name, std::move(body));
  REHEARSE_CHECK(fresh, fmt::format("two workloads of {} are named '{}'", name_, name));
  return added->second;
}

const Workload* Program::find_workload(std::string_view name) const {
  const auto found = workloads_.find(name);
  return found == workloads_.end() ? nullptr : &found->second;
}

}  // namespace rehearse
