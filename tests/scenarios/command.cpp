#include "tests/scenarios/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <stdexcept>

namespace rehearse::scenarios {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
};

[[noreturn]] void become(const std::vector<std::string>& words, const Pipe& out, const Pipe& err) {
  ::dup2(out.write_end, 1);
  ::dup2(err.write_end, 2);
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

// Both pipes to their ends: a program may fill either first.
void read_both(const Pipe& out, const Pipe& err, Ended& ended) {
  std::array<pollfd, 2> open = {{{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}}};
  std::array<std::string*, 2> texts = {&ended.out, &ended.err};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    ::poll(open.data(), open.size(), -1);
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i].fd < 0 || open[i].revents == 0) continue;
      std::array<char, 4096> chunk;
      const ssize_t got = ::read(open[i].fd, chunk.data(), chunk.size());
      if (got > 0) texts[i]->append(chunk.data(), static_cast<std::size_t>(got));
      if (got <= 0) open[i].fd = -1;
    }
  }
  ::close(out.read_end);
  ::close(err.read_end);
}

Ended started(const char* program, std::vector<std::string> arguments,
              const std::function<void(pid_t)>& meanwhile) {
  arguments.insert(arguments.begin(), program);
  return run(arguments, meanwhile);
}

}  // namespace

bool Ended::says(const std::string& text) const {
  return out.find(text) != std::string::npos || err.find(text) != std::string::npos;
}

Ended run(const std::vector<std::string>& words, const std::function<void(pid_t)>& meanwhile) {
  const Pipe out, err;
  const pid_t child = ::fork();
  if (child == 0) become(words, out, err);
  ::close(out.write_end);
  ::close(err.write_end);
  if (meanwhile) meanwhile(child);
  Ended ended;
  read_both(out, err, ended);
  int status = 0;
  ::waitpid(child, &status, 0);
  ended.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

Ended rehearse(std::vector<std::string> arguments) {
  return started(REHEARSE_PROGRAM, std::move(arguments), {});
}

Ended odd(std::vector<std::string> arguments, const std::function<void(pid_t)>& meanwhile) {
  return started(ODD_PROGRAM, std::move(arguments), meanwhile);
}

std::string Folder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

std::string Folder::scenario(const std::string& workload, int workers,
                             const std::string& more) const {
  return write(workload + ".toml",
               fmt::format("format = 1\nworlds = [\"sim\", \"memory\", \"processes\"]\n"
                           "[cluster]\nhosts = {}\n[job]\nworkload = \"{}\"\n{}",
                           workers, workload, more));
}

}  // namespace rehearse::scenarios
