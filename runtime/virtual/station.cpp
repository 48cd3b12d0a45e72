#include "runtime/virtual/station.hpp"

namespace rehearse::virtual_world {

std::size_t Peers::place_of(StationId id) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t place = (id * 0x9e3779b1U >> 8) & mask;
  while (table_[place] != 0 && peers_[table_[place] - 1].id != id) place = (place + 1) & mask;
  return place;
}

Peer* Peers::find(StationId id) {
  if (table_.empty()) return nullptr;
  const std::uint32_t entry = table_[place_of(id)];
  return entry == 0 ? nullptr : &peers_[entry - 1];
}

Peer& Peers::at_or_new(StationId id) {
  if (Peer* known = find(id)) return *known;
  peers_.emplace_back();
  peers_.back().id = id;
  if (2 * peers_.size() > table_.size()) {
    grow();
  } else {
    table_[place_of(id)] = static_cast<std::uint32_t>(peers_.size());
  }
  return peers_.back();
}

void Peers::grow() {
  table_.assign(table_.empty() ? 4 : 2 * table_.size(), 0);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    table_[place_of(peers_[i].id)] = static_cast<std::uint32_t>(i + 1);
  }
}

}  // namespace rehearse::virtual_world
