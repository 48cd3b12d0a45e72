#include "harness/fields.hpp"

#include <fmt/format.h>

#include <cmath>

#include "harness/text.hpp"

namespace rehearse::harness {
namespace {

std::string shown(const Value& value) {
  if (value.type == Value::Type::integer) return fmt::format("the integer {}", value.integer);
  if (value.type == Value::Type::number) return fmt::format("the number {}", value.number);
  if (value.type == Value::Type::text) return fmt::format("the string {}", in_quotes(value.text));
  if (value.type == Value::Type::boolean) return value.boolean ? "`true`" : "`false`";
  return std::string(type_name(value.type));
}

}  // namespace

std::string wrong_type(std::string_view path, const Value& value, std::string_view expected) {
  return fmt::format("`{}` is {}, expected {}", path, shown(value), expected);
}

std::string unknown_name(std::string_view what, std::string_view word,
                         const std::vector<std::string>& names) {
  return fmt::format("unknown {} {}{}", what, in_quotes(word), instead_of(word, names));
}

std::string not_supported_yet(std::string_view what) {
  return fmt::format("{} is not supported yet", what);
}

Fields::Fields(const Value& table, const KeySet& keys, std::string path, Problems& problems)
    : table_(table), path_(std::move(path)), problems_(problems) {
  for (const Entry& entry : table.entries) {
    if (contains(keys.known, entry.key)) continue;
    if (contains(keys.later, entry.key)) {
      refuse(entry.place, not_supported_yet('`' + path_of(entry.key) + '`'));
      continue;
    }
    const std::string what = fmt::format("key in {}:", keys.table);
    refuse(entry.place, unknown_name(what, entry.key, strings(keys.known)));
  }
}

std::string Fields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Place& Fields::key_place(std::string_view key) const {
  for (const Entry& entry : table_.entries) {
    if (entry.key == key) return entry.place;
  }
  return table_.place;
}

const Value* Fields::required(std::string_view key, std::string_view example) {
  const Value* value = find(key);
  if (!value) {
    refuse(table_.place, fmt::format("`{}` is missing, expected {}", path_of(key), example));
  }
  return value;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t min,
                                            std::int64_t max) {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  return integer_of(*value, path_of(key), min, max, problems_);
}

std::optional<std::string> Fields::text(std::string_view key, std::string_view example) {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  return text_of_value(*value, path_of(key), example, problems_);
}

const Value* Fields::table(std::string_view key, std::string_view example) {
  const Value* value = find(key);
  if (!value || value->type == Value::Type::table) return value;
  refuse(value->place,
         wrong_type(path_of(key), *value, fmt::format("a table such as {}", example)));
  return nullptr;
}

std::optional<std::int64_t> integer_of(const Value& value, std::string_view path, std::int64_t min,
                                       std::int64_t max, Problems& problems) {
  const std::string expected = fmt::format("an integer from {} to {}", min, max);
  if (value.type == Value::Type::integer && value.integer >= min && value.integer <= max) {
    return value.integer;
  }
  problems.add(value.place, wrong_type(path, value, expected));
  return std::nullopt;
}

std::optional<double> number_of(const Value& value, std::string_view path, double min, double max,
                                Problems& problems) {
  const bool is_integer = value.type == Value::Type::integer;
  const double number = is_integer ? static_cast<double>(value.integer) : value.number;
  const bool is_number = is_integer || value.type == Value::Type::number;
  // The comparison is false for NaN too.
  if (is_number && number >= min && number <= max) return number;
  problems.add(value.place,
               wrong_type(path, value, fmt::format("a number from {} to {}", min, max)));
  return std::nullopt;
}

std::optional<std::string> text_of_value(const Value& value, std::string_view path,
                                         std::string_view example, Problems& problems) {
  if (value.type == Value::Type::text) return value.text;
  problems.add(value.place, wrong_type(path, value, fmt::format("a string such as {}", example)));
  return std::nullopt;
}

}  // namespace rehearse::harness
