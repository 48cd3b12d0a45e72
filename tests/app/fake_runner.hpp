#pragma once

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "app/cli.hpp"
#include "tests/harness/sample_catalogue.hpp"
#include "tests/harness/samples.hpp"

namespace rehearse::cli {

/// Judges made-up outcomes; counts what it was asked to run.
class FakeRunner : public harness::Runner {
 public:
  harness::CaseResult run(const harness::Case& run) override {
    runs.push_back(run);
    return harness::judge(run, evidence(run));
  }
  harness::CaseResult run_twice(const harness::Case& run_case) override {
    return harness::judge_determinism(run(run_case), second(run_case));
  }
  std::optional<std::string> missing(harness::WorldKind world) const override {
    const auto found = absent.find(world);
    return found == absent.end() ? std::nullopt : std::optional(found->second);
  }

  std::function<harness::Evidence(const harness::Case&)> evidence = [](const harness::Case&) {
    return harness::sample_evidence();
  };
  std::function<RunOutcome(const harness::Case&)> second = [](const harness::Case&) {
    return harness::sample_evidence().outcome;
  };
  std::map<harness::WorldKind, std::string> absent;
  std::vector<harness::Case> runs;
};

/// Runs the command line with a fake runner and keeps what it printed.
struct Shell {
  FakeRunner runner;
  harness::Catalogue catalogue = harness::sample_catalogue();
  std::string out, err;

  int run(std::vector<std::string> arguments) {
    std::ostringstream out_stream, err_stream;
    Setup setup{runner, catalogue, {}, "rehearse", {}, {}};
    setup.identity.version = "1.2.3";
    setup.identity.torch = "2.11.0";
    std::vector<const char*> argv = {"rehearse"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    const Streams streams{out_stream, err_stream, false, false};
    const int code = cli::main(static_cast<int>(argv.size()), argv.data(), setup, streams);
    out = out_stream.str();
    err = err_stream.str();
    return code;
  }
};

}  // namespace rehearse::cli
