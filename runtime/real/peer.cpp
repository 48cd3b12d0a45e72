#include "runtime/real/peer.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rehearse::real {
namespace {

constexpr Duration kRedialAfter = std::chrono::milliseconds(2);
constexpr Duration kReadTurn = std::chrono::milliseconds(1);
constexpr std::size_t kReadStepBytes = std::size_t{512} << 10;
// Messages of one turn that follow one another within this share a write at its end, once there
// were so many: a few calls before a long computation all leave before it.
constexpr Duration kGatherFor = std::chrono::microseconds(20);
constexpr int kBurstMin = 4;
constexpr int kRefusalsMax = 16;

}  // namespace

Peer::Peer(PeerContext& context, const Address& local, const Address& remote, const Place& place,
           const DeliveryLimits& limits)
    : context_(context), local_(local), remote_(remote), place_(place), delivery_(limits) {}

Peer::~Peer() { drop_link(); }

void Peer::send(Lane lane, Message message, std::uint64_t lamport, Time not_before,
                bool more_follows) {
  const Time now = context_.now();
  auto& held = held_[static_cast<std::size_t>(lane)];
  if (!held.empty()) not_before = std::max(not_before, held.back().until);
  if (not_before > now) {
    held_bytes_ += message.size_bytes();
    held.push_back({not_before, lamport, std::move(message)});
    return;
  }
  delivery_.submit(lane, std::move(message), lamport);
  flush_wanted_ = true;
  const bool gather = more_follows || ++burst_ > kBurstMin;
  if (!gather || now - flushed_at_ >= kGatherFor) flush();
}

void Peer::release_held(Time now) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    auto& held = held_[lane];
    while (!held.empty() && held.front().until <= now) {
      held_bytes_ -= held.front().message.size_bytes();
      delivery_.submit(static_cast<Lane>(lane), std::move(held.front().message),
                       held.front().lamport);
      held.pop_front();
      flush_wanted_ = true;
    }
  }
}

void Peer::flush() {
  flush_wanted_ = false;
  if (lost()) return;
  if (!link_) {
    if (redial_at_ == kNever) dial();
    return;
  }
  if (link_->blocked) return;
  flushed_at_ = context_.now();
  if (farewell_wanted_ && held_[0].empty() && held_[1].empty()) link_->out.say_farewell();
  Delivery* delivery = link_->open ? &delivery_ : nullptr;
  const auto result = link_->out.write(*link_->channel, delivery, flushed_at_);
  link_->blocked = result == Outbound::Result::blocked;
  if (result == Outbound::Result::more) flush_wanted_ = true;
  if (result == Outbound::Result::broken) {
    // What the peer had sent before it went is still to be read; in the next turn, because this
    // may be in the middle of reading.
    context_.read_again(*this);
  }
}

void Peer::dial() {
  redial_at_ = kNever;
  auto channel = context_.dial(place_);
  if (channel.code() == Code::peer_lost) {
    return lose(LossCause::unknown, "nobody listens at its address any more");
  }
  if (!channel.ok()) return link_failed(channel.failure().message);
  auto link = std::make_unique<Link>(std::move(channel).or_throw(), context_.pool(), local_);
  link->standing = link->channel->stands();
  link->out.push(FrameType::hello, delivery_.acks(), encode(Hello{local_, remote_}));
  use(std::move(link));
  if (!std::exchange(met_, true) && delivery_.connected(Acks{}, context_.now()).ok()) {
    link_->open = true;
  }
  flush();
}

void Peer::adopt(std::unique_ptr<Link> link, const Prelude& hello) {
  const bool own_dial_wins = link_ && !link_->welcomed && local_ < remote_;
  // Of two that were dialled at once, the one that the peer has given up meanwhile.
  const bool given_up = link_ && link->channel->peer_has_closed();
  if (own_dial_wins || given_up) return;
  drop_link();
  delivery_.disconnected(context_.now());
  link->standing = true;
  use(std::move(link));
  if (Status status = greet(hello); !status.ok()) {
    return lose(LossCause::unreachable, status.failure().message);
  }
  link_->out.push(FrameType::welcome, delivery_.acks(), encode(Hello{local_, remote_}));
  flush();
  if (link_) read_on();
}

Status Peer::greet(const Prelude& prelude) {
  if (!std::exchange(link_->welcomed, true)) context_.connected(*this, link_->channel->transport());
  met_ = true;
  if (link_->open) return delivery_.acknowledged(prelude.acks, context_.now());
  if (Status status = delivery_.connected(prelude.acks, context_.now()); !status.ok())
    return status;
  link_->out.already_has(prelude.acks);
  link_->open = true;
  redial_at_ = kNever;
  flush_wanted_ = true;
  return {};
}

void Peer::use(std::unique_ptr<Link> link) {
  redial_at_ = kNever;
  link_ = std::move(link);
  link_->channel->peer_is(remote_.worker);
  link_->channel->watch(context_.poller(), *this);
}

void Peer::drop_link() {
  if (!link_) return;
  link_->channel->unwatch(context_.poller(), *this);
  context_.bury(std::move(link_));
}

void Peer::ready(std::uint32_t events) {
  if (!link_) return;
  if (!link_->standing) {
    if (const int error = link_->channel->connect_error(); error != 0) {
      if (error == ECONNREFUSED) return lose(LossCause::unknown, "its process is gone");
      return link_failed(error_text(error));
    }
    link_->standing = (events & EPOLLOUT) != 0;
  }
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) read_on();
  if (link_ && (events & EPOLLOUT)) {
    link_->blocked = false;
    flush();
  }
}

void Peer::read_on() {
  const Time until = context_.now() + kReadTurn;
  while (link_) {
    switch (link_->in.read(*link_->channel, *this, kReadStepBytes)) {
      case Inbound::Result::drained:
        return;
      case Inbound::Result::more:
        if (context_.now() < until) break;
        return context_.read_again(*this);
      case Inbound::Result::closed:
        return link_failed("it closed the connection");
      case Inbound::Result::broken:
        return link_failed(error_text(errno));
      case Inbound::Result::refused:
        if (!link_ || lost()) return;
        if (++refusals_in_a_row_ > kRefusalsMax) {
          return lose(LossCause::unreachable, link_->in.failure().message);
        }
        return link_failed(link_->in.failure().message);
    }
  }
}

void Peer::link_failed(const std::string& why) {
  if (lost()) return;
  if (link_ && link_->out.said_farewell()) return lose(LossCause::ended, "both sides have ended");
  const bool was_welcomed = link_ && link_->welcomed;
  drop_link();
  const Time now = context_.now();
  delivery_.disconnected(now);
  if (delivery_.give_up_at() <= now) return lose(LossCause::unreachable, why);
  if (was_welcomed) {
    dial();
  } else {
    redial_at_ = now + kRedialAfter;
  }
}

Status Peer::on_prelude(const Prelude& prelude) {
  if (Status status = admit(prelude, local_.job, local_.generation); !status.ok()) return status;
  if (prelude.type == FrameType::hello || prelude.type == FrameType::welcome ||
      prelude.type == FrameType::refusal) {
    return {};
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (prelude.acks[lane] > link_->out.written()[lane]) {
      return Failure{Code::corrupt, "the peer acknowledges what was not sent", {}, 0};
    }
  }
  return delivery_.acknowledged(prelude.acks, context_.now());
}

Status Peer::on_message(const Prelude& prelude, Message message) {
  switch (delivery_.arrived(prelude.lane, prelude.sequence, message.size_bytes(), true,
                            context_.now())) {
    case Arrival::fresh:
      refusals_in_a_row_ = 0;
      context_.deliver(*this, prelude, std::move(message));
      return {};
    case Arrival::duplicate:
    case Arrival::late:
      return {};
    case Arrival::gap:
    case Arrival::corrupt:
      break;
  }
  return Failure{Code::corrupt, "a message before this one is missing", {}, 0};
}

Status Peer::on_frame(const Prelude& prelude, std::span<const std::byte> body) {
  switch (prelude.type) {
    case FrameType::welcome: {
      const auto hello = decode_hello(prelude, body);
      if (!hello.ok()) return hello.failure();
      if (hello.value().from != remote_ || hello.value().to != local_) {
        return Failure{Code::corrupt, "somebody else answered", {}, 0};
      }
      return greet(prelude);
    }
    case FrameType::farewell: {
      // The rest of this side's linger is shorter if it knows that all has arrived.
      link_->out.acknowledge();
      flush();
      lose(LossCause::ended, "its endpoint has closed");
      return Failure{Code::peer_lost, "its endpoint has closed", {}, 0};
    }
    case FrameType::refusal: {
      const Failure refusal = decode_refusal(body);
      lose(refusal.code == Code::peer_lost ? LossCause::ended : LossCause::unreachable,
           refusal.message);
      return refusal;
    }
    default:
      return {};
  }
}

void Peer::process_ended(LossCause cause, const std::string& detail) {
  if (lost()) return;
  if (link_) {
    while (link_->in.read(*link_->channel, *this, kReadStepBytes) == Inbound::Result::more) {
    }
  }
  lose(cause, detail);
}

void Peer::lose(LossCause cause, std::string detail) {
  if (lost()) return;
  delivery_.lose();
  drop_link();
  redial_at_ = kNever;
  for (auto& held : held_) held.clear();
  held_bytes_ = 0;
  context_.report_lost(*this, {cause, std::move(detail)});
}

void Peer::say_farewell() {
  farewell_wanted_ = true;
  flush_wanted_ = true;
}

bool Peer::finished() const {
  if (lost()) return true;
  const bool sent =
      delivery_.all_sent() && held_bytes_ == 0 && held_[0].empty() && held_[1].empty();
  if (!link_) return sent && delivery_.all_acknowledged();
  if (!sent || !link_->out.said_farewell()) return false;
  // Once it is with the peer's kernel, closing loses nothing.
  return delivery_.all_acknowledged() || link_->channel->unsent() == 0;
}

Time Peer::next_timer() const {
  if (lost()) return kNever;
  if (flush_wanted_) return Time::min();
  Time next = redial_at_;
  if (link_ && link_->open) next = std::min(next, delivery_.ack_at());
  const bool process_lives = link_ && link_->standing;
  if (!process_lives) next = std::min(next, delivery_.give_up_at());
  for (const auto& held : held_) {
    if (!held.empty()) next = std::min(next, held.front().until);
  }
  return next;
}

void Peer::on_timer(Time now) {
  burst_ = 0;
  if (next_timer() > now) return;
  const bool process_lives = link_ && link_->standing;
  if (!process_lives && delivery_.give_up_at() <= now) {
    return lose(LossCause::unreachable, "it did not come back within the time allowed");
  }
  release_held(now);
  if (redial_at_ <= now) return dial();
  if (link_ && link_->open && delivery_.ack_at() <= now) {
    link_->out.acknowledge();
    flush_wanted_ = true;
  }
  if (flush_wanted_) flush();
}

}  // namespace rehearse::real
