#include "tests/harness/schema_validator.hpp"

#include <regex>
#include <set>
#include <stdexcept>

namespace rehearse::harness {
namespace {

using Json = nlohmann::ordered_json;

const std::set<std::string> kKnown = {
    "$schema",  "title",     "description", "default",    "$defs",
    "$ref",     "type",      "enum",        "const",      "pattern",
    "minimum",  "maximum",   "items",       "minItems",   "maxItems",
    "required", "minLength", "uniqueItems", "properties", "oneOf",
    "anyOf",    "allOf",     "if",          "then",       "additionalProperties"};

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  throw std::logic_error("unknown type " + type);
}

class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  std::string check(const Json& value, const Json& schema, const std::string& path) const {
    for (const auto& [keyword, unused] : schema.items()) {
      if (kKnown.count(keyword) == 0) throw std::logic_error("unknown keyword " + keyword);
    }
    if (schema.contains("$ref")) return check(value, resolve(schema["$ref"]), path);
    for (auto part : {&Validator::plain, &Validator::number, &Validator::text, &Validator::array,
                      &Validator::object, &Validator::combined}) {
      std::string why = (this->*part)(value, schema, path);
      if (!why.empty()) return why;
    }
    return {};
  }

 private:
  const Json& resolve(const std::string& reference) const {
    return root_.at(Json::json_pointer(reference.substr(1)));
  }

  std::string plain(const Json& value, const Json& schema, const std::string& path) const {
    if (schema.contains("type")) {
      const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      bool any = false;
      for (const Json& type : types) any = any || has_type(value, type);
      if (!any) return path + ": type is not " + types.dump();
    }
    if (schema.contains("const") && value != schema["const"]) return path + ": const";
    if (!schema.contains("enum")) return {};
    for (const Json& allowed : schema["enum"]) {
      if (value == allowed) return {};
    }
    return path + ": not one of " + schema["enum"].dump();
  }

  std::string number(const Json& value, const Json& schema, const std::string& path) const {
    if (!value.is_number()) return {};
    const double held = value.get<double>();
    if (schema.contains("minimum") && !(held >= schema["minimum"].get<double>()))
      return path + ": minimum";
    if (schema.contains("maximum") && !(held <= schema["maximum"].get<double>()))
      return path + ": maximum";
    return {};
  }

  std::string text(const Json& value, const Json& schema, const std::string& path) const {
    if (!value.is_string()) return {};
    const std::string held = value;
    if (schema.contains("minLength") && held.size() < schema["minLength"].get<std::size_t>()) {
      return path + ": minLength";
    }
    if (schema.contains("pattern") &&
        !std::regex_search(held, std::regex(schema["pattern"].get<std::string>()))) {
      return path + ": pattern " + schema["pattern"].get<std::string>();
    }
    return {};
  }

  std::string array(const Json& value, const Json& schema, const std::string& path) const {
    if (!value.is_array()) return {};
    if (schema.contains("minItems") && value.size() < schema["minItems"])
      return path + ": minItems";
    if (schema.contains("maxItems") && value.size() > schema["maxItems"])
      return path + ": maxItems";
    if (schema.contains("uniqueItems") &&
        std::set<Json>(value.begin(), value.end()).size() != value.size()) {
      return path + ": uniqueItems";
    }
    for (std::size_t i = 0; schema.contains("items") && i < value.size(); ++i) {
      std::string why = check(value[i], schema["items"], path + "/" + std::to_string(i));
      if (!why.empty()) return why;
    }
    return {};
  }

  std::string object(const Json& value, const Json& schema, const std::string& path) const {
    if (!value.is_object()) return {};
    for (const Json& key : schema.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) return path + ": misses " + key.dump();
    }
    for (const auto& [key, held] : value.items()) {
      const Json properties = schema.value("properties", Json::object());
      std::string why;
      if (properties.contains(key)) {
        why = check(held, properties[key], path + "/" + key);
      } else if (schema.contains("additionalProperties")) {
        const Json& others = schema["additionalProperties"];
        if (others == false) return path + ": unknown key " + key;
        why = check(held, others, path + "/" + key);
      }
      if (!why.empty()) return why;
    }
    return {};
  }

  std::string combined(const Json& value, const Json& schema, const std::string& path) const {
    for (const char* keyword : {"oneOf", "anyOf"}) {
      if (!schema.contains(keyword)) continue;
      int accepted = 0;
      std::string last;
      for (const Json& one : schema[keyword]) {
        const std::string why = check(value, one, path);
        accepted += why.empty() ? 1 : 0;
        if (!why.empty()) last = why;
      }
      const bool holds = std::string(keyword) == "oneOf" ? accepted == 1 : accepted > 0;
      if (!holds) return path + ": " + keyword + " (" + last + ")";
    }
    for (const Json& one : schema.value("allOf", Json::array())) {
      std::string why = check(value, one, path);
      if (!why.empty()) return why;
    }
    if (schema.contains("if") && check(value, schema["if"], path).empty()) {
      return check(value, schema["then"], path);
    }
    return {};
  }

  const Json& root_;
};

}  // namespace

std::string refusal(const Json& value, const Json& schema) {
  return Validator(schema).check(value, schema, "");
}

Json to_json(const Value& value) {
  switch (value.type) {
    case Value::Type::boolean:
      return value.boolean;
    case Value::Type::integer:
      return value.integer;
    case Value::Type::number:
      return value.number;
    case Value::Type::text:
      return value.text;
    case Value::Type::date:
      return "a date";
    case Value::Type::array: {
      Json list = Json::array();
      for (const Value& item : value.items) list.push_back(to_json(item));
      return list;
    }
    case Value::Type::table:
      break;
  }
  Json table = Json::object();
  for (const Entry& entry : value.entries) table[entry.key] = to_json(entry.value);
  return table;
}

}  // namespace rehearse::harness
