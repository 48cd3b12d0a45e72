#include "runtime/autograd/provenance.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::autograd {
namespace {

/// A longer list counts as several items against the bound of a message.
constexpr std::size_t kUsualPairs = 8;

std::uint64_t hash_of(const std::vector<PairId>& pairs) {
  Hash64 hash;
  for (const PairId pair : pairs) hash.add(pair.value());
  return hash.value();
}

void sort_all(std::map<WorkerId, std::vector<PairId>>& lists) {
  for (auto& [worker, pairs] : lists) std::sort(pairs.begin(), pairs.end());
}

}  // namespace

Provenance::Provenance(WorkerId self, const ProvenanceBounds& bounds, ItemOf item_of, Rare rare)
    : self_(self), bounds_(bounds), item_of_(std::move(item_of)), rare_(std::move(rare)) {
  sets_.emplace_back();
}

SetId Provenance::single(PairId pair) { return intern({pair}, empty()); }

SetId Provenance::join(SetId a, SetId b) {
  if (a == b || b == empty()) return a;
  if (a == empty()) return b;
  const std::vector<PairId>& left = pairs(a);
  const std::vector<PairId>& right = pairs(b);
  std::vector<PairId> both;
  both.reserve(left.size() + right.size());
  std::set_union(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
  if (both.size() == left.size()) return a;
  if (both.size() == right.size()) return b;
  return intern(std::move(both), left.size() >= right.size() ? a : b);
}

const std::vector<PairId>& Provenance::pairs(SetId set) const {
  REHEARSE_CHECK(set.value < sets_.size(), "a set of provenance that has been freed");
  return sets_[set.value].pairs;
}

SetId Provenance::intern(std::vector<PairId> pairs, SetId base) {
  REHEARSE_CHECK(!saturated_, "provenance has outgrown its bound: there are no sets any more");
  const std::uint64_t hash = hash_of(pairs);
  const auto [first, last] = set_of_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (sets_[at->second.value].pairs == pairs) return at->second;
  }
  words_ += pairs.size();
  if (words_ > bounds_.words) {
    saturate();
    return empty();
  }
  const SetId id{static_cast<std::uint32_t>(sets_.size())};
  sets_.push_back({std::move(pairs), base, std::nullopt});
  set_of_hash_.emplace(hash, id);
  return id;
}

void Provenance::saturate() {
  saturated_ = true;
  words_ = 0;
  set_of_hash_ = {};
  sets_.clear();
  sets_.shrink_to_fit();
  sets_.emplace_back();
}

std::vector<Item> Provenance::on_send(PairId pair, WorkerId receiver, SetId behind) {
  if (saturated_) {
    ++opaque_;
    return {};
  }
  table_.emplace(pair, Item{pair, receiver, references(behind)});
  if (rare_ && rare_("provenance_withheld")) return {};
  return unknown_to(receiver, pair);
}

void Provenance::on_receive(WorkerId from, const std::vector<Item>& items) {
  std::unordered_set<PairId>& known = known_[from];
  for (const Item& item : items) {
    known.insert(item.id);
    table_.emplace(item.id, item);
  }
}

// A flat list behind every pair would be quadratic: a large set travels once to each peer, under a
// name, as its base set and what it has more.
std::vector<PairId> Provenance::references(SetId set) {
  if (pairs(set).size() <= bounds_.inline_pairs) return pairs(set);
  return {name_set(set)};
}

PairId Provenance::name_set(SetId set) {
  Set& named = sets_[set.value];
  if (named.named) return *named.named;
  SetId base = named.base;
  while (base != empty() && !sets_[base.value].named) base = sets_[base.value].base;
  const Set& known = sets_[base.value];
  Item item{PairId(self_, next_shared_++, true), 0, {}};
  std::set_difference(named.pairs.begin(), named.pairs.end(), known.pairs.begin(),
                      known.pairs.end(), std::back_inserter(item.behind));
  if (known.named) item.behind.push_back(*known.named);
  std::sort(item.behind.begin(), item.behind.end());
  named.named = item.id;
  table_.emplace(item.id, std::move(item));
  return *named.named;
}

std::vector<Item> Provenance::unknown_to(WorkerId peer, PairId from) {
  if (peer == self_) return {};
  std::unordered_set<PairId>& known = known_[peer];
  std::vector<Item> items;
  std::deque<PairId> left{from};
  std::size_t size = 0;  // in items of usual size
  while (!left.empty() && size < bounds_.message_items) {
    const PairId id = left.front();
    left.pop_front();
    if (id.owner() == peer && id != from) continue;
    const auto at = table_.find(id);
    if (at == table_.end() || !known.insert(id).second) continue;
    size += 1 + at->second.behind.size() / kUsualPairs;
    items.push_back(at->second);
    left.insert(left.end(), at->second.behind.begin(), at->second.behind.end());
  }
  return items;
}

const Item* Provenance::find(PairId id) {
  const auto at = table_.find(id);
  if (at != table_.end()) return &at->second;
  if (id.owner() != self_ || id.shared() || !item_of_) return nullptr;
  std::optional<Item> item = item_of_(id);
  if (!item) return nullptr;
  std::sort(item->behind.begin(), item->behind.end());
  return &table_.emplace(id, std::move(*item)).first->second;
}

LiveSet Provenance::live(const std::vector<PairId>& reached) {
  LiveSet live;
  std::unordered_set<PairId> seen;
  std::vector<PairId> left = reached;
  while (!left.empty()) {
    const PairId id = left.back();
    left.pop_back();
    if (!seen.insert(id).second) continue;
    const Item* item = find(id);
    if (!item) {
      live.missing[id.owner()].push_back(id);
      continue;
    }
    if (!id.shared()) live.sends[id.owner()].push_back(id);
    left.insert(left.end(), item->behind.begin(), item->behind.end());
  }
  sort_all(live.sends);
  sort_all(live.missing);
  return live;
}

std::vector<Item> Provenance::answer(const std::vector<PairId>& asked) {
  std::vector<Item> items;
  std::unordered_set<PairId> seen;
  std::deque<PairId> left(asked.begin(), asked.end());
  // What was asked for comes first, and all of it: so that every round of questions gets further.
  while (!left.empty() && items.size() < asked.size() + bounds_.answer_items) {
    const PairId id = left.front();
    left.pop_front();
    if (!seen.insert(id).second) continue;
    const Item* item = find(id);
    if (!item) continue;
    items.push_back(*item);
    left.insert(left.end(), item->behind.begin(), item->behind.end());
  }
  return items;
}

bool Provenance::add_answer(const std::vector<PairId>& asked, const std::vector<Item>& items) {
  for (const Item& item : items) table_.emplace(item.id, item);
  return std::all_of(asked.begin(), asked.end(), [this](PairId id) { return table_.contains(id); });
}

}  // namespace rehearse::autograd
