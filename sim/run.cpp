#include "sim/run.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <exception>
#include <iterator>
#include <simgrid/s4u.hpp>
#include <vector>

#include "runtime/base/error.hpp"
#include "sim/simgrid_physics.hpp"
// After SimGrid's other headers, whose macros it uses.
#include <simgrid/version.h>

namespace rehearse::sim {
namespace {

namespace sg = simgrid::s4u;

#if defined(__SANITIZE_ADDRESS__)
constexpr auto kContexts =
    "--cfg=contexts/factory:thread";  // its other stacks confuse the sanitizer
#else
constexpr auto kContexts = "--cfg=contexts/factory:raw";
#endif

/// CM02 is max-min sharing alone. LV08, the default, multiplies latency by 13 and lowers bandwidth,
/// as fits TCP on clusters of 2008. A flow is not capped by window / latency, and one flow's
/// acknowledgements do not use the other direction.
/// The precision is that of time in seconds, too: flows that end within it end together.
constexpr const char* kArguments[] = {
    "rehearse",
    "--log=root.thresh:warning",
    kContexts,
    "--cfg=contexts/stack-size:8192",
    "--cfg=network/model:CM02",
    "--cfg=network/latency-factor:1",
    "--cfg=network/bandwidth-factor:1",
    "--cfg=network/weight-S:0",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    "--cfg=surf/precision:1e-12",
};

/// SimGrid installs handlers for these; a program's own come back when this is gone.
class SignalHandlers {
 public:
  SignalHandlers() {
    for (std::size_t index = 0; index < std::size(kSignals); ++index) {
      sigaction(kSignals[index], nullptr, &saved_[index]);
    }
  }
  ~SignalHandlers() {
    for (std::size_t index = 0; index < std::size(kSignals); ++index) {
      sigaction(kSignals[index], &saved_[index], nullptr);
    }
  }
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGSEGV, SIGBUS};
  struct sigaction saved_[std::size(kSignals)] = {};
};

/// Never deleted: it is the mark that this process has had its simulation.
sg::Engine& create_engine() {
  if (sg::Engine::has_instance()) {
    throw Error(Code::cannot_start,
                "this process has run a SimGrid simulation already; fork for each run");
  }
  const SignalHandlers handlers;
  int count = std::size(kArguments);
  std::vector<char*> arguments;
  for (const char* argument : kArguments) arguments.push_back(const_cast<char*>(argument));
  arguments.push_back(nullptr);
  return *new sg::Engine(&count, arguments.data());
}

}  // namespace

void run_under_simgrid(const ClusterSpec& cluster,
                       const std::function<void(virtual_world::Physics&)>& body) {
  sg::Engine& engine = create_engine();
  const Platform platform = build_platform(cluster);
  std::exception_ptr problem;
  sg::Actor::create("conductor", platform.observer, [&] {
    try {
      SimgridPhysics physics(cluster, platform.hosts);
      body(physics);
    } catch (const simgrid::ForcefulKillException&) {
      throw;
    } catch (...) {
      problem = std::current_exception();
    }
  });
  engine.run();
  if (problem) std::rethrow_exception(problem);
}

std::string describe_model() {
  return fmt::format(
      "SimGrid {}.{}, CM02 (max-min fair sharing, no TCP corrections, no cross traffic)",
      SIMGRID_VERSION_MAJOR, SIMGRID_VERSION_MINOR);
}

}  // namespace rehearse::sim
