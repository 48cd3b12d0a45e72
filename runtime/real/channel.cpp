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

std::optional<Transport> transport_named(std::string_view name) {
  for (const auto transport : {Transport::automatic, Transport::tcp, Transport::shm}) {
    if (name == real::name(transport)) return transport;
  }
  return std::nullopt;
}

}  // namespace rehearse::real
