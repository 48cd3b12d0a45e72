#include "harness/runner/apart.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "harness/runner/outcome_codec.hpp"
#include "harness/runner/wall_time.hpp"
#include "runtime/real/descriptor.hpp"

namespace rehearse::harness {
namespace {

// The first byte says what follows.
enum class Tag : std::uint8_t { outcome, failed };

void write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody listens any more
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void write_tagged(int descriptor, Tag tag, std::span<const std::byte> bytes) {
  Bytes all{static_cast<std::byte>(tag)};
  all.insert(all.end(), bytes.begin(), bytes.end());
  write_all(descriptor, all);
}

[[noreturn]] void run_child(const Apart& apart, int descriptor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none{};
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // a signal for the caller may be blocked there
  if (!apart.command.empty()) {
    std::vector<std::string> words = apart.command;
    words.push_back(std::to_string(descriptor));
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    write_tagged(descriptor, Tag::failed,
                 bytes_of(fmt::format("cannot start {}: {}", words[0], std::strerror(errno))));
    ::_exit(127);
  }
  try {
    hand_over(apart.body(), descriptor);
  } catch (const std::exception& error) {
    write_tagged(descriptor, Tag::failed, bytes_of(error.what()));
    ::_exit(1);
  }
  ::_exit(0);
}

// SIGINT and SIGTERM, where the caller has blocked them: readable while one is pending.
class StopDescriptor {
 public:
  StopDescriptor() {
    sigset_t set{};
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    descriptor_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  int get() const { return descriptor_.get(); }

 private:
  real::Descriptor descriptor_;
};

int in_ms(Duration left) {
  constexpr std::int64_t kLongest = 1'000'000;
  if (left == Duration::max()) return -1;
  return static_cast<int>(
      std::min(kLongest, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

enum class Read { all, timed_out, stopped };

// Everything the child writes, until it closes its end.
Read read_all(int descriptor, Duration timeout, Bytes& bytes) {
  const WallTime time(timeout);
  const StopDescriptor stop;
  std::array<std::byte, 65536> chunk;
  for (;;) {
    pollfd ready[] = {{descriptor, POLLIN, 0}, {stop.get(), POLLIN, 0}};
    const int polled = ::poll(ready, 2, in_ms(time.left()));
    if (polled < 0 && errno == EINTR) continue;
    if (ready[1].revents != 0) return Read::stopped;
    if (polled == 0 && time.up()) return Read::timed_out;
    if (ready[0].revents == 0) continue;
    const ssize_t got = ::read(descriptor, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Read::all;
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + got);
  }
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

}  // namespace

void hand_over(const RunOutcome& outcome, int descriptor) {
  write_tagged(descriptor, Tag::outcome, encode(outcome));
}

Result<RunOutcome> run_apart(const Apart& apart, Duration timeout) {
  int ends[2];
  if (::pipe(ends) != 0)
    return Failure{Code::cannot_start, fmt::format("no pipe: {}", std::strerror(errno)), {}, 0};
  real::Descriptor reading(ends[0]), writing(ends[1]);
  std::fflush(nullptr);  // else the child writes it again
  const pid_t child = ::fork();
  if (child < 0)
    return Failure{Code::cannot_start, fmt::format("no process: {}", std::strerror(errno)), {}, 0};
  if (child == 0) {
    reading.reset();
    run_child(apart, writing.get());
  }
  writing.reset();
  Bytes bytes;
  const Read read = read_all(reading.get(), timeout, bytes);
  reading.reset();
  if (read != Read::all) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (read == Read::stopped)
    return Failure{Code::stopped, "the run was stopped by a signal", {}, 0};
  if (read == Read::timed_out) {
    RunOutcome outcome;
    outcome.end = RunOutcome::End::timed_out;
    return outcome;
  }
  const auto body = std::span(bytes).subspan(bytes.empty() ? 0 : 1);
  if (!bytes.empty() && bytes[0] == static_cast<std::byte>(Tag::outcome))
    return decode_outcome(body);
  const std::string said = bytes.empty() ? "" : fmt::format(": {}", text_of(body));
  return Failure{Code::remote_exception,
                 fmt::format("the process of the run {}{}", how_it_ended(status), said),
                 {},
                 0};
}

}  // namespace rehearse::harness
