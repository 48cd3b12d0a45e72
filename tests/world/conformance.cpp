#include "tests/world/conformance.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/random.hpp"

namespace rehearse {

using namespace std::chrono_literals;

RunOutcome Conformance::run() {
  RunOutcome outcome = stage->run();
  EXPECT_EQ(outcome.end, RunOutcome::End::done);
  for (const WaitingTask& task : outcome.waiting) {
    ADD_FAILURE() << fmt::format("{} {} waits for {} {}", task.worker, task.task, task.what,
                                 task.whom);
  }
  return outcome;
}

FaultSpec kill_at_step(int rank, std::int64_t step) {
  FaultSpec spec;
  spec.id = fmt::format("kill-{}-at-step-{}", rank, step);
  spec.kind = FaultKind::kill;
  spec.who.kind = FaultTarget::Kind::ranks;
  spec.who.ranks = {rank};
  spec.when.anchor = FaultTrigger::Anchor::step;
  spec.when.step = step;
  return spec;
}

FaultSpec kill_at_event(int rank, EventKind event, std::uint64_t nth) {
  FaultSpec spec = kill_at_step(rank, 0);
  spec.id = fmt::format("kill-{}-at-event", rank);
  spec.when.anchor = FaultTrigger::Anchor::event;
  spec.when.event = event;
  spec.when.nth = nth;
  return spec;
}

Time soon(World& world, Duration length) { return world.clock.now() + length; }
Time late(World& world) { return world.clock.now() + 10s; }

std::unique_ptr<Endpoint> open_own(World& world) {
  return world.net.open(world.self.name).or_throw();
}

Address find(World& world, std::string_view name) {
  return world.net.find(name, late(world)).or_throw();
}

Message text_message(std::string_view text) { return {MessageKind::user, bytes_of(text), {}}; }

namespace {

Bytes pattern(std::size_t size_bytes) {
  Bytes bytes(size_bytes);
  Random random(size_bytes);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

std::string described(const Message& message) {
  for (const Payload& payload : message.payloads) {
    const Bytes expected = pattern(payload.size_bytes());
    if (!std::equal(expected.begin(), expected.end(), payload.bytes().begin())) return "damaged";
  }
  return std::string(text_of(message.header));
}

}  // namespace

Message payload_message(std::string_view text, std::size_t size_bytes) {
  Message message = text_message(text);
  const auto bytes = std::make_shared<const Bytes>(pattern(size_bytes));
  message.payloads.emplace_back(bytes, *bytes);
  return message;
}

void say(Endpoint& endpoint, const Address& to, std::string_view text, Lane lane) {
  endpoint.send(to, lane, text_message(text)).or_throw();
}

std::string hear(Endpoint& endpoint, Time deadline) {
  const Result<Envelope> envelope = endpoint.receive(deadline);
  if (!envelope.ok()) return std::string(name(envelope.code()));
  const auto& what = envelope.value().what;
  if (const auto* received = std::get_if<Received>(&what)) return described(received->message);
  return std::holds_alternative<PeerLost>(what) ? "lost" : "other news";
}

void leave(World& world, std::string_view text, std::string_view object) {
  world.disk.put(object, bytes_of(text)).or_throw();
}

}  // namespace rehearse
