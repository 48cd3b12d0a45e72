#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "tests/world/stage.hpp"

/// What every world must do. Link `world_conformance` and instantiate the suite with a stage:
///
///   INSTANTIATE_TEST_SUITE_P(memory, Conformance, testing::Values(MakeStage(&make_memory_stage)));
namespace rehearse {

class Conformance : public testing::TestWithParam<MakeStage> {
 protected:
  void add(std::string worker, std::function<void(World&)> body) {
    stage->add(std::move(worker), std::move(body));
  }
  /// Runs, and expects that the run ended by itself.
  RunOutcome run();
  std::string left(const std::string& worker, const std::string& object = "heard") {
    return stage->left(worker, object);
  }

  std::unique_ptr<Stage> stage = GetParam()();
};

/// A fault that kills `rank` when it says that it is in `step`.
FaultSpec kill_at_step(int rank, std::int64_t step);
/// A fault that kills `rank` at its `nth` event of a kind, before what the event announces.
FaultSpec kill_at_event(int rank, EventKind event, std::uint64_t nth);

/// Helpers of bodies. What fails in them throws, which ends the worker as failed.
Time soon(World& world, Duration length);
/// A deadline that only a broken world reaches.
Time late(World& world);
std::unique_ptr<Endpoint> open_own(World& world);
Address find(World& world, std::string_view name);
Message text_message(std::string_view text);
Message payload_message(std::string_view text, std::size_t size_bytes);
void say(Endpoint& endpoint, const Address& to, std::string_view text, Lane lane = Lane::control);
/// "ping 3", "lost", "timed_out", "stopped"; "damaged" if a payload is not what was sent.
std::string hear(Endpoint& endpoint, Time deadline);
void leave(World& world, std::string_view text, std::string_view object = "heard");

}  // namespace rehearse
