#include "harness/runner/outcome_codec.hpp"

#include "runtime/base/codec.hpp"

namespace rehearse::harness {
namespace {

// One description of each struct serves both directions: `Out` writes a field, `In` reads it.
class Out {
 public:
  explicit Out(Bytes& to) : to_(to) {}
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(T& value) {
    to_.put(value);
  }
  void operator()(std::string& text) { to_.put_text(text); }
  void operator()(Time& time) { to_.put(time.time_since_epoch().count()); }
  void operator()(Bytes& bytes) { to_.put_bytes(bytes); }
  std::size_t count(std::size_t size) {
    to_.put_varint(size);
    return size;
  }

 private:
  Writer to_;
};

class In {
 public:
  explicit In(std::span<const std::byte> from) : from_(from) {}
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(T& value) {
    value = from_.get<T>();
  }
  void operator()(std::string& text) { text = from_.get_text(); }
  void operator()(Time& time) { time = Time(Duration(from_.get<Duration::rep>())); }
  void operator()(Bytes& bytes) {
    const auto held = from_.get_bytes();
    bytes.assign(held.begin(), held.end());
  }
  std::size_t count(std::size_t) { return from_.get_count(); }
  bool whole() const { return !from_.failed() && from_.left() == 0; }

 private:
  Reader from_;
};

template <class C, class T>
void field(C& code, T& value);

template <class C, class T>
void field(C& code, std::optional<T>& value) {
  bool has = value.has_value();
  code(has);
  if (!has) return;
  if (!value) value.emplace();
  field(code, *value);
}

template <class C, class T>
void field(C& code, std::vector<T>& values) {
  values.resize(code.count(values.size()));
  for (auto& value : values) field(code, value);
}

template <class C>
void field(C& code, Bytes& bytes) {
  code(bytes);
}

template <class C, class V>
void field(C& code, std::map<std::string, V>& values) {
  std::vector<std::pair<std::string, V>> list(values.begin(), values.end());
  list.resize(code.count(list.size()));
  for (auto& [key, value] : list) {
    field(code, key);
    field(code, value);
  }
  values = std::map<std::string, V>(list.begin(), list.end());
}

template <class C>
void fields(C& code, Failure& f) {
  for (auto* text : {&f.message, &f.worker}) field(code, *text);
  field(code, f.code);
  field(code, f.context);
}
template <class C>
void fields(C& code, WaitingTask& w) {
  for (auto* text : {&w.worker, &w.task, &w.what, &w.whom}) field(code, *text);
  field(code, w.duty);
  field(code, w.since);
  field(code, w.deadline);
}
template <class C>
void fields(C& code, WorkerOutcome& w) {
  for (auto* text : {&w.name, &w.log}) field(code, *text);
  for (auto* number : {&w.rank, &w.exit_code, &w.signal}) field(code, *number);
  for (auto* flag : {&w.finished, &w.killed}) field(code, *flag);
  field(code, w.failure);
  field(code, w.last_lines);
  field(code, w.digest);
  field(code, w.ended);
}
template <class C>
void fields(C& code, FaultOutcome& f) {
  field(code, f.fired);
  field(code, f.first_fired);
}
template <class C>
void fields(C& code, JournalEntry& e) {
  field(code, e.step);
  for (auto* number : {&e.ordinal, &e.pass, &e.leaf}) field(code, *number);
  for (auto* rank : {&e.creator, &e.owner}) field(code, *rank);
  field(code, e.digest);
  field(code, e.values);
}
template <class C>
void fields(C& code, StampedEvent& e) {
  field(code, e.event.kind);
  for (auto* number : {&e.event.peer, &e.rank, &e.phase}) field(code, *number);
  for (auto* number : {&e.event.subject, &e.event.amount, &e.lamport}) field(code, *number);
  field(code, e.generation);
  field(code, e.step);
  field(code, e.time);
}
template <class C>
void fields(C& code, RunOutcome& o) {
  field(code, o.end);
  field(code, o.world_end);
  field(code, o.workers);
  field(code, o.faults);
  field(code, o.journal);
  field(code, o.final_parameters);
  field(code, o.waiting);
  field(code, o.notes);
  field(code, o.counters);
  field(code, o.digests);
  field(code, o.digest);
  field(code, o.events);
  field(code, o.phases);
}

template <class C, class T>
void field(C& code, T& value) {
  if constexpr (requires { code(value); }) {
    code(value);
  } else {
    fields(code, value);
  }
}

}  // namespace

Bytes encode(const RunOutcome& outcome) {
  Bytes bytes;
  Out out(bytes);
  RunOutcome copy = outcome;  // the description takes fields by reference, for reading
  field(out, copy);
  return bytes;
}

Result<RunOutcome> decode_outcome(std::span<const std::byte> bytes) {
  RunOutcome outcome;
  In in(bytes);
  field(in, outcome);
  if (!in.whole()) return Failure{Code::corrupt, "the outcome of a run is cut short", {}, 0};
  return outcome;
}

}  // namespace rehearse::harness
