#include "runtime/worker/worker_main.hpp"

#include <ATen/Version.h>
#include <fmt/format.h>

#include <vector>

#include "runtime/autograd/cut_autograd.hpp"
#include "runtime/autograd/uncut_autograd.hpp"
#include "runtime/rpc/agent.hpp"
#include "runtime/rpc/inline_calls.hpp"
#include "runtime/rpc/task_state.hpp"
#include "runtime/worker/finish.hpp"

namespace rehearse {

namespace {

// A task that begins draws by its place in the program; outside any context, by its number.
std::uint64_t seed_of_task(std::uint64_t job_seed, rpc::Places& places, TaskId task) {
  return rpc::seed_of(job_seed, places.current(), task.value);
}

}  // namespace

class UncutRun {
 public:
  rpc::InlineJob calls;
  autograd::UncutJob autograd;
  std::uint64_t job_seed = 0;
  rpc::Places places;
  rpc::TorchTaskState torch{[this](TaskId task) { return seed_of_task(job_seed, places, task); }};
  int returned = 0;
  std::vector<std::pair<Tasks*, TaskId>> waiting;
};

void DeleteUncutRun::operator()(UncutRun* run) const { delete run; }
std::unique_ptr<UncutRun, DeleteUncutRun> make_uncut_run() {
  return std::unique_ptr<UncutRun, DeleteUncutRun>(new UncutRun);
}

namespace {

const Workload& workload_of(const Program& program, const JobSpec& job) {
  const Workload* workload = program.find_workload(job.workload);
  if (!workload) {
    throw Error(Code::bad_argument,
                fmt::format("{} has no workload '{}'", program.name(), job.workload));
  }
  return *workload;
}

// From now on the running task has torch state and random numbers of its own.
void adopt(World& world, rpc::TorchTaskState& torch, rpc::Places& places) {
  world.tasks.add_hook(places);
  world.tasks.add_hook(torch);
  places.adopt(world.tasks.current());
  torch.adopt(world.tasks.current());
  torch.set_seed(world.tasks.current(), Hash64()
                                            .add(world.self.seed)
                                            .add("main")
                                            .add(static_cast<std::uint64_t>(world.self.rank))
                                            .value());
}

// A worker's layers, bottom up. Tasks refer to them, so they live until the last has ended.
struct CutRuntime {
  CutRuntime(World& world, const Program& program, const JobSpec& job, std::string cpu_class)
      : job_seed(world.self.seed),
        handlers(places, torch, world.self.seed),
        autograd(world, places),
        worker(world, handlers, job, autograd) {
    // What can fail comes first: hooks must outlive the tasks, and this would not.
    auto endpoint = world.net.open(world.self.name).or_throw();
    adopt(world, torch, places);
    auto owned = std::make_unique<rpc::Agent>(world, std::move(endpoint), worker,
                                              program.functions(), autograd, handlers);
    agent = owned.get();
    worker.connect(std::move(owned));
    finish.emplace(world, *agent, std::move(cpu_class));
    autograd.attach(*agent);
    agent->serve();
    own_tasks = places.tasks();
  }

  std::uint64_t job_seed;
  rpc::Places places;
  rpc::TorchTaskState torch{[this](TaskId task) { return seed_of_task(job_seed, places, task); }};
  rpc::HandlerState handlers;
  autograd::CutAutograd autograd;
  Worker worker;
  rpc::Agent* agent = nullptr;
  std::optional<Finish> finish;
  std::size_t own_tasks = 0;  ///< of the runtime itself, the main one included
};

// Closing a context reaches its participants by messages, handlers may still wait for workers that
// end only now, and what the program has kept may refer to other workers.
class Quiet {
 public:
  Quiet(World& world, CutRuntime& runtime)
      : world_(world),
        runtime_(runtime),
        deadline_(after(world.clock.now(), world.limits.linger)) {}

  void wait() {
    const rpc::CountedReferences& references = runtime_.agent->counted();
    wait_until([&] {
      return runtime_.autograd.live_contexts() == 0 && runtime_.agent->pending() == 0 &&
             (references.held() == 0 || only_own_tasks());
    });
    if (only_own_tasks()) runtime_.worker.forget_locals();  // else a task may be using them
    wait_until([&] { return references.held() == 0 && references.owned() == 0; });
  }

 private:
  bool only_own_tasks() const { return runtime_.places.tasks() == runtime_.own_tasks; }

  template <class Condition>
  void wait_until(Condition holds) {
    constexpr Duration kPause = std::chrono::microseconds(200);
    while (!holds() && world_.clock.now() < deadline_) {
      world_.clock.sleep_until(world_.clock.now() + kPause);
    }
  }

  World& world_;
  CutRuntime& runtime_;
  Time deadline_;
};

void run_cut(World& world, const Program& program, const JobSpec& job, std::string cpu_class) {
  const auto runtime = std::make_shared<CutRuntime>(world, program, job, std::move(cpu_class));
  world.tasks.keep(runtime);
  workload_of(program, job).body()(runtime->worker);
  if (runtime->worker.shutdown() == Worker::Shutdown::immediate) return;
  runtime->finish->wait();
  Quiet(world, *runtime).wait();
  world.events.count("contexts_live", static_cast<std::int64_t>(runtime->autograd.live_contexts()));
  world.events.count("passes_live", static_cast<std::int64_t>(runtime->autograd.live_passes()));
  const rpc::CountedReferences& references = runtime->agent->counted();
  world.events.count("values_live", static_cast<std::int64_t>(references.owned()));
  world.events.count("references_live", static_cast<std::int64_t>(references.held()));
  world.events.count("futures_live", static_cast<std::int64_t>(runtime->agent->pending()));
}

struct UncutRuntime {
  UncutRuntime(World& world, const Program& program, const JobSpec& job, UncutRun& run)
      : handlers(run.places, run.torch, world.self.seed),
        autograd(run.autograd, world, run.places),
        worker(world, handlers, job, autograd) {
    adopt(world, run.torch, run.places);
    worker.connect(std::make_unique<rpc::InlineCalls>(run.calls, world, worker, program.functions(),
                                                      autograd, handlers));
  }

  rpc::HandlerState handlers;
  autograd::UncutAutograd autograd;
  Worker worker;
};

void run_uncut(World& world, const Program& program, const JobSpec& job, UncutRun& run) {
  run.job_seed = world.self.seed;
  const auto runtime = std::make_shared<UncutRuntime>(world, program, job, run);
  world.tasks.keep(runtime);
  workload_of(program, job).body()(runtime->worker);
  // Others may still call this worker, in their own tasks.
  ++run.returned;
  for (const auto& [tasks, task] : run.waiting) tasks->unpark(task);
  run.waiting.emplace_back(&world.tasks, world.tasks.current());
  while (run.returned < world.self.world_size) {
    world.tasks.park(kNever, {"the end of the others' programs", {}});
  }
}

}  // namespace

void worker_main(World& world, const Program& program, const JobSpec& job, UncutRun* uncut,
                 std::string cpu_class) {
  if (uncut) {
    run_uncut(world, program, job, *uncut);
  } else {
    run_cut(world, program, job,
            cpu_class.empty() ? at::get_cpu_capability() : std::move(cpu_class));
  }
}

}  // namespace rehearse
