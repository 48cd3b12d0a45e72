#include "harness/keys.hpp"

#include <algorithm>
#include <array>

#include "harness/scenario.hpp"
#include "runtime/world/message.hpp"

namespace rehearse::harness {
namespace {

using Name = std::string_view;

constexpr std::array<Name, 0> kNone = {};

constexpr std::array<Name, 8> kScenarioKnown = {"format",  "name", "seed",  "worlds",
                                                "cluster", "job",  "fault", "expect"};
constexpr std::array<Name, 6> kScenarioLater = {"devices", "requires", "heal_at",
                                                "elastic", "check",    "matrix"};
constexpr std::array<Name, 4> kClusterKnown = {"hosts", "workers_per_host", "link", "host"};
constexpr std::array<Name, 5> kClusterLater = {"gpus_per_host", "platform", "hosts_like",
                                               "networks", "routes"};
constexpr std::array<Name, 2> kLinkKnown = {"bandwidth", "latency"};
constexpr std::array<Name, 2> kHostKnown = {"speed", "memory_bandwidth"};
constexpr std::array<Name, 3> kJobKnown = {"workload", "steps", "options"};
constexpr std::array<Name, 6> kJobLater = {"logical_shards", "start", "command", "id",
                                           "run_id",         "after"};
constexpr std::array<Name, 9> kFaultKnown = {"id",      "kind", "who",    "when",   "for",
                                             "seen_as", "by",   "jitter", "message"};
constexpr std::array<Name, 27> kFaultLater = {
    "times",  "every",  "until",  "comes_back", "signal",    "code",         "notice",
    "to",     "factor", "groups", "direction",  "bandwidth", "latency",      "physical",
    "offset", "drift",  "jump",   "name",       "after",     "memory",       "above",
    "tensor", "bit",    "mode",   "data",       "op",        "answers_abort"};
constexpr std::array<Name, 5> kWhoKnown = {"rank", "worker", "link", "both", "everyone"};
constexpr std::array<Name, 6> kWhoLater = {"host", "supervisor", "store",
                                           "role", "random",     "all_but"};
constexpr std::array<Name, 7> kWhenKnown = {"step", "event", "time", "probability",
                                            "rank", "phase", "nth"};
constexpr std::array<Name, 8> kWhenLater = {"output",  "after", "plus",       "at",
                                            "message", "peer",  "generation", "micro_batch"};
constexpr std::array<Name, 4> kExpectKnown = {"gradients", "leaks", "final_parameters", "outcome"};
constexpr std::array<Name, 9> kExpectLater = {
    "recovers_within", "restarts",   "samples",   "caught_by",         "same_across",
    "detected_within", "lost_steps", "max_ratio", "membership_changes"};
constexpr std::array<Name, 4> kOutcomeKnown = {"fails_with", "on", "names", "within"};
constexpr std::array<Name, 2> kClosenessKnown = {"max_ulp", "relative"};

constexpr std::array<Name, 25> kLaterKinds = {
    "exit",           "abort",         "segfault",   "pause",      "signal",     "leave",
    "join",           "scale",         "host_slow",  "partition",  "link_slow",  "drop",
    "duplicate",      "corrupt",       "disconnect", "clock_skew", "disk_full",  "disk_slow",
    "disk_torn",      "out_of_memory", "bit_flip",   "store_down", "store_slow", "collective_error",
    "collective_hang"};
constexpr std::array<Name, 12> kLaterWorkloadNames = {
    "tensor_sharing",   "rpc_storm", "collectives", "data_parallel",
    "elastic_training", "pipeline",  "zero",        "tensor_parallel",
    "membership",       "process",   "checkpoint",  "command"};
constexpr std::array<Name, 7> kLaterCodeNames = {
    "restart_budget",     "rendezvous_timeout", "below_minimum", "collective_mismatch",
    "checkpoint_invalid", "stopped_by_signal",  "out_of_memory"};
constexpr std::array<Name, 3> kPhaseNames = {"forward", "backward", "optimizer"};
constexpr std::array<Name, 7> kLaterPhaseNames = {
    "start", "rendezvous", "all_reduce", "commit", "checkpoint", "heal", "shutdown"};

/// Records of the log that no task of the program stands at.
constexpr std::array<EventKind, 5> kNoTriggers = {EventKind::ended, EventKind::gradient,
                                                  EventKind::killed, EventKind::task_failed,
                                                  EventKind::fault_fired};

template <class Kind>
std::vector<std::string> names_of(int count, int first = 0) {
  std::vector<std::string> all;
  for (int i = first; i < count; ++i) all.emplace_back(name(static_cast<Kind>(i)));
  return all;
}

}  // namespace

const KeySet kScenarioKeys = {"a scenario", kScenarioKnown, kScenarioLater};
const KeySet kClusterKeys = {"[cluster]", kClusterKnown, kClusterLater};
const KeySet kLinkKeys = {"cluster.link", kLinkKnown, kNone};
const KeySet kHostKeys = {"cluster.host", kHostKnown, kNone};
const KeySet kJobKeys = {"[job]", kJobKnown, kJobLater};
const KeySet kFaultKeys = {"[[fault]]", kFaultKnown, kFaultLater};
const KeySet kWhoKeys = {"who", kWhoKnown, kWhoLater};
const KeySet kWhenKeys = {"when", kWhenKnown, kWhenLater};
const KeySet kExpectKeys = {"[expect]", kExpectKnown, kExpectLater};
const KeySet kOutcomeKeys = {"expect.outcome", kOutcomeKnown, kNone};
const KeySet kClosenessKeys = {"a closeness", kClosenessKnown, kNone};

const std::span<const Name> kLaterFaultKinds = kLaterKinds;
const std::span<const Name> kLaterWorkloads = kLaterWorkloadNames;
const std::span<const Name> kLaterCodes = kLaterCodeNames;
const std::span<const Name> kPhases = kPhaseNames;
const std::span<const Name> kLaterPhases = kLaterPhaseNames;

bool can_trigger(EventKind event) {
  return std::find(kNoTriggers.begin(), kNoTriggers.end(), event) == kNoTriggers.end();
}

bool contains(std::span<const Name> names, Name wanted) {
  return std::find(names.begin(), names.end(), wanted) != names.end();
}

std::vector<std::string> strings(std::span<const Name> names) {
  return {names.begin(), names.end()};
}

std::vector<std::string> fault_kind_names() { return names_of<FaultKind>(kFaultKinds); }
std::vector<std::string> event_names() { return names_of<EventKind>(kEventKinds); }
std::vector<std::string> trigger_event_names() {
  std::vector<std::string> all = event_names();
  std::erase_if(all, [](const std::string& event) { return !can_trigger(*event_kind(event)); });
  return all;
}
std::vector<std::string> message_names() { return names_of<MessageKind>(kMessageKinds); }
std::vector<std::string> code_names() { return names_of<Code>(kCodes, 1); }
std::vector<std::string> world_names() { return names_of<WorldKind>(kWorldKinds); }

}  // namespace rehearse::harness
