#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/autograd/ids.hpp"

namespace rehearse::autograd {

/// A set of pairs inside one `Provenance`, hash-consed: equal sets have equal ids.
struct SetId {
  std::uint32_t value = 0;
  auto operator<=>(const SetId&) const = default;
};

/// What is known of one pair: where its message went, and the pairs directly behind its send node
/// (or the shared sets that hold them), sorted. For a shared set: its content; no receiver.
struct Item {
  PairId id;
  WorkerId receiver = 0;
  std::vector<PairId> behind;

  bool operator==(const Item&) const = default;
};

/// What a backward pass has to run, and what is not known yet.
struct LiveSet {
  std::map<WorkerId, std::vector<PairId>> sends;    ///< per worker its live send pairs, sorted
  std::map<WorkerId, std::vector<PairId>> missing;  ///< per owner what to QUERY it for, sorted

  bool complete() const { return missing.empty(); }
};

/// Small values force the rare ways; the defaults are those of `Limits`.
struct ProvenanceBounds {
  std::size_t message_items = 64;   ///< attached to one message at most, nearest first
  std::size_t answer_items = 4096;  ///< in one ANSWER at most, besides the items asked for
  std::size_t words = 200'000;      ///< pairs in all sets; beyond it new pairs are opaque
  std::size_t inline_pairs = 4;     ///< a larger set travels as a shared set of its own
};

/// What lies behind every pair, for one worker and one context, so that the worker that calls
/// `backward` knows without asking which sends its roots reach. It is a cache: whatever is missing
/// is asked of its owner, so bounds cost time, never exactness.
///
/// Pure: no waiting, no clock, no torch. All results are sorted or in an order that follows from
/// the calls alone.
class Provenance {
 public:
  /// Says from the graph itself what is behind an own pair of which no item was kept (an opaque
  /// one); empty if there is no such pair.
  using ItemOf = std::function<std::optional<Item>(PairId)>;
  /// True where an unlikely, legal path is to be taken: `Faults::rare`.
  using Rare = std::function<bool(const char* place)>;

  Provenance(WorkerId self, const ProvenanceBounds& bounds, ItemOf item_of, Rare rare = nullptr);

  /// Sets of pairs behind the nodes of the own graph. REQUIRES: not `saturated()`.
  static SetId empty() { return {}; }
  SetId single(PairId pair);
  SetId join(SetId a, SetId b);
  const std::vector<PairId>& pairs(SetId set) const;

  /// True once the sets have outgrown their bound, for good. Then walk no node for its set any more
  /// (the sets are freed, so drop the memo as well), and give `on_send` the empty set.
  bool saturated() const { return saturated_; }

  /// A message with `pair` goes to `receiver`; `behind` is what its send node reaches. Gives the
  /// items to attach: nearest first, without those that the receiver has or owns. None for an
  /// opaque pair.
  std::vector<Item> on_send(PairId pair, WorkerId receiver, SetId behind);
  /// A message from `from` had `items` attached.
  void on_receive(WorkerId from, const std::vector<Item>& items);

  /// The live set behind the recv pairs that the roots reach locally. If it is not `complete()`,
  /// ask the owners of what is missing, give `add_answer` what they say, and call this again.
  LiveSet live(const std::vector<PairId>& reached);
  /// Answers a QUERY: the items asked for, then what is known behind them, nearest first.
  std::vector<Item> answer(const std::vector<PairId>& asked);
  /// False if an item that was asked for is not there: its owner does not know it, and to ask again
  /// would not end.
  [[nodiscard]] bool add_answer(const std::vector<PairId>& asked, const std::vector<Item>& items);

  std::size_t item_count() const { return table_.size(); }
  std::size_t word_count() const { return words_; }
  std::size_t set_count() const { return sets_.size(); }
  std::size_t opaque_count() const { return opaque_; }

 private:
  struct Set {
    std::vector<PairId> pairs;
    SetId base;                   ///< the larger of the two it was joined from: a subset of it
    std::optional<PairId> named;  ///< its id as a shared set, once it has travelled
  };

  SetId intern(std::vector<PairId> pairs, SetId base);
  std::vector<PairId> references(SetId set);
  PairId name_set(SetId set);
  std::vector<Item> unknown_to(WorkerId peer, PairId from);
  const Item* find(PairId id);
  void saturate();

  WorkerId self_;
  ProvenanceBounds bounds_;
  ItemOf item_of_;
  Rare rare_;
  std::vector<Set> sets_;
  std::unordered_multimap<std::uint64_t, SetId> set_of_hash_;
  std::unordered_map<PairId, Item> table_;
  std::unordered_map<WorkerId, std::unordered_set<PairId>> known_;
  std::uint64_t next_shared_ = 0;
  std::size_t words_ = 0;
  std::size_t opaque_ = 0;
  bool saturated_ = false;
};

}  // namespace rehearse::autograd
