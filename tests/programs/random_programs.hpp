#pragma once

#include <rapidcheck/Gen.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <vector>

#include "runtime/worker/program.hpp"
#include "tests/programs/job_fixture.hpp"
#include "workloads/random_program.hpp"

/// Random programs as data, and the job that runs them.
namespace rehearse::programs {

/// Some random programs, run one after another. Leaves belong to logical workers, which `placement`
/// puts on ranks: the programs are the same for every placement.
struct Plan {
  std::uint64_t seed = 1;  ///< of leaves and faults
  bool float64 = false;
  std::vector<int> placement{0};  ///< logical worker -> rank; the first is on rank 0
  std::vector<workloads::Routine> programs;

  std::uint32_t logical_workers() const { return static_cast<std::uint32_t>(placement.size()); }
  int ranks() const;
  at::ScalarType dtype() const { return float64 ? at::kDouble : at::kFloat; }
};

/// For people: what to type to have it again.
void showValue(const Plan& plan, std::ostream& out);

/// What plans are drawn.
struct Shape {
  int workers_max = 8;
  std::uint32_t nodes_min = 5, nodes_max = 60;
  int programs = 1;
};
Plan draw_plan(Random& random, const Shape& shape);

/// Shrinks by taking out programs, instructions and bodies, then workers.
rc::Gen<Plan> plans(const Shape& shape);

/// Gradients of all logical leaves, leaf by leaf, program by program; undefined where none came.
using Gradients = std::vector<std::vector<at::Tensor>>;

/// The job of a plan. Each program is a step with a context and two backward passes over one graph;
/// rank 0 reads the gradients of every logical leaf and reports them as final parameters.
class PlanJob {
 public:
  /// With `second_order` the second pass is of a loss that holds the gradients of the first.
  explicit PlanJob(Plan plan, bool second_order = false);
  ~PlanJob();

  const Program& program() const;
  JobSetup setup() const;
  /// After a run in this process: since the last time.
  Gradients take_gradients();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The same gradients from plain single-process code, without any cut.
Gradients plain_gradients(const Plan& plan);

/// "" if `got` is `wanted` within the bound for single-process code: for each leaf, the largest
/// difference is at most 4e-6 (float32) or 1e-14 (float64) of the largest gradient.
std::string difference(const Gradients& got, const Gradients& wanted, bool float64);

}  // namespace rehearse::programs
