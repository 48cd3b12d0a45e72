#include "tests/rpc/small_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rehearse::rpc {

struct SmallWorld::State {
  std::vector<RefTable> tables;
  std::vector<std::size_t> next;  // step of each program
  std::vector<Packet> packets;
  std::map<std::string, Held> held;
  std::set<RefId> made, freed, never_made;
  std::vector<bool> alive;
  int repeats = 0;
  bool died = false;
  std::string log;
};

SmallWorld::SmallWorld(std::uint16_t workers, std::vector<Step> program, Options options)
    : workers_(workers), programs_(workers), options_(options) {
  for (auto& step : program) programs_[step.worker].push_back(std::move(step));
}

Exploration SmallWorld::explore() const {
  State start;
  for (std::uint16_t worker = 0; worker < workers_; ++worker) start.tables.emplace_back(worker);
  start.next.assign(workers_, 0);
  start.alive.assign(workers_, true);
  start.repeats = options_.repeats;
  Exploration found;
  go_on(start, found);
  return found;
}

void SmallWorld::go_on(const State& state, Exploration& found) const {
  if (!found.violation.empty()) return;
  if (const std::string why = broken(state); !why.empty()) {
    found.violation = why + state.log;
    return;
  }
  bool stuck = true;
  for (std::uint16_t worker = 0; worker < workers_; ++worker) {
    if (!state.alive[worker] || state.next[worker] == programs_[worker].size()) continue;
    const Step& step = programs_[worker][state.next[worker]];
    if (!ready(state, step)) continue;
    stuck = false;
    State after = state;
    ++after.next[worker];
    run(after, step);
    go_on(after, found);
  }
  for (std::size_t i = 0; i < state.packets.size(); ++i) {
    if (!can_arrive(state, state.packets[i])) continue;
    stuck = false;
    State after = state;
    const Packet packet = state.packets[i];
    after.packets.erase(after.packets.begin() + static_cast<std::ptrdiff_t>(i));
    arrive(after, packet);
    go_on(after, found);
    if (packet.kind != Packet::Kind::table || state.repeats == 0 || packet.again) continue;
    State twice = std::move(after);
    --twice.repeats;
    twice.packets.push_back(packet);
    twice.packets.back().again = true;
    go_on(twice, found);
  }
  if (stuck) {
    ++found.orders;
    if (const std::string why = left_over(state); !why.empty()) found.violation = why + state.log;
  }
  if (!options_.dies || state.died || (stuck && state.packets.empty())) return;
  for (const bool messages_arrive : {false, true}) {
    State after = state;
    die(after, messages_arrive);
    go_on(after, found);
  }
}

bool SmallWorld::ready(const State& state, const Step& step) const {
  return step.what == Step::Do::own || step.what == Step::Do::mint ||
         state.held.contains(step.name);
}

// A worker's loss is told behind its last message.
bool SmallWorld::can_arrive(const State& state, const Packet& packet) const {
  return packet.kind != Packet::Kind::lost ||
         std::ranges::none_of(state.packets, [&](const Packet& other) {
           return other.kind != Packet::Kind::lost && other.from == packet.from &&
                  other.to == packet.to;
         });
}

void SmallWorld::run(State& state, const Step& step) const {
  state.log +=
      fmt::format("\n  w{} does {} {}", step.worker, static_cast<int>(step.what), step.name);
  RefTable& table = state.tables[step.worker];
  switch (step.what) {
    case Step::Do::own: {
      const Reference what = table.own();
      state.made.insert(what.ref);
      state.held[step.name] = {step.worker, what};
      break;
    }
    case Step::Do::mint: {
      const Reference what = table.mint(step.to);
      state.held[step.name] = {step.worker, what};
      state.packets.push_back({Packet::Kind::create, step.worker, step.to, {{}, what, {}}});
      break;
    }
    case Step::Do::give_up: {  // the owner's answer has not come in time
      const Failure late{Code::timed_out, "late", {}, 0};
      perform(state, step.worker, table.settle(state.held.at(step.name).what.fork, late));
      break;
    }
    case Step::Do::pass: {
      const Held& from = state.held.at(step.name);
      if (!table.status(from.what.fork).ok()) break;  // refused at the face
      const Reference child = table.share(from.what.fork, step.to);
      if (!state.alive[step.to]) break;
      state.packets.push_back(
          {Packet::Kind::carry, step.worker, step.to, {{}, child, {}}, step.arrives});
      break;
    }
    case Step::Do::drop: {
      Held& held = state.held.at(step.name);
      held.dropped = true;
      perform(state, step.worker, table.drop(held.what.fork));
      break;
    }
  }
}

void SmallWorld::arrive(State& state, const Packet& packet) const {
  state.log +=
      fmt::format("\n  w{} gets {} of w{}", packet.to, static_cast<int>(packet.kind), packet.from);
  if (packet.kind == Packet::Kind::table)
    state.log += fmt::format(" ({})", name(packet.message.kind));
  RefTable& table = state.tables[packet.to];
  const Reference& what = packet.message.what;
  switch (packet.kind) {
    case Packet::Kind::table:
      return perform(state, packet.to, table.hear(packet.from, packet.message));
    case Packet::Kind::create:
      state.made.insert(what.ref);
      perform(state, packet.to, table.created(packet.from, what));
      if (state.alive[packet.from])
        state.packets.push_back({Packet::Kind::created, packet.to, packet.from, packet.message});
      return;
    case Packet::Kind::created:
      return perform(state, packet.to, table.settle(what.fork, Status()));
    case Packet::Kind::carry: {
      auto actions = table.receive(packet.from, what);
      state.held[packet.arrives] = {packet.to, what};
      return perform(state, packet.to, std::move(*actions));
    }
    case Packet::Kind::lost:
      // Its call can get no answer.
      for (const auto& [name, held] : state.held) {
        const bool waits = held.worker == packet.to && held.what.ref.minter == packet.to;
        if (waits && held.what.ref.owner == packet.from)
          perform(state, packet.to,
                  table.settle(held.what.fork, Failure{Code::peer_lost, "lost", {}, 0}));
      }
      return perform(state, packet.to, table.peer_lost(packet.from, "killed"));
  }
}

void SmallWorld::die(State& state, bool messages_arrive) const {
  const std::uint16_t dead = *options_.dies;
  state.log += fmt::format("\n  w{} dies, {}", dead, messages_arrive ? "heard" : "cut off");
  state.died = true;
  state.alive[dead] = false;
  std::erase_if(state.packets, [&](const Packet& packet) {
    return packet.to == dead || (packet.from == dead && !messages_arrive);
  });
  for (std::uint16_t worker = 0; worker < workers_; ++worker) {
    if (worker != dead) state.packets.push_back({Packet::Kind::lost, dead, worker});
  }
}

void SmallWorld::perform(State& state, std::uint16_t at, RefTable::Actions actions) const {
  for (auto& action : actions) {
    if (auto* tell = std::get_if<RefTable::Tell>(&action)) {
      if (state.alive[tell->to])
        state.packets.push_back({Packet::Kind::table, at, tell->to, std::move(tell->message)});
    } else if (const auto* free = std::get_if<RefTable::Free>(&action)) {
      state.freed.insert(free->ref);
    } else if (const auto* never = std::get_if<RefTable::NeverMade>(&action)) {
      state.never_made.insert(never->ref);
    }
  }
}

// A value is freed only when no living worker can use it, and none is on its way to one. After a
// death, only who had heard from the owner can count on the value.
std::string SmallWorld::broken(const State& state) const {
  for (const auto& [name, held] : state.held) {
    if (held.dropped || !state.alive[held.worker] || !state.freed.contains(held.what.ref)) continue;
    const RefTable& table = state.tables[held.worker];
    const bool counts_on_it =
        state.died ? table.confirmed(held.what.fork) : table.status(held.what.fork).ok();
    if (counts_on_it) return fmt::format("freed though {} is held by w{}", name, held.worker);
  }
  for (const auto& [name, held] : state.held) {
    if (state.died || held.dropped) continue;
    const Status& status = state.tables[held.worker].status(held.what.fork);
    if (!status.ok() && status.code() != Code::timed_out)
      return fmt::format("{} fails: {}", name, status.failure().message);
  }
  for (const Packet& packet : state.packets) {
    if (!state.died && packet.kind == Packet::Kind::carry &&
        state.freed.contains(packet.message.what.ref)) {
      return fmt::format("freed though {} is on its way", packet.arrives);
    }
  }
  return {};
}

std::string SmallWorld::left_over(const State& state) const {
  for (std::uint16_t worker = 0; worker < workers_; ++worker) {
    if (!state.alive[worker]) continue;
    const RefTable& table = state.tables[worker];
    if (table.owned() != 0 || table.held() != 0)
      return fmt::format("w{} is left with {} values and {} references", worker, table.owned(),
                         table.held());
    if (!state.died && state.next[worker] != programs_[worker].size())
      return fmt::format("the program of w{} did not end", worker);
  }
  for (const RefId ref : state.made) {
    if (state.alive[ref.owner] && !state.freed.contains(ref)) return "a value was not freed";
  }
  return {};
}

}  // namespace rehearse::rpc
