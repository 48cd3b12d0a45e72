#include "harness/overrides.hpp"

#include <fmt/format.h>

#include "harness/fields.hpp"
#include "harness/text.hpp"

namespace rehearse::harness {
namespace {

/// Deeper than any key of the format; what it stops is a chain of thousands.
constexpr std::size_t kMaxParts = 16;

std::vector<std::string> split(std::string_view dotted) {
  std::vector<std::string> parts(1);
  for (const char letter : dotted) {
    if (letter == '.') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

void place_all(Value& value, const Place& place) {
  value.place = place;
  for (Value& item : value.items) place_all(item, place);
  for (Entry& entry : value.entries) {
    entry.place = place;
    place_all(entry.value, place);
  }
}

std::optional<Value> read_value(const std::string& text, const Place& place, Problems& problems) {
  Problems not_toml;
  Value document = parse_toml("v = " + text, *place.source, not_toml);
  if (not_toml.empty() && document.entries.size() == 1 && document.entries[0].key == "v") {
    place_all(document.entries[0].value, place);
    return std::move(document.entries[0].value);
  }
  const bool structured =
      !text.empty() && std::string_view("[{\"'").find(text[0]) != std::string_view::npos;
  if (structured || text.empty()) {
    const std::string why = not_toml.empty() ? "more than one value" : not_toml.sorted()[0].message;
    problems.add(place, fmt::format("{} is no TOML value ({}), expected a value such as 6, true, "
                                    "\"250ms\" or a bare word",
                                    in_quotes(text), why));
    return std::nullopt;
  }
  Value value;
  value.type = Value::Type::text;
  value.text = text;
  value.place = place;
  return value;
}

/// The element of the array `value` whose `id` is `id`.
Value* find_by_id(Value& value, const std::string& path, const std::string& id, const Place& place,
                  Problems& problems) {
  std::vector<std::string> ids;
  for (Value& item : value.items) {
    const Value* item_id = item.find("id");
    if (!item_id || item_id->type != Value::Type::text) continue;
    if (item_id->text == id) return &item;
    ids.push_back(item_id->text);
  }
  problems.add(place, unknown_name("id in `" + path + "`:", id, ids));
  return nullptr;
}

Value* find_or_add(Value& table, const std::string& key, const Place& place) {
  if (Value* found = table.find(key)) return found;
  Value fresh;
  fresh.place = place;
  table.entries.push_back({key, place, std::move(fresh)});
  return &table.entries.back().value;
}

/// One step down the dotted name.
Value* descend(Value& at, const std::string& path, const std::string& part, const Place& place,
               Problems& problems) {
  if (at.type == Value::Type::table) return find_or_add(at, part, place);
  if (at.type == Value::Type::array) return find_by_id(at, path, part, place, problems);
  problems.add(place, fmt::format("`{}` is {} and has no key {}, expected the name of a table",
                                  path, type_name(at.type), in_quotes(part)));
  return nullptr;
}

}  // namespace

void apply_override(const std::string& argument, Value& document, Problems& problems) {
  const Place place{std::make_shared<const std::string>("--set " + argument), 0, 0};
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems.add(place, "no `KEY=VALUE`, expected for instance `seed=9`");
    return;
  }
  const auto parts = split(std::string_view(argument).substr(0, equals));
  for (const std::string& part : parts) {
    if (!part.empty() && parts.size() <= kMaxParts) continue;
    problems.add(place, "no dotted name, expected for instance `job.options.hidden=64`");
    return;
  }
  if (parts[0] == "fault" && !document.find("fault")) {
    problems.add(place,
                 "the scenario has no fault, expected `fault.ID` of a [[fault]] in the file");
    return;
  }
  auto value = read_value(argument.substr(equals + 1), place, problems);
  if (!value) return;
  Value* at = &document;
  std::string path;
  for (const std::string& part : parts) {
    at = descend(*at, path, part, place, problems);
    if (!at) return;
    path += (path.empty() ? "" : ".") + part;
  }
  *at = std::move(*value);
}

}  // namespace rehearse::harness
