#include "app/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "app/later.hpp"
#include "harness/keys.hpp"
#include "harness/text.hpp"
#include "harness/units.hpp"

namespace rehearse::cli {
namespace {

using Command = CommandLine::Command;

/// Texts of options whose form is checked here rather than by CLI11, for better messages.
struct RawRun {
  std::string world, seed, timeout;
};

/// A usage error; its text is the message.
struct Refused {
  std::string message;
};

void add_run(CLI::App& app, CommandLine& line, RawRun& raw) {
  CLI::App* run = app.add_subcommand("run", "run scenarios and judge them");
  RunOptions& options = line.run;
  run->add_option("FILE|DIR", options.paths, "scenario files; of a directory, all *.toml below it")
      ->required();
  run->add_option("--world", raw.world, "sim, memory or processes (default: each of the file's)");
  run->add_option("--seed", raw.seed, "instead of the file's; `random` draws one and reports it");
  run->add_option("--repeat", options.repeat,
                  "run each case N times; with `--seed random`, another "
                  "seed each time")
      ->check(CLI::Range(1, 1'000'000));
  run->add_option("--set", options.overrides,
                  "override a value of the file by its dotted name: "
                  "KEY=VALUE, e.g. fault.worker-dies.when.step=6")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  run->add_option("--json", options.json,
                  "write the report to this file, and each scenario as it was run beside it; "
                  "- is standard output");
  run->add_flag("--check-determinism", options.check_determinism,
                "run each case twice, with another memory layout, and compare every event");
  run->add_flag("--list", options.list, "print the cases and run nothing");
  run->add_flag("--force", options.force, "allow a world that the file does not name");
  run->add_option("--timeout", raw.timeout, "wall time that a case may take, e.g. 60s");
  run->add_option(
      "--transport", options.transport,
      "between processes: tcp or shm (default: shared memory between workers of one host "
      "of the file, TCP between hosts)");
  run->add_flag("--fail-fast", options.fail_fast, "stop after the first case that does not pass");
  run->add_option("--filter", options.filter, "only files whose path matches this glob");
}

void add_others(CLI::App& app, CommandLine& line) {
  CLI::App* explain = app.add_subcommand("explain", "the plan of a scenario in words");
  explain->add_option("FILE", line.explain.file, "a scenario file")->required();
  explain->add_option("--set", line.explain.overrides, "as for run")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  CLI::App* schema = app.add_subcommand("schema", "print the JSON Schema of scenario files");
  schema->add_option("WHAT", line.what, "scenario (default) or report");
  CLI::App* list = app.add_subcommand("list", "print stable names");
  list->add_option("WHAT", line.what, fmt::format("{}", fmt::join(list_topics(), ", ")))
      ->required();
  list->add_flag("--json", line.json, "as JSON");
  CLI::App* doctor =
      app.add_subcommand("doctor", "what was found here, and what the absence of the rest costs");
  doctor->add_flag("--json", line.json, "as JSON");
  app.add_subcommand("version", "print the version");
  // Launchers start workers by it; no user types it.
  CLI::App* worker = app.add_subcommand("worker", "")->group("");
  worker->add_option("--spec-fd", line.spec_fd, "descriptor to read the worker's spec from")
      ->required();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Command command_of(const std::string& name) {
  if (name == "run") return Command::run;
  if (name == "explain") return Command::explain;
  if (name == "schema") return Command::schema;
  if (name == "list") return Command::list;
  if (name == "doctor") return Command::doctor;
  return name == "worker" ? Command::worker : Command::version;
}

void read_seed(const std::string& text, RunOptions& options) {
  if (text == "random") {
    options.random_seed = true;
    return;
  }
  std::int64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, seed);
  if (text.empty() || read.ec != std::errc() || read.ptr != end || seed < 0) {
    throw Refused{fmt::format("--seed {}: expected a number from 0 to 2^63 - 1, or `random`",
                              harness::in_quotes(text))};
  }
  options.seed = static_cast<std::uint64_t>(seed);
}

void finish_run(const CLI::App& run, const RawRun& raw, RunOptions& options) {
  if (run.count("--world") > 0) {
    options.world = harness::world_kind(raw.world);
    if (!options.world) {
      throw Refused{"unknown world " + harness::in_quotes(raw.world) +
                    harness::instead_of(raw.world, harness::world_names(), '`')};
    }
  }
  if (run.count("--seed") > 0) read_seed(raw.seed, options);
  if (run.count("--timeout") > 0) {
    auto timeout = harness::parse_duration(raw.timeout);
    if (!timeout.ok()) throw Refused{"--timeout: " + timeout.failure().message};
    options.timeout = timeout.value();
  }
  if (run.count("--transport") > 0 && options.transport != "tcp" && options.transport != "shm") {
    throw Refused{fmt::format("unknown transport {}, expected tcp or shm",
                              harness::in_quotes(options.transport))};
  }
  if (run.count("--json") > 0 && options.json.empty()) {
    throw Refused{"--json is empty, expected a file or -"};
  }
}

/// What CLI11 did not take: an option that does not exist, or one argument too many.
void refuse_extras(const CLI::App& command) {
  const auto extras = command.remaining();
  if (extras.empty()) return;
  const auto dash = [](const std::string& text) { return text.size() > 1 && text[0] == '-'; };
  const auto option = std::find_if(extras.begin(), extras.end(), dash);
  throw Refused{refuse_option(option != extras.end() ? *option : extras[0], command.get_name(),
                              option_names(command))};
}

CommandLine refused(const std::string& program, const std::string& message) {
  CommandLine line;
  line.text =
      fmt::format("{}: {} (`{} --help` lists commands and options)\n", program, message, program);
  line.exit_code = 2;
  return line;
}

CommandLine parse(CLI::App& app, int argc, const char* const* argv) {
  CommandLine line;
  RawRun raw;
  add_run(app, line, raw);
  add_others(app, line);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->allow_extras();
  }
  const std::string first = argc > 1 ? argv[1] : "";
  const auto known = command_names(app);
  if (!first.empty() && first[0] != '-' && first != "worker" &&
      std::find(known.begin(), known.end(), first) == known.end()) {
    throw Refused{refuse_command(first, known)};
  }
  if (first.starts_with("-") && first != "-h" && first != "--help" && first != "--version") {
    throw Refused{fmt::format("unknown option {}, expected a command first: {}",
                              harness::in_quotes(first), harness::one_of(known))};
  }
  app.parse(argc, argv);
  const CLI::App* command = app.get_subcommands().front();
  refuse_extras(*command);
  line.command = command_of(command->get_name());
  if (line.command == Command::run) finish_run(*command, raw, line.run);
  return line;
}

}  // namespace

std::vector<std::string> list_topics() {
  return {"kinds", "events", "phases", "messages", "workloads", "options", "checks", "codes"};
}

CommandLine parse_command_line(int argc, const char* const* argv, const std::string& program) {
  CLI::App app("Rehearse distributed training before you pay for it.", program);
  app.require_subcommand(1);
  app.set_version_flag("--version", "", "the same as `version`");
  app.footer(
      "Exit codes: 0 passed, 1 failed, 2 bad input, 3 error of the harness, 4 not deterministic,\n"
      "6 a fault never fired, 7 unrecoverable, 77 skipped, 124 timed out, 128+n ended by signal "
      "n.");
  try {
    return parse(app, argc, argv);
  } catch (const Refused& error) {
    return refused(program, error.message);
  } catch (const CLI::CallForVersion&) {
    CommandLine line;
    line.command = Command::version;
    return line;
  } catch (const CLI::CallForHelp&) {
    CommandLine line;
    line.text = app.help();
    return line;
  } catch (const CLI::ParseError& error) {
    if (argc <= 1) return refused(program, "no command, expected for instance `run FILE`");
    return refused(program, error.what());
  }
}

}  // namespace rehearse::cli
