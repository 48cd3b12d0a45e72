#include "runtime/real/launcher.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

#include "runtime/base/random.hpp"
#include "tests/real/local_run.hpp"

namespace rehearse::real {
namespace {

using namespace std::chrono_literals;

// The body of workers that this program starts as programs of their own.
void spawned_body(World& world) {
  auto endpoint = world.net.open(world.self.name).or_throw();
  const int next = (world.self.rank + 1) % world.self.world_size;
  endpoint->send(find(world, fmt::format("w{}", next)), Lane::data, text(world.self.name))
      .or_throw();
  std::string heard = "lost";  // the next one may have ended before the one before has spoken
  while (heard == "lost") heard = hear(*endpoint, late(world));
  world.disk.put("heard", bytes_of(fmt::format("{} seed {}", heard, world.self.seed))).or_throw();
}

FaultSpec kill(std::vector<int> ranks, FaultTrigger when) {
  FaultSpec fault;
  fault.id = "kill";
  fault.kind = FaultKind::kill;
  fault.who = {FaultTarget::Kind::ranks, std::move(ranks), 0, 0, false};
  fault.when = std::move(when);
  return fault;
}

// Waits for a message that never comes.
void wait_for_ever(World& world) {
  auto endpoint = world.net.open(world.self.name).or_throw();
  world.disk.put("pid", bytes_of(std::to_string(::getpid()))).or_throw();
  endpoint->receive(kNever).or_throw();
}

bool alive(const std::string& pid) { return ::kill(std::stoi(pid), 0) == 0 || errno != ESRCH; }

TEST(Launcher, ProgramsAreStartedWithTheirSpecAndTalkToEachOther) {
  LocalRun run(3);
  run.options.command = {"/proc/self/exe"};
  run.options.seed = 77;
  const RunOutcome outcome = run.run();
  for (const WorkerOutcome& worker : outcome.workers) EXPECT_TRUE(worker.finished) << worker.name;
  EXPECT_EQ(run.left("w1", "heard"), "w0 seed 77");
  EXPECT_EQ(run.left("w0", "heard"), "w2 seed 77");
  EXPECT_EQ(outcome.counters.at("processes"), 3);
}

// Each greets everybody and waits until everybody has greeted it.
void greet_everybody(World& world) {
  // A time of its own, so that the order of starting is another one in each run.
  Random random = Random(world.self.seed).split(world.self.name);
  world.clock.sleep_until(world.clock.now() + random() % 40 * 1ms);
  auto endpoint = world.net.open(world.self.name).or_throw();
  const int others = world.self.world_size - 1;
  for (int rank = 0; rank <= others; ++rank) {
    if (rank == world.self.rank) continue;
    endpoint->send(find(world, fmt::format("w{}", rank)), Lane::data, text("hello")).or_throw();
  }
  int heard = 0;
  while (heard < others) heard += hear(*endpoint, late(world)) == "hello" ? 1 : 0;
  world.disk.put("heard", bytes_of(fmt::format("{} of {}", heard, others))).or_throw();
}

// Workers of several hosts, eight on each, whose programs begin in any order: everybody hears
// everybody, through shared memory or over TCP.
TEST(Launcher, WorldsOfOneTo64WorkersStartInAnyOrder) {
  for (const int workers : {1, 2, 9, 64}) {
    LocalRun run(workers);
    run.options.workers_per_host = 8;
    run.options.seed = static_cast<std::uint64_t>(workers);
    const RunOutcome outcome = run.run(greet_everybody);
    for (const WorkerOutcome& worker : outcome.workers) {
      EXPECT_TRUE(worker.finished) << worker.name;
      EXPECT_EQ(run.left(worker.name, "heard"), fmt::format("{0} of {0}", workers - 1));
    }
  }
}

// The number of descriptors that this process has open.
std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

// One process starts and ends a world again and again, now and then with a death in it: nothing of
// one is left in the next.
TEST(Launcher, AWorldStartsTwentyTimesInOneProcess) {
  const auto before = open_descriptors();
  for (int restart = 0; restart < 20; ++restart) {
    const bool dies = restart % 5 == 4;
    {
      LocalRun run(3, restart % 2 == 0 ? Transport::shm : Transport::tcp);
      const RunOutcome outcome = run.run([dies](World& world) {
        if (dies && world.self.rank == 2) ::kill(::getpid(), SIGKILL);
        if (!dies) greet_everybody(world);
      });
      EXPECT_TRUE(outcome.workers[0].finished) << restart;
      EXPECT_EQ(outcome.workers[2].finished, !dies) << restart;
    }
    EXPECT_EQ(open_descriptors(), before) << restart;
  }
}

// Two jobs of one machine at once, with the same names: none hears of the other.
TEST(Launcher, TwoJobsOfOneMachineDoNotMix) {
  std::array<std::unique_ptr<LocalRun>, 2> runs;
  std::array<pid_t, 2> launchers{};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i] = std::make_unique<LocalRun>(4);
    runs[i]->options.workers_per_host = 2;
    launchers[i] = ::fork();
    if (launchers[i] == 0) {
      const RunOutcome outcome = runs[i]->run(greet_everybody);
      const bool all = std::all_of(outcome.workers.begin(), outcome.workers.end(),
                                   [](const WorkerOutcome& each) { return each.finished; });
      ::_exit(all && !outcome.counters.contains("connections_refused") ? 0 : 1);
    }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    int status = 1;
    ::waitpid(launchers[i], &status, 0);
    EXPECT_EQ(status, 0);
    for (const char* worker : {"w0", "w1", "w2", "w3"}) {
      EXPECT_EQ(runs[i]->left(worker, "heard"), "3 of 3");
    }
  }
}

TEST(Launcher, AMissingProgramIsNamedWithTheReason) {
  LocalRun run(1);
  run.options.command = {"/nowhere/worker"};
  const RunOutcome outcome = run.run();
  ASSERT_TRUE(outcome.workers.at(0).failure);
  EXPECT_EQ(outcome.workers[0].failure->code, Code::cannot_start);
  EXPECT_EQ(outcome.workers[0].failure->message,
            "cannot start '/nowhere/worker': No such file or directory");
  EXPECT_FALSE(outcome.workers[0].finished);
}

TEST(Launcher, AProgramThatCrashesAtStartIsNamedWithItsStatusAndLastLines) {
  LocalRun run(1);
  run.options.command = {"/bin/sh", "-c", "echo the table is broken >&2; exit 3"};
  const WorkerOutcome worker = run.run().workers.at(0);
  ASSERT_TRUE(worker.failure);
  EXPECT_EQ(worker.failure->code, Code::cannot_start);
  EXPECT_EQ(worker.failure->message, "'/bin/sh' ended before it had started: exit status 3");
  EXPECT_EQ(worker.exit_code, 3);
  EXPECT_EQ(worker.last_lines, std::vector<std::string>{"the table is broken"});
}

// No descriptors are left for the listeners: the job is refused with the reason, nothing hangs.
TEST(Launcher, WithoutAPortForEachWorkerTheJobIsRefused) {
  LocalRun run(64);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{32, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  const RunOutcome outcome = run.run(wait_for_ever);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(outcome.workers.at(0).failure);
  EXPECT_EQ(outcome.workers[0].failure->code, Code::cannot_start);
  EXPECT_NE(outcome.workers[0].failure->message.find("Too many open files"), std::string::npos)
      << outcome.workers[0].failure->message;
}

// At the time limit all say whom they wait for; then they are ended, and nothing is left.
TEST(Launcher, AtTheTimeLimitTheWaitForGraphIsCollectedAndTheWorkersEnd) {
  LocalRun run(2);
  run.options.time_limit = 300ms;
  const RunOutcome outcome = run.run(wait_for_ever);
  EXPECT_EQ(outcome.end, RunOutcome::End::timed_out);
  ASSERT_EQ(outcome.waiting.size(), 2u);
  for (const WaitingTask& task : outcome.waiting) {
    EXPECT_EQ(task.task, "main");
    EXPECT_EQ(task.what, "a message");
    EXPECT_EQ(task.deadline, kNever);
  }
  EXPECT_NE(outcome.waiting[0].worker, outcome.waiting[1].worker);
  for (const char* worker : {"w0", "w1"}) EXPECT_FALSE(alive(run.left(worker, "pid"))) << worker;
}

// A worker that computes cannot answer and ignores TERM: it is killed all the same.
TEST(Launcher, AWorkerThatNeitherAnswersNorHeedsTermIsKilled) {
  LocalRun run(1);
  run.options.time_limit = 100ms;
  run.options.limits.stop_grace = 100ms;
  const RunOutcome outcome = run.run([](World&) {
    ::signal(SIGTERM, SIG_IGN);
    for (volatile int spin = 0;;) spin = spin + 1;
  });
  EXPECT_EQ(outcome.end, RunOutcome::End::timed_out);
  EXPECT_EQ(outcome.workers.at(0).signal, SIGKILL);
  ASSERT_EQ(outcome.notes.size(), 1u);
  EXPECT_EQ(outcome.notes[0], "w0 did not say whom it waits for: it computes or is stopped");
}

// A kill at a time is done once and counted once; the peer that talked to it hears the loss.
TEST(Launcher, AKillAtATimeStrikesOnceAndPeersHearIt) {
  LocalRun run(2);
  FaultTrigger when;
  when.time = Time(100ms);
  run.options.faults = {kill({1}, when)};
  const RunOutcome outcome = run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 1) endpoint->send(find(world, "w0"), Lane::data, text("hi")).or_throw();
    std::string heard = hear(*endpoint, late(world)) + " ";
    heard += hear(*endpoint, late(world));
    world.disk.put("heard", bytes_of(heard)).or_throw();
  });
  EXPECT_EQ(run.left("w0", "heard"), "hi lost");
  EXPECT_TRUE(outcome.workers[1].killed);
  EXPECT_EQ(outcome.workers[1].signal, SIGKILL);
  EXPECT_EQ(outcome.faults.at(0).fired, 1u);
  EXPECT_GE(outcome.faults[0].first_fired, Time(100ms));
}

// The trigger is another rank's step: the launcher kills, and what the killed one had put into the
// journal is kept.
TEST(Launcher, AStepOfOneWorkerKillsAnotherAndItsJournalIsKept) {
  LocalRun run(2);
  FaultTrigger when;
  when.anchor = FaultTrigger::Anchor::step;
  when.step = 4;
  when.rank = 0;
  run.options.faults = {kill({1}, when)};
  run.options.keep_events = true;
  const RunOutcome outcome = run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 1) {
      world.events.journal({.step = 2, .digest = 9, .values = {}});
      endpoint->send(find(world, "w0"), Lane::data, text("ready")).or_throw();
    }
    std::string heard = hear(*endpoint, late(world)) + " ";
    if (world.self.rank == 0) world.events.step(4);
    world.disk.put("heard", bytes_of(heard + hear(*endpoint, late(world)))).or_throw();
  });
  EXPECT_EQ(run.left("w0", "heard"), "ready lost");
  EXPECT_TRUE(outcome.workers[0].finished);
  EXPECT_TRUE(outcome.workers[1].killed);
  EXPECT_EQ(outcome.faults.at(0).fired, 1u);
  ASSERT_EQ(outcome.journal.size(), 1u);
  EXPECT_EQ(outcome.journal[0].digest, 9u);
  const auto lost = std::count_if(
      outcome.events.begin(), outcome.events.end(),
      [](const StampedEvent& event) { return event.event.kind == EventKind::peer_lost; });
  EXPECT_EQ(lost, 1);
}

// Three steps of two processes: the third of both together kills, whoever takes it.
TEST(Launcher, NthCountsWhatAllProcessesComeTo) {
  LocalRun run(2);
  FaultTrigger when;
  when.anchor = FaultTrigger::Anchor::step;
  when.step = 4;
  when.nth = 3;
  run.options.faults = {kill({0, 1}, when)};
  const RunOutcome outcome = run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 1) {
      world.events.step(4);
      endpoint->send(find(world, "w0"), Lane::data, text("one")).or_throw();
      hear(*endpoint, late(world));
    }
    hear(*endpoint, late(world));
    world.events.step(4);
    world.disk.put("two", bytes_of("two")).or_throw();
    world.events.step(4);
    world.disk.put("three", bytes_of("three")).or_throw();
  });
  EXPECT_EQ(run.left("w0", "two"), "two") << "one of w1 and one of its own";
  EXPECT_EQ(run.left("w0", "three"), "");
  EXPECT_TRUE(outcome.workers[0].killed);
  EXPECT_TRUE(outcome.workers[1].killed);
  EXPECT_EQ(outcome.faults.at(0).fired, 1u);
}

// The link sends `user` messages only; a delay of others has begun, and has not fired.
TEST(Launcher, ADelayThatStrikesNoMessageHasNotFired) {
  LocalRun run(2);
  FaultSpec fires = kill({}, {});
  fires.kind = FaultKind::delay;
  fires.who = {FaultTarget::Kind::link, {}, 0, 1, true};
  fires.when.anchor = FaultTrigger::Anchor::step;
  fires.when.step = 1;
  fires.by = 1ms;
  FaultSpec idle = fires;
  idle.messages = {MessageKind::grad};
  FaultSpec late_start = fires;
  late_start.when = {};
  run.options.faults = {fires, idle, late_start};
  const RunOutcome outcome = run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 0) {
      world.events.step(1);
      endpoint->send(find(world, "w1"), Lane::data, text("hi")).or_throw();
    }
    hear(*endpoint, late(world));
    if (world.self.rank == 1) {
      endpoint->send(find(world, "w0"), Lane::data, text("hi")).or_throw();
    }
  });
  EXPECT_EQ(outcome.faults.at(0).fired, 1u);
  EXPECT_EQ(outcome.faults.at(1).fired, 0u);
  EXPECT_EQ(outcome.faults.at(2).fired, 1u) << "at a time, in whichever process";
}

// The whole job is killed when its launcher dies: here a child that runs the job is killed.
TEST(Launcher, WorkersDieWithTheirLauncher) {
  LocalRun run(1);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    run.run(wait_for_ever);
    ::_exit(0);
  }
  std::string pid;
  while (pid.empty()) pid = run.left("w0", "pid");
  ASSERT_TRUE(alive(pid));
  ::kill(launcher, SIGKILL);
  int status = 0;
  ::waitpid(launcher, &status, 0);
  while (alive(pid)) ::usleep(1000);
}

// A signal to the launcher ends the workers, then the launcher itself as that signal does.
TEST(Launcher, ATermToTheLauncherEndsWorkersAndLauncher) {
  LocalRun run(1);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    run.run(wait_for_ever);
    ::_exit(0);
  }
  std::string pid;
  while (pid.empty()) pid = run.left("w0", "pid");
  ::kill(launcher, SIGTERM);
  int status = 0;
  ::waitpid(launcher, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_FALSE(alive(pid));
}

}  // namespace
}  // namespace rehearse::real

// Called again by itself as a worker.
int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--spec-fd") {
    return rehearse::real::run_spawned_worker(std::atoi(argv[2]), rehearse::real::spawned_body);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
