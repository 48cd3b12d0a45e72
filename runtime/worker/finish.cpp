#include "runtime/worker/finish.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "runtime/base/codec.hpp"

namespace rehearse {

Finish::Finish(World& world, rpc::Agent& agent, std::string cpu_class)
    : world_(world), agent_(agent), cpu_class_(std::move(cpu_class)) {
  agent.on(MessageKind::finished,
           [this](const Address& from, const Message& m) { on_finished(from.worker, m); });
  agent.on(MessageKind::join,
           [this](const Address& from, const Message&) { on_join(from.worker); });
  agent.on(MessageKind::release, [this](const Address&, const Message&) {
    released_ = true;
    wake();
  });
  agent.on_lost([this](std::uint16_t, const std::string&) { wake(); });
}

void Finish::wake() { world_.tasks.unpark(waiter_); }

int Finish::gatherer() const {
  int rank = 0;
  while (rank < world_.self.rank && agent_.lost(static_cast<std::uint16_t>(rank))) ++rank;
  return rank;
}

std::set<int> Finish::missing() const {
  std::set<int> ranks;
  for (int rank = 0; rank < world_.self.world_size; ++rank) {
    const auto worker = static_cast<std::uint16_t>(rank);
    if (rank != world_.self.rank && !finished_.contains(worker) && !agent_.lost(worker))
      ranks.insert(rank);
  }
  return ranks;
}

void Finish::tell(std::uint16_t gatherer) {
  if (!told_.insert(gatherer).second) return;
  Message message{MessageKind::finished, {}, {}};
  Writer(message.header).put_text(cpu_class_);
  agent_.post(gatherer, Lane::control, std::move(message));
}

// Asks everyone once: so that the loss of one that never spoke is told too.
void Finish::gather() {
  if (gathering_) return;
  gathering_ = true;
  for (const int rank : missing()) {
    agent_.post(static_cast<std::uint16_t>(rank), Lane::control, {MessageKind::join, {}, {}});
  }
}

void Finish::on_finished(std::uint16_t from, const Message& message) {
  finished_.insert(from);
  const std::string cpu_class(Reader(message.header).get_text());
  if (cpu_class != cpu_class_) other_classes_[from] = cpu_class;
  wake();
}

void Finish::on_join(std::uint16_t from) {
  asked_by_.insert(from);
  if (returned_) tell(from);
}

void Finish::wait() {
  returned_ = true;
  waiter_ = world_.tasks.current();
  for (const std::uint16_t asker : asked_by_) tell(asker);
  const Time deadline = after(world_.clock.now(), world_.limits.finish);
  while (!released_) {
    const int rank = gatherer();
    if (rank == world_.self.rank) {
      gather();
      if (missing().empty()) break;
    } else {
      tell(static_cast<std::uint16_t>(rank));
    }
    const Wake wake =
        world_.tasks.park(deadline, {"the end of the others' programs", worker_name(rank)});
    if (wake == Wake::unparked || released_) continue;
    world_.events.append({EventKind::deadline_fired, static_cast<std::uint16_t>(rank), 0, 0});
    throw Error(Code::timed_out,
                fmt::format("the programs of ranks {} did not end in time", missing()));
  }
  if (!gathering_) return;
  release_all();
  check_classes();
}

void Finish::release_all() {
  for (const std::uint16_t other : finished_) {
    if (!agent_.lost(other)) agent_.post(other, Lane::control, {MessageKind::release, {}, {}});
  }
}

void Finish::check_classes() const {
  if (other_classes_.empty() || !world_.limits.journal_gradients) return;
  const auto& [worker, cpu_class] = *other_classes_.begin();
  throw Error(Code::bad_argument,
              fmt::format("gradients cannot be compared bit for bit: w{} computes with {}, {} with "
                          "{}; use CPUs of one class",
                          worker, cpu_class, world_.self.name, cpu_class_));
}

}  // namespace rehearse
