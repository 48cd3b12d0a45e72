#include "harness/document.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "harness/text.hpp"

namespace rehearse::harness {
namespace {

using Source = std::shared_ptr<const std::string>;

Place place_of(const toml::source_region& region, const Source& source) {
  return {source, std::max(1u, region.begin.line), std::max(1u, region.begin.column)};
}

Value converted(const toml::node& node, const Source& source);

void fill_table(const toml::table& table, const Source& source, Value& value) {
  value.type = Value::Type::table;
  for (const auto& [key, item] : table) {
    value.entries.push_back(
        {std::string(key.str()), place_of(key.source(), source), converted(item, source)});
  }
}

Value converted(const toml::node& node, const Source& source) {
  Value value;
  value.place = place_of(node.source(), source);
  if (const auto* table = node.as_table()) {
    fill_table(*table, source, value);
  } else if (const auto* array = node.as_array()) {
    value.type = Value::Type::array;
    for (const auto& item : *array) value.items.push_back(converted(item, source));
  } else if (const auto* text = node.as_string()) {
    value.type = Value::Type::text;
    value.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    value.type = Value::Type::integer;
    value.integer = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    value.type = Value::Type::number;
    value.number = number->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.type = Value::Type::boolean;
    value.boolean = boolean->get();
  } else {
    value.type = Value::Type::date;
  }
  return value;
}

std::string syntax_message(std::string_view description) {
  const bool twice = description.find("redefine") != std::string_view::npos;
  return fmt::format("{}; expected {}", description,
                     twice ? "each key and each table once" : "TOML 1.0");
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Value* Value::find(std::string_view key) {
  for (Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

const Value* Value::find(std::string_view key) const { return const_cast<Value*>(this)->find(key); }

std::string_view type_name(Value::Type type) {
  switch (type) {
    case Value::Type::boolean:
      return "a boolean";
    case Value::Type::integer:
      return "an integer";
    case Value::Type::number:
      return "a floating point number";
    case Value::Type::text:
      return "a string";
    case Value::Type::date:
      return "a date or time";
    case Value::Type::array:
      return "an array";
    case Value::Type::table:
      return "a table";
  }
  return "a value";
}

Value parse_toml(std::string_view text, const std::string& source, Problems& problems) {
  const auto name = std::make_shared<const std::string>(source);
  Value root;
  root.place = {name, 1, 1};
  const std::size_t before = problems.size();
  check_utf8(text, root.place, problems);
  if (problems.size() == before) check_key_depth(text, root.place, problems);
  if (problems.size() != before) return root;
  try {
    fill_table(toml::parse(text), name, root);
  } catch (const toml::parse_error& error) {
    problems.add(place_of(error.source(), name), syntax_message(error.description()));
    root.entries.clear();
  }
  return root;
}

std::string read_scenario_text(const std::string& file, Problems& problems) {
  const Place start{std::make_shared<const std::string>(file), 1, 1};
  const auto refuse = [&](const std::string& why) {
    problems.add(start, why + ", expected a scenario file (TOML, beginning with `format = 1`)");
    return std::string();
  };
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return refuse(std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return refuse("this is a directory");
  const std::unique_ptr<std::FILE, FileCloser> opened(std::fopen(file.c_str(), "rb"));
  if (!opened) return refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text(kMaxFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), opened.get()));
  if (std::ferror(opened.get()))
    return refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (text.size() > kMaxFileBytes) return refuse("the file is larger than 1MiB");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return refuse("the file is empty");
  return text;
}

}  // namespace rehearse::harness
