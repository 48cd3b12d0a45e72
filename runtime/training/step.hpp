#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "runtime/autograd/ids.hpp"

namespace rehearse::training {

using autograd::ContextId;
using autograd::WorkerId;

/// One attempt at a step. The attempts of one trainer are numbered in the order in which they
/// begin.
struct StepId {
  WorkerId trainer = 0;
  std::uint64_t attempt = 0;
  auto operator<=>(const StepId&) const = default;
};

/// Which of two steps goes first where they meet: the smaller, older one. A step keeps its age over
/// all its attempts, so it becomes the oldest at last. `turn` is a Lamport clock of steps: a new
/// step's is above all that its trainer has heard of, so nobody is overtaken for ever.
struct StepAge {
  std::uint64_t turn = 0;
  ContextId context = 0;
  WorkerId trainer = 0;
  std::uint64_t first_attempt = 0;
  auto operator<=>(const StepAge&) const = default;
};

/// What an owner is told of a step that it shall prepare.
struct Ticket {
  StepId id;
  StepAge age;
  std::vector<WorkerId> owners;  ///< all of the step, this one included
  std::uint64_t settled_below =
      0;  ///< every owner knows how the trainer's attempts below this ended
  auto operator<=>(const Ticket&) const = default;
};

enum class StepVerdict : std::uint8_t { unknown, committed, aborted };

}  // namespace rehearse::training
