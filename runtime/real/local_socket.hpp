#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/real/descriptor.hpp"

namespace rehearse::real {

// Stream sockets within this machine, under names that are in no file system: the kernel chooses
// them and forgets them with the listener.

struct LocalListener {
  Descriptor socket;
  std::string name;
};
/// Fails with `cannot_start`.
Result<LocalListener> listen_locally();

/// Connects at once. Fails with `peer_lost` where nobody listens, `stopped` if it has to be tried
/// again.
Result<Descriptor> connect_locally(const std::string& name);

/// The next connection that waits at `listener`, non-blocking; invalid if there is none. One of
/// another user is closed.
Descriptor accept_locally(int listener);

/// Passes copies of `descriptors`. False if the other side is gone.
bool send_descriptors(int socket, std::span<const int> descriptors);

enum class Arrived { nothing, descriptors, end };
/// What waits at `socket`.
Arrived receive_descriptors(int socket, std::vector<Descriptor>& into);

}  // namespace rehearse::real
