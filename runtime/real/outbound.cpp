#include "runtime/real/outbound.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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

Outbound::Result Outbound::write(int socket, Delivery* delivery, Time now) {
  for (std::size_t total = 0;;) {
    if (pieces_.empty() && !fill(delivery, now)) return Result::drained;
    if (total >= kTurnBytes) return Result::more;
    msghdr what{};
    what.msg_iov = pieces_.data() + first_piece_;
    what.msg_iovlen = pieces_.size() - first_piece_;
    const ssize_t sent = ::sendmsg(socket, &what, MSG_NOSIGNAL);
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
  return batch_bytes_ < kSegmentBytesMax && pieces_.size() + 8 < kPiecesMax &&
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
  return !pieces_.empty();
}

// True if nothing of the lane is left.
bool Outbound::fill_lane(Lane lane, Delivery& delivery, Time now) {
  Stream& stream = streams_[static_cast<std::size_t>(lane)];
  while (has_room()) {
    if (stream.message) {
      put_segment(lane, stream, delivery.acks());
      continue;
    }
    const Outgoing* next = delivery.next(lane);
    if (!next) return true;
    put_message(lane, *next, delivery.acks());
    if (payload_bytes(next->message) > kInlineBytesMax) {
      stream = {next, 0, 0, 0};
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
  stream.position += bytes.size();
  stream.offset += bytes.size();
  if (stream.position < payload.size()) return;
  stream.position = 0;
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
