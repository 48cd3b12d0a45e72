// Random lives of a job of three workers, against a model that knows the rules of differentiation
// and who is dead: contexts, calls of every form, remote references, passes, optimizer steps,
// deaths.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/life/live.hpp"

namespace rehearse::life {
namespace {

using programs::In;

// A job for each life, so that somebody may die in each, at any moment.
RC_GTEST_PROP(ALife, IsAsTheModelSaysInMemory, ()) {
  const auto lives = *rc::gen::container<std::vector<Script>>(10, scripts(30, true));
  for (const Script& life : lives) RC_ASSERT(differences(In::memory, {life}) == "");
}

// A simulation costs a process, so each has many lives; in the last somebody dies.
RC_GTEST_PROP(ALife, IsAsTheModelSaysInSim, ()) {
  if (programs::worlds().size() < 3) RC_DISCARD("built without SimGrid");
  std::vector<Script> lives = *rc::gen::container<std::vector<Script>>(49, scripts(20, false));
  lives.push_back(*scripts(20, true));
  if (lives.back().death && !lives.back().death->line) lives.back().death->line = 5;
  RC_ASSERT(differences(In::sim, lives) == "");
}

}  // namespace
}  // namespace rehearse::life
