#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/world/event.hpp"

namespace rehearse::harness {

/// The keys of one table of a scenario file. Parser and schema both work from these lists.
struct KeySet {
  std::string_view table;                   ///< "[cluster]", for messages
  std::span<const std::string_view> known;  ///< supported
  std::span<const std::string_view> later;  ///< part of the format, "not supported yet"
};

extern const KeySet kScenarioKeys;
extern const KeySet kClusterKeys;
extern const KeySet kLinkKeys;
extern const KeySet kHostKeys;
extern const KeySet kJobKeys;
extern const KeySet kFaultKeys;
extern const KeySet kWhoKeys;
extern const KeySet kWhenKeys;
extern const KeySet kExpectKeys;
extern const KeySet kOutcomeKeys;
extern const KeySet kClosenessKeys;

/// Kinds of faults that the format has and this version cannot do yet.
extern const std::span<const std::string_view> kLaterFaultKinds;
/// Workloads that the format has and this version cannot do yet.
extern const std::span<const std::string_view> kLaterWorkloads;
/// Error codes that the format has and this version never reports.
extern const std::span<const std::string_view> kLaterCodes;
/// Phases that the runtime sets by itself; programs may name others.
extern const std::span<const std::string_view> kPhases;
extern const std::span<const std::string_view> kLaterPhases;

/// Whether a fault can wait for it: not for what comes too late, or is none of the program's.
bool can_trigger(EventKind event);

bool contains(std::span<const std::string_view> names, std::string_view name);
std::vector<std::string> strings(std::span<const std::string_view> names);

/// What `rehearse list` prints of the runtime's closed sets, by their own `name()`.
std::vector<std::string> fault_kind_names();
std::vector<std::string> event_names();
std::vector<std::string> trigger_event_names();  ///< those that a fault can wait for
std::vector<std::string> message_names();
std::vector<std::string> code_names();  ///< without `ok`
std::vector<std::string> world_names();

}  // namespace rehearse::harness
