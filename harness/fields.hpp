#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/document.hpp"
#include "harness/keys.hpp"
#include "runtime/base/result.hpp"

namespace rehearse::harness {

/// Reads one table of a scenario file. What is not as it must be becomes a problem at its place;
/// the reading function then returns nothing, and reading goes on.
class Fields {
 public:
  /// Reports keys that the table may not have: unknown ones with the nearest name, later ones as
  /// "not supported yet". `path` is the table's dotted name, empty for the whole file.
  Fields(const Value& table, const KeySet& keys, std::string path, Problems& problems);

  const Value* find(std::string_view key) const { return table_.find(key); }
  /// As `find`, and a problem if it is not there; `example` completes "expected `…`".
  const Value* required(std::string_view key, std::string_view example);

  std::optional<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::optional<std::string> text(std::string_view key, std::string_view example);
  /// A string with a unit; `parse` is one of units.hpp.
  template <class T>
  std::optional<T> quantity(std::string_view key, Result<T> (*parse)(std::string_view),
                            std::string_view example);
  /// The value, if it is there and a table.
  const Value* table(std::string_view key, std::string_view example);

  std::string path_of(std::string_view key) const;
  const Place& place() const { return table_.place; }
  /// Where `key` was written; the table's place if it was not.
  const Place& key_place(std::string_view key) const;
  void refuse(const Place& place, const std::string& message) { problems_.add(place, message); }

 private:
  const Value& table_;
  std::string path_;
  Problems& problems_;
};

/// "`cluster.hosts` is a string, expected an integer".
std::string wrong_type(std::string_view path, const Value& value, std::string_view expected);

/// "unknown kind "kil", expected one of …; the nearest is "kill"".
std::string unknown_name(std::string_view what, std::string_view word,
                         const std::vector<std::string>& names);

/// "`elastic` is not supported yet".
std::string not_supported_yet(std::string_view what);

/// Single values, for elements of lists.
std::optional<std::int64_t> integer_of(const Value& value, std::string_view path, std::int64_t min,
                                       std::int64_t max, Problems& problems);
std::optional<double> number_of(const Value& value, std::string_view path, double min, double max,
                                Problems& problems);
std::optional<std::string> text_of_value(const Value& value, std::string_view path,
                                         std::string_view example, Problems& problems);

template <class T>
std::optional<T> Fields::quantity(std::string_view key, Result<T> (*parse)(std::string_view),
                                  std::string_view example) {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != Value::Type::text) {
    const std::string expected = "a string with a unit such as \"" + std::string(example) + '"';
    refuse(value->place, wrong_type(path_of(key), *value, expected));
    return std::nullopt;
  }
  auto parsed = parse(value->text);
  if (parsed.ok()) return parsed.value();
  refuse(value->place, '`' + path_of(key) + "`: " + parsed.failure().message);
  return std::nullopt;
}

}  // namespace rehearse::harness
