#include "runtime/virtual/station.hpp"

#include <bit>

namespace rehearse::virtual_world {

std::vector<StationId> StationSet::all() const {
  std::vector<StationId> all;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    for (std::uint64_t word = words_[i]; word != 0; word &= word - 1) {
      all.push_back(static_cast<StationId>(64 * i) +
                    static_cast<StationId>(std::countr_zero(word)));
    }
  }
  return all;
}

std::size_t Channels::home(StationId from, StationId to) const {
  const std::uint64_t key = std::uint64_t{from} << 32 | to;
  return (key * 0x9e3779b97f4a7c15U) >> 32 & (table_.size() - 1);
}

// Where the pair is, or would be.
std::size_t Channels::probe(StationId from, StationId to) const {
  std::size_t at = home(from, to);
  while (table_[at].id != kNone && (table_[at].from != from || table_[at].to != to)) {
    at = (at + 1) & (table_.size() - 1);
  }
  return at;
}

Channels::Id Channels::find(StationId from, StationId to) const {
  return table_.empty() ? kNone : table_[probe(from, to)].id;
}

Channels::Id Channels::get(StationId from, StationId to) {
  if (free_.empty()) grow();
  Entry& entry = table_[probe(from, to)];
  if (entry.id != kNone) return entry.id;
  entry = {from, to, free_.back()};
  free_.pop_back();
  channels_[entry.id].from = from;
  channels_[entry.id].to = to;
  return entry.id;
}

void Channels::forget(Id id) {
  const std::size_t mask = table_.size() - 1;
  std::size_t hole = probe(channels_[id].from, channels_[id].to);
  // What stands behind the hole because its own place was taken moves up.
  for (std::size_t at = (hole + 1) & mask; table_[at].id != kNone; at = (at + 1) & mask) {
    const std::size_t wanted = home(table_[at].from, table_[at].to);
    if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
    table_[hole] = table_[at];
    hole = at;
  }
  table_[hole] = {};
  channels_[id] = {};
  free_.push_back(id);
}

// Called when all are in use.
void Channels::grow() {
  const std::size_t before = channels_.size();
  channels_.resize(before == 0 ? 16 : 2 * before);
  for (std::size_t id = channels_.size(); id > before; --id) {
    free_.push_back(static_cast<Id>(id - 1));
  }
  table_.assign(2 * channels_.size(), {});
  for (std::size_t id = 0; id < before; ++id) {
    const Channel& channel = channels_[id];
    table_[probe(channel.from, channel.to)] = {channel.from, channel.to, static_cast<Id>(id)};
  }
}

}  // namespace rehearse::virtual_world
