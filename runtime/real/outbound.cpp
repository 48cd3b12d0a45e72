#include "runtime/real/outbound.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/crc32c.hpp"

namespace rehearse::real {

void Outbound::push(FrameType type, const Acks& acks, std::span<const std::byte> body) {
  const Bytes frame = encode_frame(prelude(type, Lane::control, acks), body);
  urgent_.insert(urgent_.end(), frame.begin(), frame.end());
}

Prelude Outbound::prelude(FrameType type, Lane lane, const Acks& acks) const {
  Prelude prelude;
  prelude.type = type;
  prelude.lane = lane;
  prelude.job = job_;
  prelude.generation = generation_;
  prelude.acks = acks;
  return prelude;
}

Outbound::Result Outbound::write(Channel& channel, Delivery* delivery, Time now) {
  lending_ = channel.lending();
  for (std::size_t total = 0;;) {
    if (pieces_.empty() && !fill(delivery, now)) return Result::drained;
    total += std::exchange(copied_bytes_, 0);
    if (total >= kTurnBytes) return Result::more;
    if (pieces_.empty()) continue;
    const ssize_t sent = channel.write(std::span(pieces_).subspan(first_piece_));
    if (sent >= 0) {
      total += static_cast<std::size_t>(sent);
      written(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      return Result::blocked;
    } else if (errno != EINTR) {
      return Result::broken;
    }
  }
}

void Outbound::written(std::size_t size_bytes) {
  while (first_piece_ < pieces_.size() && size_bytes >= pieces_[first_piece_].iov_len) {
    size_bytes -= pieces_[first_piece_++].iov_len;
  }
  if (first_piece_ < pieces_.size()) {
    iovec& piece = pieces_[first_piece_];
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + size_bytes;
    piece.iov_len -= size_bytes;
    return;
  }
  pieces_.clear();
  owned_.clear();
  first_piece_ = scratch_used_ = batch_bytes_ = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    written_[lane] = std::max(written_[lane], batch_last_[lane]);
  }
}

bool Outbound::has_room() const {
  // A frame takes three pieces at most, besides its payloads, which come in owned_ if many.
  return batch_bytes_ + copied_bytes_ < kSegmentBytesMax && pieces_.size() + 8 < kPiecesMax &&
         scratch_used_ + kPreludeBytes + kCopiedBytesMax < kScratchBytes;
}

bool Outbound::fill(Delivery* delivery, Time now) {
  if (!urgent_.empty()) {
    owned_.push_back(std::move(urgent_));
    urgent_.clear();
    put_span(owned_.back());
  }
  if (!delivery || !delivery->connected() || farewell_ == Farewell::said) return !pieces_.empty();
  const std::size_t before = batch_bytes_;
  const bool all =
      fill_lane(Lane::control, *delivery, now) && fill_lane(Lane::data, *delivery, now);
  if (all && farewell_ == Farewell::wanted) {
    put_bare(FrameType::farewell, delivery->acks(), {});
    farewell_ = Farewell::said;
  } else if (ack_wanted_ && batch_bytes_ == before) {
    put_bare(FrameType::ack, delivery->acks(), {});
  }
  if (batch_bytes_ != before) {
    ack_wanted_ = false;
    delivery->acks_told();
  }
  return !pieces_.empty() || copied_bytes_ > 0;
}

// True if nothing of the lane is left.
bool Outbound::fill_lane(Lane lane, Delivery& delivery, Time now) {
  Stream& stream = streams_[static_cast<std::size_t>(lane)];
  while (has_room()) {
    if (stream.message) {
      put_part(lane, stream, delivery.acks());
      continue;
    }
    const Outgoing* next = delivery.next(lane);
    if (!next) return true;
    put_message(lane, *next, delivery.acks());
    if (payload_bytes(next->message) > kInlineBytesMax) {
      stream = {};
      stream.message = next;
    } else {
      batch_last_[static_cast<std::size_t>(lane)] = next->sequence;
    }
    delivery.sent(lane, now);
  }
  return !stream.message && !delivery.next(lane);
}

void Outbound::put_message(Lane lane, const Outgoing& outgoing, const Acks& acks) {
  const Message& message = outgoing.message;
  Bytes head;
  append_sizes(message, head);
  const bool is_inline = payload_bytes(message) <= kInlineBytesMax;
  const std::size_t carried = is_inline ? message.size_bytes() : message.header.size();
  std::uint32_t crc = crc32c(message.header, crc32c(head));
  if (is_inline) {
    for (const Payload& payload : message.payloads) crc = crc32c(payload.bytes(), crc);
  }
  Prelude frame = prelude(FrameType::message, lane, acks);
  frame.kind = message.kind;
  frame.sequence = outgoing.sequence;
  frame.lamport = outgoing.lamport;
  frame.body_bytes = static_cast<std::uint32_t>(head.size() + carried);
  frame.body_crc = crc;
  put_prelude(frame);
  if (head.size() + carried <= kCopiedBytesMax) {
    put_copy(head);
    put_copy(message.header);
    if (is_inline) {
      for (const Payload& payload : message.payloads) put_copy(payload.bytes());
    }
    return;
  }
  if (is_inline) {
    // Many small pieces cost more than a copy of at most kInlineBytesMax.
    head.reserve(head.size() + carried);
    head.insert(head.end(), message.header.begin(), message.header.end());
    for (const Payload& payload : message.payloads) {
      head.insert(head.end(), payload.bytes().begin(), payload.bytes().end());
    }
  }
  owned_.push_back(std::move(head));
  put_span(owned_.back());
  if (!is_inline) put_span(message.header);
}

void Outbound::put_part(Lane lane, Stream& stream, const Acks& acks) {
  const Payload& payload = stream.message->message.payloads[stream.payload];
  const bool large = stream.position == 0 && payload.size_bytes() > kInlineBytesMax;
  if (lending_ && large && put_loan(lane, stream, acks)) return;
  put_segment(lane, stream, acks);
}

// One step of a payload that goes beside the stream. False if there is no memory for it.
bool Outbound::put_loan(Lane lane, Stream& stream, const Acks& acks) {
  const Payload& payload = stream.message->message.payloads[stream.payload];
  std::optional<Loan> loan = loan_of(payload, stream);
  if (!loan) return stream.copy.owner != nullptr;
  const Bytes body = encode(*loan);
  Prelude frame = prelude(FrameType::loan, lane, acks);
  frame.sequence = stream.message->sequence;
  frame.offset = stream.offset;
  frame.body_bytes = static_cast<std::uint32_t>(body.size());
  frame.body_crc = crc32c(body);
  put_prelude(frame);
  put_copy(body);
  advance(lane, stream, payload.size_bytes());
  return true;
}

// Nothing yet while it is being copied.
std::optional<Loan> Outbound::loan_of(const Payload& payload, Stream& stream) {
  const auto bytes = payload.bytes();
  if (!stream.copy.owner) {
    // The receiver may write to what it borrows: so nobody else may hold it.
    if (payload.owner().use_count() == 1) {
      if (auto loan = lending_->lend(bytes)) return loan;
    }
    stream.copy = lending_->lendable(bytes.size());
    stream.copied = 0;
    if (!stream.copy.owner) return std::nullopt;
  }
  const std::size_t step = std::min(kCopyStepBytes, bytes.size() - stream.copied);
  std::memcpy(stream.copy.bytes.data() + stream.copied, bytes.data() + stream.copied, step);
  stream.copied += step;
  copied_bytes_ += step;
  if (stream.copied < bytes.size()) return std::nullopt;
  const auto loan = lending_->lend(stream.copy.bytes);
  REHEARSE_CHECK(loan, "lendable memory cannot be lent");
  return loan;
}

void Outbound::put_segment(Lane lane, Stream& stream, const Acks& acks) {
  const auto& payloads = stream.message->message.payloads;
  const auto payload = payloads[stream.payload].bytes();
  const auto bytes = payload.subspan(stream.position,
                                     std::min(kSegmentBytesMax, payload.size() - stream.position));
  if (!bytes.empty()) {
    Prelude frame = prelude(FrameType::segment, lane, acks);
    frame.sequence = stream.message->sequence;
    frame.offset = stream.offset;
    frame.body_bytes = static_cast<std::uint32_t>(bytes.size());
    frame.body_crc = crc32c(bytes);
    put_prelude(frame);
    put_span(bytes);
  }
  advance(lane, stream, bytes.size());
}

void Outbound::advance(Lane lane, Stream& stream, std::size_t size_bytes) {
  const auto& payloads = stream.message->message.payloads;
  stream.position += size_bytes;
  stream.offset += size_bytes;
  if (stream.position < payloads[stream.payload].size_bytes()) return;
  stream.position = 0;
  stream.copy = {};
  if (++stream.payload < payloads.size()) return;
  batch_last_[static_cast<std::size_t>(lane)] = stream.message->sequence;
  stream = {};
}

void Outbound::put_bare(FrameType type, const Acks& acks, std::span<const std::byte> body) {
  owned_.push_back(encode_frame(prelude(type, Lane::control, acks), body));
  put_span(owned_.back());
}

void Outbound::put_prelude(Prelude frame) { put_copy(encode(frame)); }

void Outbound::put_copy(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::byte* at = scratch_.get() + scratch_used_;
  std::memcpy(at, bytes.data(), bytes.size());
  scratch_used_ += bytes.size();
  put_span({at, bytes.size()});
}

void Outbound::put_span(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  batch_bytes_ += bytes.size();
  auto* first = const_cast<std::byte*>(bytes.data());
  if (!pieces_.empty()) {
    iovec& last = pieces_.back();
    if (static_cast<std::byte*>(last.iov_base) + last.iov_len == first) {
      last.iov_len += bytes.size();
      return;
    }
  }
  pieces_.push_back({first, bytes.size()});
}

}  // namespace rehearse::real
