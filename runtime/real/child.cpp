#include "runtime/real/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "runtime/real/process_spec.hpp"

namespace rehearse::real {
namespace {

constexpr int kCannotExec = 127;

Failure cannot_start(const std::string& program, const std::string& why) {
  return {Code::cannot_start, fmt::format("cannot start '{}': {}", program, why), {}, 0};
}

void keep_on_exec(int descriptor) {
  ::fcntl(descriptor, F_SETFD, ::fcntl(descriptor, F_GETFD) & ~FD_CLOEXEC);
}

// In the child, before anything of the program runs.
void become_worker_process(const Child::Plan& plan, pid_t launcher) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(1);  // it has died in the meantime
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
  for (const int descriptor : plan.launchers_own) ::close(descriptor);
  const int log = ::open(plan.log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, 0);
  if (log >= 0) {
    ::dup2(log, 1);
    ::dup2(log, 2);
  }
  if (log > 2) ::close(log);
  if (nothing > 2) ::close(nothing);
}

[[noreturn]] void execute(const Child::Plan& plan, int spec, int error_pipe) {
  std::vector<std::string> words = plan.command;
  words.push_back("--spec-fd");
  words.push_back(std::to_string(spec));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const ProcessOptions& options = plan.options;
  for (const int kept :
       {spec, options.listener, options.local_listener, options.control, options.counts}) {
    if (kept >= 0) keep_on_exec(kept);
  }
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(error_pipe, &error, sizeof error);
  ::_exit(kCannotExec);
}

[[noreturn]] void run_forked(const Child::Plan& plan) {
  int code = 1;
  try {
    code = run_worker(plan.options, *plan.body);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  std::fflush(nullptr);
  ::_exit(code);
}

// 0, or why the program could not be executed. Returns as soon as it runs.
int exec_error(int pipe) {
  int error = 0;
  while (::read(pipe, &error, sizeof error) < 0 && errno == EINTR) {
  }
  return error;
}

}  // namespace

Child::Child(pid_t pid, Descriptor pidfd, Descriptor control)
    : pid_(pid), pidfd_(std::move(pidfd)), control_(std::move(control)) {}

Result<Child> Child::start(Plan plan) {
  const std::string program = plan.command.empty() ? plan.options.spec.name : plan.command[0];
  const Descriptor listener(plan.options.listener), local(plan.options.local_listener);
  std::array<int, 2> ends{}, pipe_ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0 ||
      ::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    return cannot_start(program, error_text(errno));
  }
  Descriptor ours(ends[0]), theirs(ends[1]), error_out(pipe_ends[0]), error_in(pipe_ends[1]);
  plan.options.control = theirs.get();
  plan.launchers_own.push_back(ours.get());
  plan.launchers_own.push_back(error_out.get());
  auto spec = spec_descriptor(plan.options);
  if (!spec.ok()) return spec.failure();
  const pid_t launcher = ::getpid();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start(program, error_text(errno));
  if (pid == 0) {
    become_worker_process(plan, launcher);
    if (!plan.command.empty()) execute(plan, spec.value().get(), error_in.get());
    error_in.reset();
    spec.value().reset();
    run_forked(plan);
  }
  ::setpgid(pid, pid);
  Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  Child child(pid, std::move(pidfd), std::move(ours));
  error_in.reset();
  if (plan.command.empty()) return child;
  if (const int error = exec_error(error_out.get()); error != 0) {
    return cannot_start(program, error_text(error));
  }
  return child;
}

Child::~Child() {
  if (!pidfd_.valid()) return;
  signal(SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

void Child::signal(int number) const { ::kill(-pid_, number); }

std::optional<Exit> Child::reap() {
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  if (::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  // Before it is reaped its number cannot belong to anybody else.
  signal(SIGKILL);
  ::waitid(P_PID, id, &info, WEXITED | WNOHANG);
  pidfd_.reset();
  if (info.si_code == CLD_EXITED) return Exit{info.si_status, 0};
  return Exit{128 + info.si_status, info.si_status};
}

}  // namespace rehearse::real
