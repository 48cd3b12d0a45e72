#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/real/buffer_pool.hpp"
#include "runtime/real/channel.hpp"
#include "runtime/world/frame.hpp"

namespace rehearse::real {

/// Hears what comes in on one connection.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Of every frame, before anything else is done with it.
  virtual Status on_prelude(const Prelude& prelude) = 0;
  /// A whole message; its checksums were right.
  virtual Status on_message(const Prelude& prelude, Message message) = 0;
  /// Any other frame.
  virtual Status on_frame(const Prelude& prelude, std::span<const std::byte> body) = 0;
};

/// Reads frames from a channel and puts messages together. Small frames pass through a staging
/// buffer, many a read; large payloads are read straight to where they stay, or are there already
/// if the peer lends them.
class Inbound {
 public:
  explicit Inbound(std::shared_ptr<BufferPool> pool);

  enum class Result {
    drained,  ///< nothing is left to read now
    more,     ///< the budget is used up
    closed,   ///< the peer's side has ended
    broken,   ///< the connection failed; see errno
    refused,  ///< `sink` or a check did not accept something; see `failure()`
  };
  /// Reads until nothing is left or about `budget_bytes` have been read.
  Result read(Channel& channel, FrameSink& sink, std::size_t budget_bytes);
  const Failure& failure() const { return failure_; }

 private:
  // A message of which only a part is here.
  struct Partial {
    Prelude prelude;
    Message message;
    std::vector<std::uint64_t> sizes;  // of its payloads
    std::uint64_t received = 0;
    std::uint64_t expected = 0;
    std::size_t payload = 0;      // the one that is coming
    std::span<std::byte> target;  // where it goes
    std::size_t position = 0;
    bool under_way = false;
  };

  bool parse(FrameSink& sink);
  bool parse_one(FrameSink& sink, bool& more);
  Status begin_frame(FrameSink& sink);
  Status finish_frame(FrameSink& sink, std::span<const std::byte> body);
  Status begin_message(FrameSink& sink, std::span<const std::byte> body);
  Status check_part(const Partial& partial) const;
  Status begin_segment();
  Status finish_segment(FrameSink& sink);
  Status finish_loan(FrameSink& sink, std::span<const std::byte> body);
  Status finish_part(FrameSink& sink, Partial& partial, std::size_t size_bytes);
  Status take_inline(const Lead& lead, Message& message);
  rehearse::Result<Buffer> buffer_for(std::size_t size_bytes);
  std::span<std::byte> direct() const;
  void took_direct(std::size_t size_bytes);
  std::size_t staged() const { return end_ - begin_; }

  static constexpr std::size_t kStagingBytes = std::size_t{64} << 10;
  static constexpr std::size_t kBulkStagedBytes = std::size_t{8} << 10;
  static constexpr std::size_t kBehindBytes = std::size_t{1} << 10;

  std::shared_ptr<BufferPool> pool_;
  std::unique_ptr<std::byte[]> staging_ = std::make_unique<std::byte[]>(kStagingBytes);
  std::size_t begin_ = 0, end_ = 0;
  bool bulk_ = false;             // the last message came in segments; likely the next too
  std::optional<Prelude> frame_;  // whose body is coming
  // Where the body of frame_ goes if not through staging: a payload, or large_.
  std::span<std::byte> target_;
  std::size_t target_filled_ = 0;
  std::uint32_t target_crc_ = 0;
  Bytes large_;
  std::array<Partial, kLanes> partial_;
  Lending* lending_ = nullptr;  // of the channel that is being read
  Failure failure_;
};

}  // namespace rehearse::real
