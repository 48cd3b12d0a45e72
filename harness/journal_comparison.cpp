#include "harness/journal_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "harness/distance.hpp"

namespace rehearse::harness {
namespace {

auto key_of(const JournalEntry& entry) {
  return std::tie(entry.step, entry.creator, entry.ordinal, entry.pass, entry.owner, entry.leaf);
}

class Comparer {
 public:
  explicit Comparer(const Closeness& bound) : bound_(bound) { result_.max_ulp = 0; }

  void matched(const JournalEntry& entry, const JournalEntry& expected) {
    ++result_.compared;
    if (entry.digest == expected.digest) return;
    const auto apart = distance(entry.values, expected.values);
    if (!apart) {
      const bool bitwise = bound_.kind == Closeness::Kind::bitwise;
      return differs(entry, bitwise ? "bits differ" : "bits differ, and how far was not measured");
    }
    if (result_.max_ulp) result_.max_ulp = std::max(*result_.max_ulp, apart->max_ulp);
    note(entry, why(*apart), apart->index);
  }

  void unknown(const JournalEntry& entry) {
    ++result_.compared;
    differs(entry, "the oracle has none");
  }

  void missing(const JournalEntry& expected) { differs(expected, "missing"); }

  JournalComparison take() { return std::move(result_); }

 private:
  std::string why(const Distance& apart) const {
    if (bound_.kind == Closeness::Kind::bitwise) return "bits differ";
    if (!is_beyond(bound_, apart)) return {};
    return bound_.kind == Closeness::Kind::max_ulp
               ? fmt::format("{} ULP apart", apart.max_ulp)
               : fmt::format("{:.3g} apart, relatively", apart.relative);
  }

  void differs(const JournalEntry& entry, const char* why) {
    result_.max_ulp.reset();
    note(entry, why, std::nullopt);
  }

  void note(const JournalEntry& entry, std::string why, std::optional<std::int64_t> index) {
    ++result_.different;
    const bool first_beyond = !why.empty() && result_.why.empty();
    if (result_.first && !first_beyond) return;
    result_.first = entry;
    result_.index = index;
    result_.why = std::move(why);
  }

  const Closeness& bound_;
  JournalComparison result_;
};

}  // namespace

JournalComparison compare(std::vector<JournalEntry> run, std::vector<JournalEntry> oracle,
                          bool complete, const Closeness& bound) {
  std::sort(run.begin(), run.end());
  std::sort(oracle.begin(), oracle.end());
  Comparer comparer(bound);
  auto expected = oracle.begin();
  const JournalEntry* before = nullptr;  // several attempts may have written under one key
  const auto skip = [&](const JournalEntry& line) {
    const bool seen = before && key_of(*before) == key_of(line);
    if (complete && !seen) comparer.missing(line);
  };
  for (const JournalEntry& entry : run) {
    for (; expected != oracle.end() && key_of(*expected) < key_of(entry); ++expected) {
      skip(*expected);
    }
    if (expected != oracle.end() && key_of(*expected) == key_of(entry)) {
      comparer.matched(entry, *expected);
    } else {
      comparer.unknown(entry);
    }
    before = &entry;
  }
  for (; expected != oracle.end(); ++expected) skip(*expected);
  return comparer.take();
}

}  // namespace rehearse::harness
