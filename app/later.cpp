#include "app/later.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/text.hpp"

namespace rehearse::cli {
namespace {

constexpr std::array<std::string_view, 9> kCommands = {
    "check", "explore", "shrink", "replay", "diff", "negative", "launch", "init", "completion"};
constexpr std::array<std::string_view, 10> kRunOptions = {
    "--device", "--jobs",  "--shard",   "--time-scale",  "--junit",
    "--html",   "--trace", "--out-dir", "--annotations", "--fail-on-skip"};

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool is_later_command(std::string_view command) { return contains(kCommands, command); }
bool is_later_run_option(std::string_view option) { return contains(kRunOptions, option); }

std::string refuse_command(const std::string& command, const std::vector<std::string>& known) {
  if (is_later_command(command))
    return fmt::format("the command `{}` is not supported yet", command);
  return "unknown command " + harness::in_quotes(command) +
         harness::instead_of(command, known, '`');
}

std::string refuse_option(const std::string& option, const std::string& command,
                          const std::vector<std::string>& known) {
  const std::string name = option.substr(0, option.find('='));
  if (command == "run" && is_later_run_option(name)) {
    return fmt::format("the option `{}` of `run` is not supported yet", name);
  }
  if (!name.starts_with("-")) {
    return fmt::format("`{}` takes no further argument, got {}", command, harness::in_quotes(name));
  }
  const std::string near = harness::nearest(name, known);
  const std::string hint = near.empty() ? fmt::format("`{} --help` lists them", command)
                                        : fmt::format("did you mean `{}`?", near);
  return fmt::format("unknown option {} of `{}`, {}", harness::in_quotes(name), command, hint);
}

}  // namespace rehearse::cli
