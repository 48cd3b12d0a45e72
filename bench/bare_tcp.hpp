#pragma once

#include <array>
#include <cstddef>

#include "runtime/base/bytes.hpp"

/// What TCP itself costs here: blocking calls, no checksum, one buffer.
namespace rehearse::bench {

/// Two connected loopback sockets without Nagle's delay, made before the processes fork.
/// Ends the process if there are none.
std::array<int, 2> bare_pair();

/// Median microseconds of `round_trips` of `size_bytes`; the other end runs `bare_echo`.
double bare_ping(int socket, std::size_t size_bytes, int round_trips, Bytes& buffer);
void bare_echo(int socket, std::size_t size_bytes, int round_trips, Bytes& buffer);

}  // namespace rehearse::bench
