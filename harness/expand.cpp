#include "harness/expand.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace rehearse::harness {
namespace {

using Anchor = FaultTrigger::Anchor;
/// Keys and their values as TOML.
using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Unit {
  std::int64_t size;
  const char* name;
};

/// Exact: in the largest unit of which it is a whole number.
template <std::size_t N>
std::string in_units(std::int64_t amount, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (amount % unit.size == 0) return fmt::format("\"{}{}\"", amount / unit.size, unit.name);
  }
  return {};
}

std::string duration(Duration duration) {
  constexpr std::array<Unit, 4> kUnits = {
      {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}, {1, "ns"}}};
  return in_units(duration.count(), kUnits);
}

std::string bandwidth(std::int64_t bits_per_s) {
  constexpr std::array<Unit, 4> kUnits = {
      {{1'000'000'000, "Gbps"}, {1'000'000, "Mbps"}, {1'000, "Kbps"}, {1, "bps"}}};
  return in_units(bits_per_s, kUnits);
}

std::string speed(std::int64_t flops_per_s) {
  constexpr std::array<Unit, 4> kUnits = {
      {{1'000'000'000, "Gf"}, {1'000'000, "Mf"}, {1'000, "Kf"}, {1, "f"}}};
  return in_units(flops_per_s, kUnits);
}

/// TOML's basic strings are JSON's, but for one letter.
std::string toml_text(std::string_view text) {
  std::string all;
  for (const char letter : nlohmann::json(text).dump()) {
    all += letter == '\x7f' ? std::string("\\u007F") : std::string(1, letter);
  }
  return all;
}

std::string inline_table(const Pairs& pairs) {
  std::string all;
  for (const auto& [key, value] : pairs)
    all += fmt::format("{}{} = {}", all.empty() ? "" : ", ", key, value);
  return pairs.empty() ? "{}" : "{ " + all + " }";
}

std::string lines(const Pairs& pairs) {
  std::string all;
  for (const auto& [key, value] : pairs) all += fmt::format("{} = {}\n", key, value);
  return all;
}

std::string option(const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return toml_text(*text);
  return to_text(value);
}

std::string who(const FaultTarget& target) {
  switch (target.kind) {
    case FaultTarget::Kind::ranks:
      return inline_table({{"rank", fmt::format("[{}]", fmt::join(target.ranks, ", "))}});
    case FaultTarget::Kind::link: {
      Pairs pairs{{"link", fmt::format("[{}, {}]", target.from, target.to)}};
      if (target.both) pairs.emplace_back("both", "true");
      return inline_table(pairs);
    }
    case FaultTarget::Kind::everyone:
      break;
  }
  return inline_table({{"everyone", "true"}});
}

std::string when(const FaultTrigger& trigger) {
  Pairs pairs;
  switch (trigger.anchor) {
    case Anchor::step:
      pairs.emplace_back("step", std::to_string(trigger.step));
      if (!trigger.phase.empty()) pairs.emplace_back("phase", toml_text(trigger.phase));
      if (trigger.rank) pairs.emplace_back("rank", std::to_string(*trigger.rank));
      break;
    case Anchor::event:
      pairs.emplace_back("event", toml_text(name(trigger.event)));
      break;
    case Anchor::time:
      pairs.emplace_back("time", duration(trigger.time.time_since_epoch()));
      break;
    case Anchor::probability:
      pairs.emplace_back("probability", fmt::format("{}", trigger.probability));
      break;
  }
  if (trigger.nth != 1) pairs.emplace_back("nth", std::to_string(trigger.nth));
  return inline_table(pairs);
}

std::string fault(const FaultSpec& spec) {
  Pairs pairs{{"id", toml_text(spec.id)},
              {"kind", toml_text(name(spec.kind))},
              {"who", who(spec.who)},
              {"when", when(spec.when)}};
  if (spec.kind == FaultKind::kill) {
    pairs.emplace_back("seen_as", spec.seen_as == SeenAs::silent ? "\"silent\"" : "\"reset\"");
  } else {
    if (spec.lasts != Duration::max()) pairs.emplace_back("for", duration(spec.lasts));
    if (spec.by != Duration(0)) pairs.emplace_back("by", duration(spec.by));
    if (spec.jitter != Duration(0)) pairs.emplace_back("jitter", duration(spec.jitter));
  }
  std::vector<std::string> messages;
  for (const MessageKind kind : spec.messages) messages.push_back(toml_text(name(kind)));
  if (!messages.empty())
    pairs.emplace_back("message", fmt::format("[{}]", fmt::join(messages, ", ")));
  return "\n[[fault]]\n" + lines(pairs);
}

std::string closeness(const Closeness& closeness) {
  switch (closeness.kind) {
    case Closeness::Kind::max_ulp:
      return inline_table({{"max_ulp", std::to_string(closeness.max_ulp)}});
    case Closeness::Kind::relative:
      return inline_table({{"relative", fmt::format("{}", closeness.relative)}});
    case Closeness::Kind::unchecked:
      return "\"unchecked\"";
    case Closeness::Kind::bitwise:
      break;
  }
  return "\"bitwise\"";
}

std::string outcome(const ExpectedOutcome& expected) {
  if (expected.completes) return "\"completes\"";
  Pairs pairs{{"fails_with", toml_text(name(expected.fails_with))}};
  if (expected.on) pairs.emplace_back("on", who(*expected.on));
  if (expected.names) pairs.emplace_back("names", who(*expected.names));
  if (expected.within) pairs.emplace_back("within", duration(*expected.within));
  return inline_table(pairs);
}

std::string cluster(const Cluster& machines) {
  return "\n[cluster]\n" +
         lines({{"hosts", std::to_string(machines.hosts)},
                {"workers_per_host", std::to_string(machines.workers_per_host)},
                {"link", inline_table({{"bandwidth", bandwidth(machines.link_bits_per_s)},
                                       {"latency", duration(machines.link_latency)}})},
                {"host",
                 inline_table({{"speed", speed(machines.host_flops_per_s)},
                               {"memory_bandwidth", bandwidth(machines.memory_bits_per_s)}})}});
}

std::string job(const Job& work) {
  Pairs options;
  for (const auto& [key, value] : work.options) options.emplace_back(key, option(value));
  return "\n[job]\n" + lines({{"workload", toml_text(work.workload)},
                              {"steps", std::to_string(work.steps)},
                              {"options", inline_table(options)}});
}

std::string expect(const Expect& expected) {
  Pairs pairs{{"gradients", closeness(expected.gradients)},
              {"leaks", expected.leaks_checked ? "\"none\"" : "\"unchecked\""},
              {"outcome", outcome(expected.outcome)}};
  if (expected.final_parameters) {
    pairs.emplace_back("final_parameters", closeness(*expected.final_parameters));
  }
  return "\n[expect]\n" + lines(pairs);
}

}  // namespace

std::string expanded(const Scenario& scenario, WorldKind world) {
  std::string text = lines({{"format", "1"},
                            {"name", toml_text(scenario.name)},
                            {"seed", std::to_string(scenario.seed)},
                            {"worlds", fmt::format("[{}]", toml_text(name(world)))}});
  text += cluster(scenario.cluster) + job(scenario.job);
  for (const FaultSpec& spec : scenario.faults) text += fault(spec);
  return text + expect(scenario.expect);
}

}  // namespace rehearse::harness
