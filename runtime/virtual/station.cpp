#include "runtime/virtual/station.hpp"

namespace rehearse::virtual_world {

std::size_t Peers::probe(StationId id) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t at = (id * 0x9e3779b1U >> 8) & mask;
  while (table_[at].place_plus_1 != 0 && table_[at].id != id) at = (at + 1) & mask;
  return at;
}

std::uint32_t Peers::place_of(StationId id) const {
  return table_.empty() ? kNone : table_[probe(id)].place_plus_1 - 1;
}

std::uint32_t Peers::add(StationId id) {
  peers_.emplace_back();
  peers_.back().id = id;
  if (2 * peers_.size() > table_.size()) {
    grow();
  } else {
    table_[probe(id)] = {id, static_cast<std::uint32_t>(peers_.size())};
  }
  return static_cast<std::uint32_t>(peers_.size() - 1);
}

void Peers::grow() {
  table_.assign(table_.empty() ? 4 : 2 * table_.size(), {});
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    table_[probe(peers_[i].id)] = {peers_[i].id, static_cast<std::uint32_t>(i + 1)};
  }
}

}  // namespace rehearse::virtual_world
