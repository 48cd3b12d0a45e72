#include "runtime/real/shm_channel.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/real/local_socket.hpp"

namespace rehearse::real {
namespace {

// Small frames only: large payloads are lent. One page of state, then the rings of both directions.
constexpr std::size_t kRingBytes = std::size_t{128} << 10;
constexpr std::size_t kStateBytes = 4096;
constexpr std::size_t kRingsBytes = kStateBytes + 2 * kRingBytes;

struct RingStates {
  RingState from_dialler;
  RingState to_dialler;
};
static_assert(sizeof(RingStates) <= kStateBytes);

ssize_t failed(int error) {
  errno = error;
  return -1;
}

bool asks_for_nothing(std::span<const iovec> pieces) {
  return std::all_of(pieces.begin(), pieces.end(),
                     [](const iovec& piece) { return piece.iov_len == 0; });
}

}  // namespace

// --- host

Result<std::unique_ptr<ShmHost>> ShmHost::make(Poller& poller) {
  auto pool = SharedPool::make();
  if (!pool.ok()) return pool.failure();
  Descriptor bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!bell.valid()) return Failure{Code::cannot_start, "no eventfd: too many open files", {}, 0};
  return std::unique_ptr<ShmHost>(new ShmHost(poller, std::move(pool).or_throw(), std::move(bell)));
}

ShmHost::ShmHost(Poller& poller, std::shared_ptr<SharedPool> pool, Descriptor bell)
    : poller_(poller), pool_(std::move(pool)), bell_(std::move(bell)) {
  poller_.add(bell_.get(), *this);
}

ShmHost::~ShmHost() { poller_.remove(bell_.get(), *this); }

void ShmHost::remove(const ShmChannel& channel) {
  const auto found = std::find(channels_.begin(), channels_.end(), &channel);
  if (found == channels_.end()) return;
  *found = nullptr;
  if (!looking_) std::erase(channels_, nullptr);
}

bool ShmHost::look() {
  if (looking_) return false;
  looking_ = true;
  bool found = false;
  // By index: who is told may add channels.
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    if (channels_[i]) found = channels_[i]->look() || found;
  }
  looking_ = false;
  if (found) std::erase(channels_, nullptr);
  return found;
}

bool ShmHost::sleep() {
  bool quiet = true;
  for (ShmChannel* channel : channels_) quiet = channel->sleep() && quiet;
  return quiet;
}

void ShmHost::wake() {
  for (ShmChannel* channel : channels_) channel->wake();
}

// --- channel

Result<std::unique_ptr<Channel>> ShmChannel::dial(const std::string& name, ShmHost& host) {
  auto socket = connect_locally(name);
  if (!socket.ok()) return socket.failure();
  auto rings = SharedMemory::make("rehearse-rings", kRingsBytes, false);
  if (!rings.ok()) return Failure{Code::stopped, rings.failure().message, {}, 0};
  std::unique_ptr<ShmChannel> channel(new ShmChannel(std::move(socket).or_throw(), host));
  const std::array passed{host.bell(), host.pool().descriptor(), rings.value().descriptor()};
  if (!send_descriptors(channel->socket_.get(), passed)) {
    return Failure{Code::stopped, "it went away before it was greeted", {}, 0};
  }
  channel->use_rings(std::move(rings).or_throw(), true);
  return std::unique_ptr<Channel>(std::move(channel));
}

std::unique_ptr<Channel> ShmChannel::accept(Descriptor socket, ShmHost& host) {
  return std::unique_ptr<Channel>(new ShmChannel(std::move(socket), host));
}

ShmChannel::~ShmChannel() { host_.remove(*this); }

void ShmChannel::use_rings(SharedMemory rings, bool dialled) {
  rings_ = std::move(rings);
  auto& states = *reinterpret_cast<RingStates*>(rings_.bytes().data());
  const auto first = rings_.bytes().subspan(kStateBytes, kRingBytes);
  const auto second = rings_.bytes().subspan(kStateBytes + kRingBytes, kRingBytes);
  if (dialled) {
    out_.emplace(states.from_dialler, first);
    in_.emplace(states.to_dialler, second);
  } else {
    out_.emplace(states.to_dialler, second);
    in_.emplace(states.from_dialler, first);
  }
}

// The dialling side passes doorbell, pool and rings; the other, doorbell and pool.
Status ShmChannel::take_descriptors(std::vector<Descriptor> descriptors) {
  const std::size_t expected = in_ ? 2 : 3;
  if (theirs_ || descriptors.size() != expected) {
    return Failure{Code::corrupt, "a peer passed what was not expected", {}, 0};
  }
  auto pool = BorrowedPool::map(std::move(descriptors[1]));
  if (!pool.ok()) return pool.failure();
  if (!in_) {
    auto rings = SharedMemory::map(std::move(descriptors[2]), kRingsBytes, false);
    if (!rings.ok()) return rings.failure();
    use_rings(std::move(rings).or_throw(), false);
    send_descriptors(socket_.get(), std::array{host_.bell(), host_.pool().descriptor()});
  }
  theirs_ = std::move(pool).or_throw();
  their_bell_ = std::move(descriptors[0]);
  ring();  // what was written before there was a bell
  return {};
}

void ShmChannel::look_at_socket() {
  while (!ended_ && !broken_) {
    std::vector<Descriptor> descriptors;
    switch (receive_descriptors(socket_.get(), descriptors)) {
      case Arrived::nothing:
        return;
      case Arrived::end:
        ended_ = true;
        return;
      case Arrived::descriptors:
        broken_ = !take_descriptors(std::move(descriptors)).ok();
    }
  }
}

void ShmChannel::ring() {
  const std::uint64_t one = 1;
  if (their_bell_.valid()) {
    [[maybe_unused]] const ssize_t rung = ::write(their_bell_.get(), &one, sizeof one);
  }
}

ssize_t ShmChannel::write(std::span<const iovec> pieces) {
  if (broken_ || ended_) return failed(EPIPE);
  if (!out_) return failed(EAGAIN);
  const std::size_t moved = out_->write(pieces);
  if (moved > 0) {
    if (out_->reader_must_wake()) ring();
    return static_cast<ssize_t>(moved);
  }
  if (asks_for_nothing(pieces)) return 0;
  blocked_ = out_->sleep();
  return failed(blocked_ ? EAGAIN : EINTR);
}

ssize_t ShmChannel::read(std::span<const iovec> pieces) {
  if (!in_) look_at_socket();
  if (broken_ || (in_ && in_->damaged())) return failed(EPROTO);
  // Who has ended wrote before: so looking at the ring comes second.
  const bool ended = ended_;
  const std::size_t moved = in_ ? in_->read(pieces) : 0;
  if (moved > 0) {
    if (in_->writer_must_wake()) ring();
    return static_cast<ssize_t>(moved);
  }
  return ended ? 0 : failed(EAGAIN);
}

void ShmChannel::watch(Poller& poller, Watcher& watcher) {
  watcher_ = &watcher;
  poller.add(socket_.get(), *this);
  host_.add(*this);
}

void ShmChannel::unwatch(Poller& poller, const Watcher&) {
  watcher_ = nullptr;
  poller.remove(socket_.get(), *this);
  host_.remove(*this);
}

void ShmChannel::ready(std::uint32_t events) {
  look_at_socket();
  if (watcher_) watcher_->ready(events);
}

bool ShmChannel::look() {
  std::uint32_t events = 0;
  if (in_ && in_->available() > 0) events |= EPOLLIN;
  if (blocked_ && out_->room() > 0) {
    blocked_ = false;
    events |= EPOLLOUT;
  }
  if (events == 0 || !watcher_) return false;
  watcher_->ready(events);
  return true;
}

std::optional<Loan> ShmChannel::lend(std::span<const std::byte> bytes) {
  return host_.pool().lend(bytes, worker_);
}

Result<Payload> ShmChannel::borrow(const Loan& loan) {
  if (!theirs_) look_at_socket();
  if (!theirs_) return Failure{Code::corrupt, "a loan of a peer that has shared nothing", {}, 0};
  return theirs_->borrow(loan);
}

}  // namespace rehearse::real
