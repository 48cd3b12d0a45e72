#include "tests/sim/forked.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "runtime/base/check.hpp"

namespace rehearse {
namespace {

bool transfer_all(int socket, char* data, std::size_t size,
                  const std::function<ssize_t(int, char*, std::size_t)>& step) {
  while (size > 0) {
    const ssize_t moved = step(socket, data, size);
    if (moved <= 0) return false;
    data += moved;
    size -= static_cast<std::size_t>(moved);
  }
  return true;
}

void put(int socket, std::string_view text) {
  std::uint64_t size = text.size();
  const auto step = [](int to, char* data, std::size_t left) { return write(to, data, left); };
  transfer_all(socket, reinterpret_cast<char*>(&size), sizeof size, step);
  transfer_all(socket, const_cast<char*>(text.data()), text.size(), step);
}

std::optional<std::string> get(int socket) {
  std::uint64_t size = 0;
  const auto step = [](int from, char* data, std::size_t left) { return read(from, data, left); };
  if (!transfer_all(socket, reinterpret_cast<char*>(&size), sizeof size, step)) return std::nullopt;
  std::string text(size, '\0');
  if (!transfer_all(socket, text.data(), size, step)) return std::nullopt;
  return text;
}

std::string guarded(const std::function<std::string()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();
  }
}

[[noreturn]] void serve(int socket, const std::function<std::string()>& begin,
                        const Forked::Answer& answer) {
  put(socket, guarded(begin));
  while (const auto question = get(socket)) {
    put(socket, guarded([&] { return answer(*question); }));
  }
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace

Forked::Forked(const std::function<std::string()>& begin, const Answer& answer) {
  int ends[2];
  REHEARSE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no socket pair");
  child_ = fork();
  REHEARSE_CHECK(child_ >= 0, "cannot fork");
  if (child_ == 0) {
    close(ends[0]);
    serve(ends[1], begin, answer);
  }
  close(ends[1]);
  socket_ = ends[0];
  first_ = get(socket_).value_or("the child ended without an answer");
}

Forked::~Forked() {
  close(socket_);
  waitpid(child_, nullptr, 0);
}

std::string Forked::ask(std::string_view question) {
  put(socket_, question);
  return get(socket_).value_or("the child ended without an answer");
}

std::string in_child(const std::function<std::string()>& body) {
  return Forked(body, [](std::string_view) { return std::string(); }).first();
}

}  // namespace rehearse
