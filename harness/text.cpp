#include "harness/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearse::harness {

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before, last(to.size() + 1), row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t change = from[i - 1] == to[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[to.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  // The distance is quadratic, and a name of a megabyte is nobody's typing error.
  const std::string_view start = word.substr(0, 64);
  const auto closer = [&](const std::string& a, const std::string& b) {
    return edit_distance(start, a) < edit_distance(start, b);
  };
  const auto best = std::min_element(names.begin(), names.end(), closer);
  if (best == names.end()) return {};
  // One slip in three letters, or a name that was cut short or went on too long.
  constexpr std::size_t kShortest = 3;
  const std::size_t length = std::max(start.size(), best->size());
  const bool goes_on = std::min(start.size(), best->size()) >= kShortest &&
                       (start.starts_with(*best) || best->starts_with(start));
  return goes_on || 3 * edit_distance(start, *best) <= length ? *best : std::string();
}

std::string instead_of(std::string_view word, const std::vector<std::string>& names, char quote) {
  if (names.empty()) return ", expected none";
  const std::string near = nearest(word, names);
  if (near.empty()) return ", expected " + one_of(names);
  return fmt::format(", did you mean {}{}{}? Expected {}", quote, near, quote, one_of(names));
}

std::string one_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += '"' + names[i] + '"';
  }
  return text;
}

bool is_slug(std::string_view text) {
  const auto allowed = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out = "\"";
  for (const char letter : text.substr(0, kLongest)) {
    const auto code = static_cast<unsigned char>(letter);
    out += code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, letter);
  }
  // A cut may have fallen into the middle of a character.
  while (text.size() > kLongest && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) {
    out.pop_back();
  }
  if (text.size() > kLongest && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
  return out + (text.size() > kLongest ? "…\"" : "\"");
}

}  // namespace rehearse::harness
