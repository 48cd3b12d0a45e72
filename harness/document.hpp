#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/problems.hpp"

namespace rehearse::harness {

struct Entry;

/// A TOML value and where it was written. Own types, so that only one file includes toml++, and so
/// that overrides and the file are one tree when they are checked.
struct Value {
  enum class Type : std::uint8_t { boolean, integer, number, text, date, array, table };

  Type type = Type::table;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;
  std::string text;            ///< of `text`
  std::vector<Value> items;    ///< of `array`
  std::vector<Entry> entries;  ///< of `table`, by key
  Place place;

  Value* find(std::string_view key);
  const Value* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  Place place;  ///< of the key
  Value value;
};

/// "a string", "an integer", …; for messages.
std::string_view type_name(Value::Type type);

/// The largest scenario file that is read.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

/// Parses TOML 1.0. On an error (syntax, a key given twice, not UTF-8, nested too deep) adds a
/// problem with its place and returns an empty table.
Value parse_toml(std::string_view text, const std::string& source, Problems& problems);

/// The text of a scenario file. Problems: it does not exist, is a directory, cannot be read, is
/// larger than `kMaxFileBytes`, or is empty. Their place is line 1, column 1.
std::string read_scenario_text(const std::string& file, Problems& problems);

/// Adds a problem if `text` nests keys so deep (`a.a.a.…`) that toml++ 3.3, which recurses without
/// a bound over dotted keys, would run out of stack.
void check_key_depth(std::string_view text, const Place& start, Problems& problems);

/// Adds a problem, with its place, if `text` is not UTF-8.
void check_utf8(std::string_view text, const Place& start, Problems& problems);

}  // namespace rehearse::harness
