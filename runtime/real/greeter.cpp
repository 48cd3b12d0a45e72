#include "runtime/real/greeter.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rehearse::real {

Greeter::Greeter(std::unique_ptr<Link> link, Poller& poller)
    : poller_(poller), link_(std::move(link)) {
  link_->channel->watch(poller_, *this);
}

Greeter::~Greeter() { release(); }

std::unique_ptr<Link> Greeter::release() {
  if (link_ && state_ == State::waiting) link_->channel->unwatch(poller_, *this);
  return std::move(link_);
}

void Greeter::fail(Failure failure) {
  failure_ = std::move(failure);
  end(State::failed);
}

// What follows the greeting waits in the channel until somebody takes it over.
void Greeter::end(State state) {
  state_ = state;
  link_->channel->unwatch(poller_, *this);
}

void Greeter::ready(std::uint32_t) {
  if (state_ != State::waiting || !link_) return;
  if (!prelude_) read_prelude();
  if (state_ == State::waiting && prelude_) read_hello();
}

bool Greeter::fill(std::size_t size_bytes) {
  while (bytes_.size() < size_bytes) {
    std::array<std::byte, 256> part;
    const iovec piece{part.data(), std::min(part.size(), size_bytes - bytes_.size())};
    const ssize_t got = link_->channel->read({&piece, 1});
    if (got > 0) {
      bytes_.insert(bytes_.end(), part.begin(), part.begin() + got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      fail({Code::peer_lost, "it went away before it said who it is", {}, 0});
      return false;
    } else if (errno == EAGAIN) {
      return false;
    }
  }
  return true;
}

void Greeter::read_prelude() {
  if (!fill(kPreludeBytes)) return;
  auto prelude = decode_prelude(bytes_);
  if (!prelude.ok()) return fail(prelude.failure());
  if (prelude.value().type != FrameType::hello) {
    return fail({Code::corrupt, "expected a greeting first", {}, 0});
  }
  prelude_ = prelude.value();
}

void Greeter::read_hello() {
  if (!fill(kPreludeBytes + prelude_->body_bytes)) return;
  const auto body = std::span<const std::byte>(bytes_).subspan(kPreludeBytes);
  if (Status status = check_body(*prelude_, body); !status.ok()) return fail(status.failure());
  const auto hello = decode_hello(*prelude_, body);
  if (!hello.ok()) return fail(hello.failure());
  hello_ = hello.value();
  end(State::greeted);
}

}  // namespace rehearse::real
