#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/real/poller.hpp"
#include "runtime/world/buffers.hpp"
#include "runtime/world/frame.hpp"

namespace rehearse::real {

/// Which way bytes go between processes.
enum class Transport : std::uint8_t {
  automatic,  ///< shared memory between workers of one host, TCP between hosts
  tcp,
  shm,  ///< shared memory; all processes must be of one machine
};
std::string_view name(Transport transport);
/// Nothing if there is no transport of that name.
std::optional<Transport> transport_named(std::string_view name);

/// Payloads that are not copied into the stream: one side puts them into memory that the other can
/// see, and says where.
class Lending {
 public:
  virtual ~Lending() = default;
  /// Memory that can be lent. Null owner: there is none left, or not of that size.
  virtual Buffer lendable(std::size_t size_bytes) = 0;
  /// The peer has these bytes from now on, until it lets go of them. Nothing if they do not begin a
  /// buffer of `lendable`, or are lent already.
  virtual std::optional<Loan> lend(std::span<const std::byte> bytes) = 0;
  /// What the peer has lent, for as long as the payload lives; it may be written to if nobody else
  /// holds it. Fails with `corrupt` if that is no memory of the peer's.
  virtual Result<Payload> borrow(const Loan& loan) = 0;
};

/// A stream of bytes to and from one peer; never blocks.
class Channel {
 public:
  virtual ~Channel() = default;

  /// As writev: how much was taken; else -1 and errno, EAGAIN if nothing can be taken now.
  virtual ssize_t write(std::span<const iovec> pieces) = 0;
  /// As readv; 0: the peer's side has ended, and all that it sent has been read.
  virtual ssize_t read(std::span<const iovec> pieces) = 0;
  /// No more will come than what can be read now.
  virtual bool ending() const { return false; }

  /// The peer has closed its side by now; what it wrote before may still be there to be read.
  virtual bool peer_has_closed() const = 0;

  /// `watcher` is told when there is something to read or room to write again.
  virtual void watch(Poller& poller, Watcher& watcher) = 0;
  virtual void unwatch(Poller& poller, const Watcher& watcher) = 0;

  /// Connected from the beginning.
  virtual bool stands() const { return false; }
  /// Why connecting failed; 0 if it stands or is under way.
  virtual int connect_error() const { return 0; }
  /// Bytes that would be lost if this side ended now.
  virtual int unsent() const { return 0; }
  /// Which worker is at the other end, as soon as that is known.
  virtual void peer_is(std::uint16_t) {}
  /// Null: every payload goes through the stream.
  virtual Lending* lending() { return nullptr; }
  virtual Transport transport() const = 0;
};

}  // namespace rehearse::real
