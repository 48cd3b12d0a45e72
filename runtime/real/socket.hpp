#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/real/descriptor.hpp"

namespace rehearse::real {

/// Where a process listens. IPv4 in host byte order.
struct Place {
  std::uint32_t host = 0x7f000001;  // 127.0.0.1
  std::uint16_t port = 0;
  std::int32_t node = 0;  ///< which host of the job; several may be on one machine
  std::string local;      ///< name of its local listener; empty: none
  auto operator<=>(const Place&) const = default;
};
std::string to_string(const Place& place);

struct Listener {
  Descriptor socket;
  Place place;
};

/// Listens on 127.0.0.1, at a port that the kernel chooses. Fails with `cannot_start`.
Result<Listener> listen_on_loopback();

/// The next connection that waits at `listener`, non-blocking and without Nagle's delay; invalid if
/// there is none.
Descriptor accept_from(int listener);

/// Begins to connect and does not wait. Fails with `peer_lost` where nobody listens.
Result<Descriptor> begin_connect(const Place& place);

/// Why a connection attempt failed, once it is writable; 0 if it stands.
int connect_error(int socket);

/// The other side of a connection has been closed.
bool has_closed(int socket);

/// Bytes that the peer's kernel has not acknowledged.
int unacknowledged_by_kernel(int socket);

void set_nonblocking(int descriptor);
std::string error_text(int number);

}  // namespace rehearse::real
