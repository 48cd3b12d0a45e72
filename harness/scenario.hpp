#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/catalogue.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/time.hpp"
#include "runtime/world/fault_plan.hpp"

namespace rehearse::harness {

/// Where a scenario runs.
enum class WorldKind : std::uint8_t { sim, memory, processes };
inline constexpr int kWorldKinds = 3;
std::string_view name(WorldKind world);
std::optional<WorldKind> world_kind(std::string_view name);

/// The machines. Every host is alike, and every two are joined by one link each way.
struct Cluster {
  std::int64_t hosts = 1;
  std::int64_t workers_per_host = 1;
  std::int64_t link_bits_per_s = 10'000'000'000;
  Duration link_latency = std::chrono::microseconds(50);
  std::int64_t host_flops_per_s = 50'000'000'000;
  std::int64_t memory_bits_per_s = 160'000'000'000;

  std::int64_t workers() const { return hosts * workers_per_host; }
};

struct Job {
  std::string workload;
  std::int64_t steps = 1;
  Options options;  ///< all that the workload declares, defaults filled in
};

/// How close values must be to those of the fault-free, uncut run.
struct Closeness {
  enum class Kind : std::uint8_t { bitwise, max_ulp, relative, unchecked } kind = Kind::bitwise;
  std::int64_t max_ulp = 0;
  double relative = 0;
};

/// How the job must end.
struct ExpectedOutcome {
  bool completes = true;
  Code fails_with = Code::ok;        ///< when it does not complete
  std::optional<FaultTarget> on;     ///< who must report the failure
  std::optional<FaultTarget> names;  ///< who must be named in its text
  std::optional<Duration> within;    ///< from the first fault fired, in world time
};

/// What must hold. What a file leaves out is checked by these defaults.
struct Expect {
  Closeness gradients;
  bool leaks_checked = true;
  std::optional<Closeness> final_parameters;  ///< only if asked for
  ExpectedOutcome outcome;
};

/// A scenario file, checked: ranks are in range, faults have one trigger, options are complete.
struct Scenario {
  std::string name;
  std::uint64_t seed = 1;
  std::vector<WorldKind> worlds = {WorldKind::sim};
  Cluster cluster;
  Job job;
  std::vector<FaultSpec> faults;
  Expect expect;
};

/// By how much `reorder` holds messages back at most, where the file does not say.
inline constexpr Duration kDefaultReorderBy = std::chrono::milliseconds(1);

}  // namespace rehearse::harness
