#include "runtime/real/local_job.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <utility>

namespace rehearse::real {
namespace {

constexpr Duration kAnswerWithin = std::chrono::milliseconds(300);
constexpr Duration kTerminateWithinMax = std::chrono::seconds(30);

std::int64_t monotonic_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::uint64_t drawn_job() {
  std::uint64_t job = 0;
  while (job == 0) {
    if (::getrandom(&job, sizeof job, 0) < 0) job = static_cast<std::uint64_t>(monotonic_ns());
  }
  return job;
}

std::string name_of(const LocalJobOptions& options, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return index < options.names.size() ? options.names[index] : worker_name(rank);
}

int remaining_ms(Time until, Time now) {
  if (until == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

// SIGINT and SIGTERM arrive at a descriptor while this lives, unless they are ignored.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM}) {
      struct sigaction now {};
      ::sigaction(number, nullptr, &now);
      // A shell that starts it in the background has it ignored, so that Ctrl-C is for others.
      if (now.sa_handler != SIG_IGN) sigaddset(&set_, number);
    }
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~HeldSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  Descriptor descriptor() const {
    return Descriptor(::signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC));
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

}  // namespace

LocalJob::LocalJob(const LocalJobOptions& options)
    : options_(options),
      job_(options.job != 0 ? options.job : drawn_job()),
      start_ns_(monotonic_ns()),
      engine_(options.faults, options.seed, options.workers) {
  for (int rank = 0; rank < options.workers; ++rank) {
    Member member;
    member.name = name_of(options, rank);
    member.outcome.name = member.name;
    member.outcome.rank = rank;
    member.outcome.log = log_path(options.run_directory, member.name);
    members_.push_back(std::move(member));
  }
}

Time LocalJob::now() const { return Time(Duration(monotonic_ns() - start_ns_)); }

RunOutcome LocalJob::run() {
  {
    const HeldSignals held;
    signals_ = held.descriptor();
    if (Failure failure = prepare(); failure.code == Code::ok) {
      loop();
    } else if (!members_.empty()) {
      members_[0].failure = std::move(failure);
    }
    collect();
    signals_.reset();
  }
  if (stopped_by_ != 0) ::raise(stopped_by_);
  return std::move(outcome_);
}

Failure LocalJob::prepare() {
  std::error_code error;
  std::filesystem::create_directories(options_.run_directory, error);
  if (error) {
    return {Code::cannot_start,
            fmt::format("cannot create '{}': {}", options_.run_directory, error.message()),
            {},
            0};
  }
  if (!options_.faults.empty()) {
    auto counts = SharedCounts::create(options_.faults.size());
    if (!counts.ok()) return counts.failure();
    counts_.emplace(std::move(counts).or_throw());
  }
  // Every listener is there before the first worker runs: so a refused connection means a process
  // that is gone, not one that has not started.
  std::vector<Door> doors;
  for (const Member& member : members_) {
    auto door = open_door(member.outcome.rank);
    if (!door.ok()) return door.failure();
    Address address;
    address.job = job_;
    address.generation = options_.generation;
    address.worker = static_cast<std::uint16_t>(doors.size());
    address.incarnation = 1;
    book_.push_back({member.name, address, door.value().tcp.place});
    doors.push_back(std::move(door).or_throw());
  }
  start_all(std::move(doors));
  return {};
}

Result<LocalJob::Door> LocalJob::open_door(int rank) const {
  auto tcp = listen_on_loopback();
  if (!tcp.ok()) return tcp.failure();
  auto local = listen_locally();
  if (!local.ok()) return local.failure();
  Door door{std::move(tcp).or_throw(), std::move(local).or_throw()};
  door.tcp.place.node = rank / std::max(1, options_.workers_per_host);
  door.tcp.place.local = door.local.name;
  return door;
}

void LocalJob::start_all(std::vector<Door> doors) {
  for (int rank = 0; rank < options_.workers; ++rank) {
    Member& member = members_[static_cast<std::size_t>(rank)];
    Child::Plan plan;
    plan.command = options_.command;
    plan.body = &options_.body;
    Door& door = doors[static_cast<std::size_t>(rank)];
    plan.options = process_options(rank, door);
    plan.log_path = member.outcome.log;
    plan.launchers_own = own_descriptors();
    door.tcp.socket.release();  // the plan has them
    door.local.socket.release();
    for (const Door& other : doors) {
      for (const int descriptor : {other.tcp.socket.get(), other.local.socket.get()}) {
        if (descriptor >= 0) plan.launchers_own.push_back(descriptor);
      }
    }
    auto child = Child::start(std::move(plan));
    if (child.ok()) {
      member.child = std::move(child).or_throw();
    } else {
      member.failure = child.failure();
      ended(member, {0, 0});
    }
  }
}

ProcessOptions LocalJob::process_options(int rank, const Door& door) const {
  const auto index = static_cast<std::size_t>(rank);
  ProcessOptions process;
  process.spec.address = book_[index].address;
  process.spec.name = book_[index].name;
  process.spec.rank = rank;
  process.spec.world_size = options_.workers;
  process.spec.local_rank = rank % std::max(1, options_.workers_per_host);
  process.spec.seed = options_.seed;
  process.limits = options_.limits;
  process.book = book_;
  process.faults = options_.faults;
  process.listener = door.tcp.socket.get();
  process.local_listener = door.local.socket.get();
  process.transport = options_.transport;
  if (counts_) process.counts = counts_->descriptor();
  process.start_ns = start_ns_;
  process.disk_directory = disk_path(options_.run_directory, book_[index].name);
  if (options_.keep_events) {
    process.events_path = events_path(options_.run_directory, book_[index].name);
  }
  process.spin = options_.workers <= static_cast<int>(std::thread::hardware_concurrency());
  return process;
}

std::vector<int> LocalJob::own_descriptors() const {
  std::vector<int> own{signals_.get()};
  for (const Member& member : members_) {
    if (!member.child) continue;
    own.push_back(member.child->pidfd());
    own.push_back(const_cast<Child&>(*member.child).control().descriptor());
  }
  return own;
}

bool LocalJob::running() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.child.has_value(); });
}

void LocalJob::loop() {
  enter(Stage::running, after(Time{}, options_.time_limit));
  while (running()) {
    wait_for_news();
    const Time time = now();
    on_time(time);
    advance(time);
  }
  outcome_.world_end = now();
}

void LocalJob::wait_for_news() {
  std::vector<pollfd> watched{{signals_.get(), POLLIN, 0}};
  std::vector<Member*> whose;
  for (Member& member : members_) {
    if (!member.child) continue;
    watched.push_back({member.child->pidfd(), POLLIN, 0});
    watched.push_back({member.child->control().descriptor(), POLLIN, 0});
    whose.push_back(&member);
  }
  if (::poll(watched.data(), watched.size(), remaining_ms(next_deadline(), now())) <= 0) return;
  if (watched[0].revents != 0) take_signal();
  for (std::size_t i = 0; i < whose.size(); ++i) {
    const bool has_ended = watched[1 + 2 * i].revents != 0;
    if (has_ended || watched[2 + 2 * i].revents != 0) listen_to(*whose[i]);
    if (has_ended) reap(*whose[i]);
  }
}

Time LocalJob::next_deadline() const {
  return std::min(stage_until_, stage_ == Stage::running ? engine_.next_time() : kNever);
}

void LocalJob::on_time(Time now) {
  if (stage_ != Stage::running || engine_.next_time() > now) return;
  for (const Firing& firing : engine_.on_time(now)) kill(firing.kills);
}

void LocalJob::enter(Stage stage, Time until) {
  stage_ = stage;
  stage_until_ = until;
}

bool LocalJob::all_answered() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& member) { return !member.child || member.answered; });
}

// From asking whom they wait for, to TERM, to KILL.
void LocalJob::advance(Time now) {
  if (now < stage_until_ && !(stage_ == Stage::asking && all_answered())) return;
  switch (stage_) {
    case Stage::running:
      outcome_.end = RunOutcome::End::timed_out;
      broadcast(AskWaitingRecord{});
      return enter(Stage::asking, after(now, kAnswerWithin));
    case Stage::asking:
      for (Member& member : members_) {
        if (!member.child) continue;
        if (!member.answered) {
          outcome_.notes.push_back(fmt::format(
              "{} did not say whom it waits for: it computes or is stopped", member.name));
        }
        member.child->signal(SIGTERM);
      }
      return enter(Stage::terminating,
                   after(now, std::min(options_.limits.stop_grace, kTerminateWithinMax)));
    case Stage::terminating:
    case Stage::killing:
      for (Member& member : members_) {
        if (member.child) member.child->signal(SIGKILL);
      }
      return enter(Stage::killing, kNever);
  }
}

void LocalJob::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
  stopped_by_ = static_cast<int>(info.ssi_signo);
  enter(Stage::terminating, Time::min());
}

void LocalJob::listen_to(Member& member) {
  member.child->control().receive();
  while (auto record = member.child->control().next()) {
    std::visit([&](const auto& what) { handle(member, what); }, *record);
  }
}

void LocalJob::reap(Member& member) {
  const auto exit = member.child->reap();
  if (!exit) return;
  member.child.reset();
  ended(member, *exit);
}

void LocalJob::kill(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    Member& member = members_[static_cast<std::size_t>(rank)];
    if (member.child) member.child->signal(SIGKILL);
  }
}

void LocalJob::broadcast(const Record& record, const Member* except) {
  for (Member& member : members_) {
    if (member.child && &member != except) member.child->control().send(record);
  }
}

}  // namespace rehearse::real
