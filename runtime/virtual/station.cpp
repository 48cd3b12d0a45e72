#include "runtime/virtual/station.hpp"

#include <bit>
#include <utility>

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
  return (key * 0x9e3779b97f4a7c15U) >> 32 & (buckets_.size() - 1);
}

Channels::Id Channels::find(StationId from, StationId to) const {
  if (buckets_.empty()) return kNone;
  Id id = buckets_[home(from, to)];
  while (id != kNone && (channels_[id].from != from || channels_[id].to != to)) {
    id = channels_[id].next;
  }
  return id;
}

void Channels::link(Id id) {
  Id& first = buckets_[home(channels_[id].from, channels_[id].to)];
  channels_[id].next = std::exchange(first, id);
}

Channels::Id Channels::get(StationId from, StationId to) {
  if (const Id known = find(from, to); known != kNone) return known;
  if (free_.empty()) grow();
  const Id id = free_.back();
  free_.pop_back();
  channels_[id].from = from;
  channels_[id].to = to;
  link(id);
  return id;
}

void Channels::forget(Id id) {
  Id* before = &buckets_[home(channels_[id].from, channels_[id].to)];
  while (*before != id) before = &channels_[*before].next;
  *before = channels_[id].next;
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
  buckets_.assign(2 * channels_.size(), kNone);
  for (std::size_t id = 0; id < before; ++id) link(static_cast<Id>(id));
}

}  // namespace rehearse::virtual_world
