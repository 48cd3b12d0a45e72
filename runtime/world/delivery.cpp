#include "runtime/world/delivery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse {

void Delivery::submit(Lane lane, Message message, std::uint64_t lamport) {
  if (lost()) return;
  unacknowledged_bytes_ += message.size_bytes();
  Sending& out = sending(lane);
  out.unacknowledged.push_back({++out.assigned, lamport, std::move(message)});
}

const Outgoing* Delivery::next(Lane lane) const {
  const Sending& out = sending(lane);
  if (!connected() || out.taken == out.unacknowledged.size()) return nullptr;
  return &out.unacknowledged[out.taken];
}

void Delivery::sent(Lane lane, Time now) {
  const Outgoing* taken = next(lane);
  REHEARSE_CHECK(taken, "the transport sent a message that nobody had submitted");
  if (resend_at() == kNever) progress_at_ = now;
  Sending& out = sending(lane);
  out.ever_taken = std::max(out.ever_taken, taken->sequence);
  ++out.taken;
}

Status Delivery::acknowledged(const Acks& acks, Time now) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (acks[lane] > sending_[lane].ever_taken) {
      return Failure{
          Code::corrupt,
          fmt::format("the peer acknowledges message {} of lane {}, but only {} were sent",
                      acks[lane], lane, sending_[lane].ever_taken),
          {},
          0};
    }
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    Sending& out = sending_[lane];
    while (!out.unacknowledged.empty() && out.unacknowledged.front().sequence <= acks[lane]) {
      unacknowledged_bytes_ -= out.unacknowledged.front().message.size_bytes();
      out.unacknowledged.pop_front();
      if (out.taken > 0) --out.taken;
      progress_at_ = now;
    }
  }
  return {};
}

bool Delivery::all_sent() const {
  return std::all_of(sending_.begin(), sending_.end(),
                     [](const Sending& out) { return out.taken == out.unacknowledged.size(); });
}

bool Delivery::all_acknowledged() const {
  return std::all_of(sending_.begin(), sending_.end(),
                     [](const Sending& out) { return out.unacknowledged.empty(); });
}

Time Delivery::resend_at() const {
  const bool in_the_air = std::any_of(sending_.begin(), sending_.end(),
                                      [](const Sending& out) { return out.taken > 0; });
  return in_the_air && connected() ? after(progress_at_, limits_.resend) : kNever;
}

void Delivery::resend(Time now) {
  progress_at_ = now;
  rewind();
}

void Delivery::rewind() {
  for (Sending& out : sending_) out.taken = 0;
}

Arrival Delivery::arrived(Lane lane, std::uint64_t sequence, std::size_t size_bytes,
                          bool checksum_ok, Time now) {
  if (lost()) return Arrival::late;
  if (!checksum_ok) return Arrival::corrupt;
  std::uint64_t& last = received_[static_cast<std::size_t>(lane)];
  if (sequence > last + 1) return Arrival::gap;
  // A repeated message is told of as well: its first acknowledgement may be what was lost.
  untold_bytes_ += size_bytes;
  ++untold_messages_;
  const bool at_once =
      untold_bytes_ >= limits_.ack_bytes || untold_messages_ >= limits_.ack_messages;
  ack_at_ = std::min(ack_at_, at_once ? now : after(now, limits_.ack_delay));
  if (sequence <= last) return Arrival::duplicate;
  last = sequence;
  return Arrival::fresh;
}

void Delivery::acks_told() {
  ack_at_ = kNever;
  untold_bytes_ = 0;
  untold_messages_ = 0;
}

Status Delivery::connected(const Acks& peer_has, Time now) {
  if (lost()) return Failure{Code::peer_lost, "the peer was given up before it came back", {}, 0};
  if (Status status = acknowledged(peer_has, now); !status.ok()) return status;
  state_ = State::up;
  give_up_at_ = kNever;
  progress_at_ = now;
  rewind();
  return {};
}

void Delivery::disconnected(Time now) {
  if (lost() || state_ == State::down) return;
  state_ = State::down;
  give_up_at_ = after(now, limits_.reconnect);
}

void Delivery::lose() {
  state_ = State::lost;
  give_up_at_ = kNever;
  ack_at_ = kNever;
  unacknowledged_bytes_ = 0;
  for (Sending& out : sending_) {
    out.unacknowledged.clear();
    out.taken = 0;
  }
}

}  // namespace rehearse
