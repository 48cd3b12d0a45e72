#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>

#include "runtime/virtual/constant_physics.hpp"
#include "runtime/virtual/job.hpp"

namespace rehearse::virtual_world {

using namespace std::chrono_literals;

/// 10 us between hosts, one flop a nanosecond: times can be read off.
inline ConstantPhysicsOptions plain_physics() {
  ConstantPhysicsOptions options;
  options.latency = 10us;
  options.bandwidth_bytes_per_s = 1'000'000'000;
  options.speed_flops_per_s = 1'000'000'000;
  return options;
}

inline Message text_message(std::string_view text) {
  return {MessageKind::user, bytes_of(text), {}};
}

inline std::string describe(const Result<Envelope>& envelope) {
  if (!envelope.ok()) return std::string(name(envelope.code()));
  if (const auto* received = std::get_if<Received>(&envelope.value().what)) {
    return std::string(text_of(received->message.header));
  }
  const auto* lost = std::get_if<PeerLost>(&envelope.value().what);
  return lost ? "lost: " + std::string(name(lost->cause)) : "other news";
}

inline std::unique_ptr<Endpoint> open_own(World& world) {
  return world.net.open(world.self.name).or_throw();
}

inline std::int64_t micros(World& world) { return world.clock.now().time_since_epoch() / 1us; }

inline FaultSpec kill_at(int rank, Time time, SeenAs seen_as = SeenAs::reset) {
  FaultSpec spec;
  spec.id = "kill";
  spec.kind = FaultKind::kill;
  spec.who.kind = FaultTarget::Kind::ranks;
  spec.who.ranks = {rank};
  spec.when.anchor = FaultTrigger::Anchor::time;
  spec.when.time = time;
  spec.seen_as = seen_as;
  return spec;
}

inline FaultSpec kill_at_step(int rank, std::int64_t step) {
  FaultSpec spec = kill_at(rank, Time{});
  spec.when.anchor = FaultTrigger::Anchor::step;
  spec.when.step = step;
  return spec;
}

}  // namespace rehearse::virtual_world
