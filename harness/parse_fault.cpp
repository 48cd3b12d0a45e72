#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/fields.hpp"
#include "harness/parse_parts.hpp"
#include "harness/text.hpp"
#include "harness/units.hpp"

namespace rehearse::harness {
namespace {

using Anchor = FaultTrigger::Anchor;

/// One element, or each of a list.
std::vector<const Value*> each(const Value& value) {
  if (value.type != Value::Type::array) return {&value};
  std::vector<const Value*> items;
  for (const Value& item : value.items) items.push_back(&item);
  return items;
}

void add_rank(int rank, const Value& value, FaultTarget& target, ParseContext& context) {
  if (std::count(target.ranks.begin(), target.ranks.end(), rank) > 0) {
    context.problems.add(value.place, fmt::format("worker {} is named twice, expected once", rank));
    return;
  }
  target.ranks.push_back(rank);
}

std::optional<int> rank_of(const Value& value, const std::string& path, ParseContext& context) {
  const std::int64_t last = context.workers - 1;
  if (value.type == Value::Type::integer && (value.integer < 0 || value.integer > last)) {
    context.problems.add(value.place,
                         fmt::format("`{}`: rank {} is out of range, expected 0 to {}: "
                                     "[cluster] has {} workers",
                                     path, value.integer, last, context.workers));
    return std::nullopt;
  }
  const auto rank = integer_of(value, path, 0, last, context.problems);
  return rank ? std::optional<int>(static_cast<int>(*rank)) : std::nullopt;
}

/// "w3" is the slot that the worker with rank 3 starts in.
std::optional<int> slot_of(const Value& value, const std::string& path, ParseContext& context) {
  const auto name = text_of_value(value, path, "\"w0\"", context.problems);
  if (!name) return std::nullopt;
  for (std::int64_t rank = 0; rank < context.workers; ++rank) {
    if (worker_name(rank) == *name) return static_cast<int>(rank);
  }
  context.problems.add(value.place,
                       fmt::format("unknown worker {}, expected \"w0\" to \"{}\"", in_quotes(*name),
                                   worker_name(context.workers - 1)));
  return std::nullopt;
}

template <class ReadOne>
void read_ranks(const Value& value, const std::string& path, FaultTarget& target,
                ParseContext& context, ReadOne read_one) {
  target.kind = FaultTarget::Kind::ranks;
  const auto items = each(value);
  if (items.empty()) {
    context.problems.add(value.place, fmt::format("`{}` is empty, expected one or more", path));
  }
  for (const Value* item : items) {
    if (auto rank = read_one(*item, path, context)) add_rank(*rank, *item, target, context);
  }
}

void read_link_target(const Value& value, const std::string& path, FaultTarget& target,
                      ParseContext& context) {
  target.kind = FaultTarget::Kind::link;
  if (value.type != Value::Type::array || value.items.size() != 2) {
    context.problems.add(value.place, wrong_type(path, value, "two ranks such as [0, 1]"));
    return;
  }
  const auto from = rank_of(value.items[0], path, context);
  const auto to = rank_of(value.items[1], path, context);
  if (!from || !to) return;
  target.from = *from;
  target.to = *to;
  if (*from == *to) {
    context.problems.add(value.place, fmt::format("`{}` joins rank {} with itself, expected two "
                                                  "different ranks such as [0, 1]",
                                                  path, *from));
  }
}

/// `true` is the only value that says something; `false` is taken as left out.
bool read_true(Fields& fields, std::string_view key) {
  const Value* value = fields.find(key);
  if (!value) return false;
  if (value->type == Value::Type::boolean) return value->boolean;
  fields.refuse(value->place, wrong_type(fields.path_of(key), *value, "true"));
  return false;
}

std::vector<std::string_view> present(const Fields& fields,
                                      std::initializer_list<std::string_view> keys) {
  std::vector<std::string_view> found;
  for (const std::string_view key : keys) {
    if (fields.find(key)) found.push_back(key);
  }
  return found;
}

/// A problem unless exactly one of `keys` is there; `what` is what they are: "trigger".
bool exactly_one(Fields& fields, std::initializer_list<std::string_view> keys,
                 std::string_view what, const std::string& path) {
  const auto found = present(fields, keys);
  if (found.size() == 1) return true;
  std::vector<std::string> names(keys.begin(), keys.end());
  const std::string expected = fmt::format("expected exactly one of {}", one_of(names));
  if (found.empty()) {
    fields.refuse(fields.place(), fmt::format("`{}` has no {}, {}", path, what, expected));
  } else {
    fields.refuse(fields.key_place(found[1]),
                  fmt::format("`{}` has {} {}s ({}), {}", path, found.size(), what,
                              fmt::join(found, ", "), expected));
  }
  return false;
}

Anchor anchor_of(const Fields& when) {
  if (when.find("step")) return Anchor::step;
  if (when.find("event")) return Anchor::event;
  return when.find("time") ? Anchor::time : Anchor::probability;
}

void read_event(Fields& when, FaultTrigger& trigger) {
  const auto event = when.text("event", "\"pass_started\"");
  if (!event) return;
  if (auto kind = event_kind(*event); kind && can_trigger(*kind)) {
    trigger.event = *kind;
  } else if (kind) {
    when.refuse(
        when.find("event")->place,
        "`" + *event + "` comes when it is too late for a fault, or is none of the program's");
  } else {
    when.refuse(when.find("event")->place, unknown_name("event", *event, trigger_event_names()));
  }
}

/// A program names phases as it likes, but one that is nearly a name of ours is a slip.
bool is_phase_of_a_program(const std::string& phase) {
  constexpr std::size_t kSlip = 2;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_-";
  if (phase.empty() || phase.find_first_not_of(kLetters) != std::string::npos) return false;
  if (contains(kLaterPhases, phase)) return false;
  return std::none_of(kPhases.begin(), kPhases.end(),
                      [&](std::string_view known) { return edit_distance(phase, known) <= kSlip; });
}

void read_phase(Fields& when, FaultTrigger& trigger) {
  const auto phase = when.text("phase", "\"backward\"");
  if (!phase) return;
  trigger.phase = *phase;
  if (contains(kPhases, *phase) || is_phase_of_a_program(*phase)) return;
  const Place& place = when.find("phase")->place;
  const bool later = contains(kLaterPhases, *phase);
  when.refuse(place, later ? not_supported_yet(fmt::format("phase \"{}\"", *phase))
                           : unknown_name("phase", *phase, strings(kPhases)) +
                                 ", or a phase that the program names: [a-z0-9_-]+");
}

/// A key that narrows another anchor than the one given.
void only_with(Fields& when, std::string_view key, bool fits, std::string_view anchors) {
  if (fits || !when.find(key)) return;
  when.refuse(when.key_place(key),
              fmt::format("`{}` narrows nothing here, expected it only beside {}",
                          when.path_of(key), anchors));
}

void read_anchor(Fields& when, FaultTrigger& trigger, ParseContext& context) {
  switch (trigger.anchor) {
    case Anchor::step:
      if (auto step = when.integer("step", 0, std::numeric_limits<std::int64_t>::max())) {
        trigger.step = *step;
      }
      break;
    case Anchor::event:
      read_event(when, trigger);
      break;
    case Anchor::time:
      if (auto time = when.quantity("time", parse_duration, "2s")) trigger.time = Time(*time);
      break;
    case Anchor::probability:
      if (auto chance = number_of(*when.find("probability"), when.path_of("probability"), 0, 1,
                                  context.problems)) {
        trigger.probability = *chance;
      }
      break;
  }
}

FaultTrigger read_when(const Value& value, const std::string& path, ParseContext& context) {
  FaultTrigger trigger;
  Fields when(value, kWhenKeys, path, context.problems);
  // A trigger of a later version has been refused already; "no trigger" would only confuse.
  if (when.find("output") || when.find("after")) return trigger;
  if (!exactly_one(when, {"step", "event", "time", "probability"}, "trigger", path)) return trigger;
  trigger.anchor = anchor_of(when);
  read_anchor(when, trigger, context);
  const bool at_step = trigger.anchor == Anchor::step, at_event = trigger.anchor == Anchor::event;
  only_with(when, "phase", at_step, "`step`");
  only_with(when, "rank", at_step, "`step`");
  only_with(when, "nth", at_step || at_event, "`step` or `event`");
  read_phase(when, trigger);
  if (const Value* rank = when.find("rank")) trigger.rank = rank_of(*rank, path + ".rank", context);
  constexpr std::int64_t kMaxNth = std::numeric_limits<std::int64_t>::max();
  if (auto nth = when.integer("nth", 1, kMaxNth)) trigger.nth = static_cast<std::uint64_t>(*nth);
  return trigger;
}

std::optional<MessageKind> message_kind(std::string_view text) {
  for (int i = 0; i < kMessageKinds; ++i) {
    if (name(static_cast<MessageKind>(i)) == text) return static_cast<MessageKind>(i);
  }
  return std::nullopt;
}

void read_messages(Fields& fault, FaultSpec& spec, ParseContext& context) {
  const Value* value = fault.find("message");
  if (!value) return;
  if (each(*value).empty()) {
    return fault.refuse(value->place, "`message` names no message; leave it out for all of them");
  }
  for (const Value* item : each(*value)) {
    const auto text = text_of_value(*item, fault.path_of("message"), "\"grad\"", context.problems);
    if (!text) continue;
    if (auto kind = message_kind(*text)) {
      spec.messages.push_back(*kind);
    } else {
      fault.refuse(item->place, unknown_name("message", *text, message_names()));
    }
  }
}

bool read_kind(Fields& fault, FaultSpec& spec) {
  if (!fault.required("kind", "`kind = \"kill\"`")) return false;
  const auto kind = fault.text("kind", "\"kill\"");
  if (!kind) return false;
  const auto kinds = fault_kind_names();
  const auto found = std::find(kinds.begin(), kinds.end(), *kind);
  if (found != kinds.end()) {
    spec.kind = static_cast<FaultKind>(found - kinds.begin());
    return true;
  }
  const bool later = contains(kLaterFaultKinds, *kind);
  fault.refuse(fault.find("kind")->place, later
                                              ? not_supported_yet(fmt::format("kind \"{}\"", *kind))
                                              : unknown_name("kind", *kind, kinds));
  return false;
}

void refuse_keys(Fields& fault, std::initializer_list<std::string_view> keys, std::string_view kind,
                 std::string_view belongs_to) {
  for (const std::string_view key : present(fault, keys)) {
    fault.refuse(fault.key_place(key),
                 fmt::format("`{}` is no field of kind \"{}\", expected it only "
                             "with {}",
                             key, kind, belongs_to));
  }
}

void read_kill(Fields& fault, FaultSpec& spec) {
  refuse_keys(fault, {"by", "jitter", "message"}, "kill", "delay and reorder");
  if (fault.find("for")) {
    fault.refuse(
        fault.key_place("for"),
        "`for` on a kill is not supported yet: a killed worker comes back only in an elastic "
        "job; expected no `for`");
  }
  if (spec.who.kind == FaultTarget::Kind::link) {
    fault.refuse(fault.key_place("who"),
                 "a kill takes no link, expected `who` with rank, worker or everyone");
  }
  const Value* seen = fault.find("seen_as");
  if (seen && seen->type == Value::Type::array) {
    fault.refuse(seen->place, not_supported_yet("a list in `seen_as`"));
    return;
  }
  const auto seen_as = fault.text("seen_as", "\"reset\" or \"silent\"");
  if (seen_as == "silent") {
    spec.seen_as = SeenAs::silent;
  } else if (seen_as && seen_as != "reset") {
    fault.refuse(seen->place, unknown_name("value of `seen_as`:", *seen_as, {"reset", "silent"}));
  }
}

void read_disturbance(Fields& fault, FaultSpec& spec, ParseContext& context) {
  const std::string_view kind = name(spec.kind);
  refuse_keys(fault, {"seen_as"}, kind, "kill");
  if (const Value* lasts = fault.find("for"); lasts && lasts->type == Value::Type::table) {
    fault.refuse(lasts->place, not_supported_yet("a table in `for`"));
  } else if (auto duration = fault.quantity("for", parse_duration, "2s")) {
    spec.lasts = *duration;
  }
  spec.by = fault.quantity("by", parse_duration, "5ms").value_or(Duration(0));
  spec.jitter = fault.quantity("jitter", parse_duration, "1ms").value_or(Duration(0));
  if (spec.kind == FaultKind::reorder) {
    refuse_keys(fault, {"jitter"}, kind, "delay");
    if (!fault.find("by")) spec.by = kDefaultReorderBy;
  } else if (!fault.find("by") && !fault.find("jitter")) {
    fault.refuse(fault.place(),
                 "a delay without a length, expected `by` or `jitter` such as \"5ms\"");
  }
  read_messages(fault, spec, context);
}

void read_id(Fields& fault, FaultSpec& spec, const std::vector<FaultSpec>& others) {
  if (!fault.required("id", "`id = \"worker-dies\"`")) return;
  const auto id = fault.text("id", "\"worker-dies\"");
  if (!id) return;
  spec.id = *id;
  const Place& place = fault.find("id")->place;
  if (!is_slug(*id)) {
    fault.refuse(place, fmt::format("fault id {} is no slug, expected lower-case letters, digits "
                                    "and dashes such as \"worker-dies\"",
                                    in_quotes(*id)));
  }
  const auto same = [&](const FaultSpec& other) { return other.id == *id; };
  if (std::any_of(others.begin(), others.end(), same)) {
    fault.refuse(place,
                 fmt::format("two faults with the id {}, expected each id once", in_quotes(*id)));
  }
}

FaultSpec read_fault(const Value& value, const std::vector<FaultSpec>& others,
                     ParseContext& context) {
  FaultSpec spec;
  Fields fault(value, kFaultKeys, "fault", context.problems);
  read_id(fault, spec, others);
  if (fault.required("who", "`who = { rank = 2 }`")) {
    if (const Value* who = fault.table("who", "{ rank = 2 }")) {
      if (auto target = read_who(*who, "fault.who", context)) spec.who = *target;
    }
  }
  if (fault.required("when", "`when = { step = 5 }`")) {
    if (const Value* when = fault.table("when", "{ step = 5 }")) {
      spec.when = read_when(*when, "fault.when", context);
    }
  }
  if (!read_kind(fault, spec)) return spec;
  if (spec.kind == FaultKind::kill) {
    read_kill(fault, spec);
  } else {
    read_disturbance(fault, spec, context);
  }
  return spec;
}

}  // namespace

std::optional<FaultTarget> read_who(const Value& value, const std::string& path,
                                    ParseContext& context) {
  Fields who(value, kWhoKeys, path, context.problems);
  for (const std::string_view later : kWhoKeys.later) {
    if (who.find(later)) return std::nullopt;
  }
  if (!exactly_one(who, {"rank", "worker", "link", "everyone"}, "target", path))
    return std::nullopt;
  FaultTarget target;
  if (const Value* rank = who.find("rank")) {
    read_ranks(*rank, path + ".rank", target, context, rank_of);
  } else if (const Value* worker = who.find("worker")) {
    read_ranks(*worker, path + ".worker", target, context, slot_of);
  } else if (const Value* link = who.find("link")) {
    read_link_target(*link, path + ".link", target, context);
    target.both = read_true(who, "both");
  } else if (!read_true(who, "everyone")) {
    who.refuse(who.find("everyone")->place, "`everyone` is not true, expected `everyone = true`");
  }
  only_with(who, "both", target.kind == FaultTarget::Kind::link, "`link`");
  return target;
}

std::vector<FaultSpec> read_faults(const Value& value, ParseContext& context) {
  std::vector<FaultSpec> faults;
  if (value.type != Value::Type::array) {
    context.problems.add(value.place, wrong_type("fault", value, "tables written as [[fault]]"));
    return faults;
  }
  for (const Value& item : value.items) {
    if (item.type == Value::Type::table) {
      faults.push_back(read_fault(item, faults, context));
    } else {
      context.problems.add(item.place, wrong_type("fault", item, "a table written as [[fault]]"));
    }
  }
  return faults;
}

}  // namespace rehearse::harness
