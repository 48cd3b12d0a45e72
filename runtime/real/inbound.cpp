#include "runtime/real/inbound.hpp"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/crc32c.hpp"

namespace rehearse::real {
namespace {

Failure corrupt(std::string message) { return {Code::corrupt, std::move(message), {}, 0}; }

}  // namespace

Inbound::Inbound(std::shared_ptr<BufferPool> pool) : pool_(std::move(pool)) {}

std::span<std::byte> Inbound::direct() const {
  return staged() == 0 ? target_.subspan(target_filled_) : std::span<std::byte>();
}

Inbound::Result Inbound::read(Channel& channel, FrameSink& sink, std::size_t budget_bytes) {
  lending_ = channel.lending();
  for (std::size_t total = 0;;) {
    if (begin_ == end_) {
      begin_ = end_ = 0;
    } else if (begin_ > 0 && kStagingBytes - end_ < kStagingBytes / 4) {
      std::memmove(staging_.get(), staging_.get() + begin_, staged());
      end_ = staged();
      begin_ = 0;
    }
    const auto large = direct();
    // Behind a payload only the next prelude is wanted: what is staged of a payload is copied
    // twice.
    const std::size_t room = kStagingBytes - end_;
    const std::size_t staged_max =
        large.empty() ? (bulk_ ? std::min(room, kBulkStagedBytes) : room) : kBehindBytes;
    const iovec pieces[2] = {{large.data(), large.size()}, {staging_.get() + end_, staged_max}};
    const std::size_t asked = large.size() + staged_max;
    const ssize_t got = channel.read(std::span(pieces).subspan(large.empty() ? 1 : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN ? Result::drained : Result::broken;
    if (got == 0) return Result::closed;
    const auto size = static_cast<std::size_t>(got);
    const std::size_t to_large = std::min(size, large.size());
    took_direct(to_large);
    end_ += size - to_large;
    if (!parse(sink)) return Result::refused;
    total += size;
    // A short read of a stream means that it is empty; what comes later is a new edge.
    if (size < asked && !channel.ending()) return Result::drained;
    if (total >= budget_bytes) return Result::more;
  }
}

void Inbound::took_direct(std::size_t size_bytes) {
  target_crc_ = crc32c(target_.subspan(target_filled_, size_bytes), target_crc_);
  target_filled_ += size_bytes;
}

bool Inbound::parse(FrameSink& sink) {
  for (bool more = true; more;) {
    if (!parse_one(sink, more)) return false;
  }
  return true;
}

// One step: a prelude, a part of a body, or a whole frame. `more`: another may follow.
bool Inbound::parse_one(FrameSink& sink, bool& more) {
  more = false;
  Status status;
  if (!frame_) {
    if (staged() < kPreludeBytes) return true;
    status = begin_frame(sink);
    more = true;
  } else if (!target_.empty()) {
    const std::size_t part = std::min(staged(), target_.size() - target_filled_);
    std::memcpy(target_.data() + target_filled_, staging_.get() + begin_, part);
    took_direct(part);
    begin_ += part;
    if (target_filled_ < target_.size()) return true;
    status = finish_frame(sink, large_);
    more = true;
  } else if (staged() >= frame_->body_bytes) {
    const std::span<const std::byte> body(staging_.get() + begin_, frame_->body_bytes);
    target_crc_ = crc32c(body);
    begin_ += body.size();
    status = finish_frame(sink, body);
    more = true;
  }
  if (!status.ok()) failure_ = status.failure();
  return status.ok();
}

Status Inbound::begin_frame(FrameSink& sink) {
  const auto prelude = decode_prelude({staging_.get() + begin_, kPreludeBytes});
  if (!prelude.ok()) return prelude.failure();
  if (Status status = sink.on_prelude(prelude.value()); !status.ok()) return status;
  begin_ += kPreludeBytes;
  frame_ = prelude.value();
  target_ = {};
  target_filled_ = 0;
  target_crc_ = 0;
  if (frame_->type == FrameType::segment) return begin_segment();
  if (frame_->body_bytes > kStagingBytes / 2) {
    large_.resize(frame_->body_bytes);
    target_ = large_;
  }
  return {};
}

// What every part of a message must agree with.
Status Inbound::check_part(const Partial& partial) const {
  if (partial.under_way && frame_->sequence == partial.prelude.sequence &&
      frame_->offset == partial.received) {
    return {};
  }
  return corrupt(fmt::format("a part of message {} at {} does not follow what came before",
                             frame_->sequence, frame_->offset));
}

Status Inbound::begin_segment() {
  Partial& partial = partial_[static_cast<std::size_t>(frame_->lane)];
  if (Status status = check_part(partial); !status.ok()) return status;
  const std::uint64_t left = partial.sizes[partial.payload] - partial.position;
  if (frame_->body_bytes == 0 || frame_->body_bytes > left) {
    return corrupt(
        fmt::format("a part of {} bytes, where {} are missing", frame_->body_bytes, left));
  }
  if (partial.position == 0) {
    auto buffer = buffer_for(partial.sizes[partial.payload]);
    if (!buffer.ok()) return buffer.failure();
    partial.target = buffer.value().bytes;
    partial.message.payloads[partial.payload] =
        Payload(std::move(buffer.value().owner), partial.target);
  }
  target_ = partial.target.subspan(partial.position, frame_->body_bytes);
  return {};
}

Status Inbound::finish_frame(FrameSink& sink, std::span<const std::byte> body) {
  if (target_crc_ != frame_->body_crc) return corrupt("the checksum of a frame's body is wrong");
  const Prelude prelude = *frame_;
  Status status;
  switch (prelude.type) {
    case FrameType::message:
      status = begin_message(sink, body);
      break;
    case FrameType::segment:
      status = finish_segment(sink);
      break;
    case FrameType::loan:
      status = finish_loan(sink, body);
      break;
    default:
      status = sink.on_frame(prelude, body);
      break;
  }
  frame_.reset();
  target_ = {};
  target_filled_ = 0;
  if (!large_.empty()) large_ = Bytes();
  return status;
}

rehearse::Result<Buffer> Inbound::buffer_for(std::size_t size_bytes) {
  Buffer buffer = pool_->take(size_bytes);
  if (buffer.owner) return buffer;
  return Failure{Code::bad_argument, fmt::format("no memory for {} bytes", size_bytes), {}, 0};
}

Status Inbound::take_inline(const Lead& lead, Message& message) {
  auto source = lead.inline_payloads;
  for (const std::uint64_t size : lead.payload_sizes) {
    auto buffer = buffer_for(size);
    if (!buffer.ok()) return buffer.failure();
    std::copy_n(source.begin(), size, buffer.value().bytes.begin());
    source = source.subspan(size);
    message.payloads.emplace_back(std::move(buffer.value().owner), buffer.value().bytes);
  }
  return {};
}

Status Inbound::begin_message(FrameSink& sink, std::span<const std::byte> body) {
  const auto lead = decode_lead(body);
  if (!lead.ok()) return lead.failure();
  Partial& partial = partial_[static_cast<std::size_t>(frame_->lane)];
  if (partial.under_way) return corrupt("a message begins before the one before it has ended");
  partial = {};
  partial.prelude = *frame_;
  partial.message.kind = frame_->kind;
  partial.message.header.assign(lead.value().header.begin(), lead.value().header.end());
  bulk_ = !lead.value().is_inline();
  if (!bulk_) {
    if (Status status = take_inline(lead.value(), partial.message); !status.ok()) return status;
    return sink.on_message(*frame_, std::move(partial.message));
  }
  partial.sizes = lead.value().payload_sizes;
  partial.message.payloads.resize(partial.sizes.size());
  partial.expected = lead.value().payload_bytes;
  partial.under_way = true;
  return finish_part(sink, partial, 0);
}

Status Inbound::finish_segment(FrameSink& sink) {
  return finish_part(sink, partial_[static_cast<std::size_t>(frame_->lane)], frame_->body_bytes);
}

Status Inbound::finish_loan(FrameSink& sink, std::span<const std::byte> body) {
  Partial& partial = partial_[static_cast<std::size_t>(frame_->lane)];
  if (Status status = check_part(partial); !status.ok()) return status;
  const auto loan = decode_loan(body);
  if (!loan.ok()) return loan.failure();
  const std::uint64_t size_bytes = loan.value().size_bytes;
  if (!lending_ || partial.position != 0 || size_bytes != partial.sizes[partial.payload]) {
    return corrupt(fmt::format("a loan of {} bytes that was not expected", size_bytes));
  }
  auto payload = lending_->borrow(loan.value());
  if (!payload.ok()) return payload.failure();
  partial.message.payloads[partial.payload] = std::move(payload).or_throw();
  return finish_part(sink, partial, size_bytes);
}

// Goes on to the next payload that has bytes, or hands the message on.
Status Inbound::finish_part(FrameSink& sink, Partial& partial, std::size_t size_bytes) {
  partial.received += size_bytes;
  partial.position += size_bytes;
  if (partial.received == partial.expected) {
    Partial whole = std::exchange(partial, {});
    return sink.on_message(whole.prelude, std::move(whole.message));
  }
  while (partial.position == partial.sizes[partial.payload]) {
    ++partial.payload;
    partial.position = 0;
  }
  return {};
}

}  // namespace rehearse::real
