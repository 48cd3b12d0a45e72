#include "runtime/real/channel.hpp"

namespace rehearse::real {

std::string_view name(Transport transport) {
  switch (transport) {
    case Transport::automatic:
      return "automatic";
    case Transport::tcp:
      return "tcp";
    case Transport::shm:
      return "shm";
  }
  return "?";
}

}  // namespace rehearse::real
