#include "app/cli.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "app/command_line.hpp"
#include "app/doctor.hpp"
#include "app/list_command.hpp"
#include "app/run_command.hpp"
#include "harness/explain.hpp"
#include "harness/parse.hpp"
#include "harness/schema.hpp"
#include "harness/text.hpp"

namespace rehearse::cli {
namespace {

using Command = CommandLine::Command;

int explain_command(const ExplainOptions& options, const Setup& setup, const Streams& streams) {
  const harness::Parsed parsed =
      harness::load_scenario(options.file, options.overrides, setup.catalogue);
  for (const harness::Problem& problem : parsed.problems) streams.err << problem.text() << '\n';
  if (!parsed.scenario) return kBadInput;
  streams.out << harness::explain(*parsed.scenario, setup.catalogue);
  return 0;
}

int schema_command(const std::string& what, const Setup& setup, const Streams& streams) {
  if (what.empty() || what == "scenario") {
    streams.out << harness::scenario_schema(setup.catalogue).dump(2) << '\n';
    return 0;
  }
  if (what == "report") {
    streams.out << reports::report_schema().dump(2) << '\n';
    return 0;
  }
  streams.err << "no schema of " << harness::in_quotes(what)
              << harness::instead_of(what, {"scenario", "report"}, '`') << '\n';
  return kBadInput;
}

int version_command(const Setup& setup, const Streams& streams) {
  const reports::Identity& identity = setup.identity;
  streams.out << fmt::format("{} {}", identity.program, identity.version);
  if (!identity.commit.empty()) streams.out << " (" << identity.commit << ')';
  if (!identity.torch.empty()) streams.out << ", libtorch " << identity.torch;
  streams.out << '\n';
  return 0;
}

int worker_command(int spec_fd, const Setup& setup, const Streams& streams) {
  if (setup.worker) return setup.worker(spec_fd);
  streams.err << "this program has no workers in processes of their own\n";
  return kHarnessError;
}

int dispatch(const CommandLine& line, const Setup& setup, const Streams& streams) {
  switch (line.command) {
    case Command::none:
      (line.exit_code == 0 ? streams.out : streams.err) << line.text;
      return line.exit_code;
    case Command::run:
      return run_command(line.run, setup, streams);
    case Command::explain:
      return explain_command(line.explain, setup, streams);
    case Command::schema:
      return schema_command(line.what, setup, streams);
    case Command::list:
      return list_command(line.what, line.json, setup, streams);
    case Command::doctor:
      return doctor_command(line.json, setup, streams);
    case Command::version:
      return version_command(setup, streams);
    case Command::worker:
      return worker_command(line.spec_fd, setup, streams);
  }
  return kHarnessError;
}

}  // namespace

int main(int argc, const char* const* argv, const Setup& setup, const Streams& streams) {
  try {
    return dispatch(parse_command_line(argc, argv, setup.command), setup, streams);
  } catch (const std::exception& error) {
    streams.err << setup.command << ": " << error.what() << '\n';
    return kHarnessError;
  }
}

int main(int argc, const char* const* argv, const Setup& setup) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool colours = ::isatty(STDOUT_FILENO) != 0 && (!no_color || *no_color == '\0');
  const Streams streams{std::cout, std::cerr, colours, ::isatty(STDERR_FILENO) != 0};
  const int code = main(argc, argv, setup, streams);
  std::cout.flush();
  return std::cout ? code : kHarnessError;
}

}  // namespace rehearse::cli
