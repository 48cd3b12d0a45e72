#include "tests/tidy/source.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/tidy/blank.hpp"

namespace rehearse::tidy {
namespace {

namespace fs = std::filesystem;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

char last_before(const std::string& code, std::size_t offset) {
  while (offset > 0 && is_space(code[offset - 1])) --offset;
  return offset == 0 ? '\0' : code[offset - 1];
}

std::size_t skip_spaces(const std::string& code, std::size_t offset) {
  while (offset < code.size() && is_space(code[offset])) ++offset;
  return offset;
}

std::string word_before(const std::string& code, std::size_t offset) {
  while (offset > 0 && is_space(code[offset - 1])) --offset;
  std::size_t begin = offset;
  while (begin > 0 && is_word(code[begin - 1])) --begin;
  return code.substr(begin, offset - begin);
}

/// Reads words joined by `::` from `offset` on, and moves it past them.
std::vector<std::string> read_qualified(const std::string& code, std::size_t& offset) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t begin = offset;
    while (offset < code.size() && is_word(code[offset])) ++offset;
    parts.push_back(code.substr(begin, offset - begin));
    if (code.compare(offset, 2, "::") != 0 || offset + 2 >= code.size() ||
        !is_word(code[offset + 2])) {
      return parts;
    }
    offset += 2;
  }
}

std::vector<Name> find_names(const std::string& code) {
  std::vector<Name> names;
  int line = 1;
  for (std::size_t at = 0; at < code.size();) {
    if (!is_word(code[at])) {
      line += code[at++] == '\n' ? 1 : 0;
      continue;
    }
    Name name{{}, line, last_before(code, at), '\0', word_before(code, at)};
    name.parts = read_qualified(code, at);
    const std::size_t next = skip_spaces(code, at);
    name.after = next < code.size() ? code[next] : '\0';
    names.push_back(std::move(name));
  }
  return names;
}

/// An include counts where the comment-free text has one, its path read from the line itself.
std::vector<Include> find_includes(const std::vector<std::string>& lines, const std::string& code) {
  std::vector<Include> includes;
  std::istringstream stream(code);
  std::string blanked;
  for (std::size_t i = 0; std::getline(stream, blanked) && i < lines.size(); ++i) {
    if (blanked.find("#include") == std::string::npos) continue;
    const std::size_t open = lines[i].find_first_of("<\"");
    const std::size_t close = lines[i].find_first_of(">\"", open + 1);
    if (open == std::string::npos || close == std::string::npos) continue;
    includes.push_back({lines[i].substr(open + 1, close - open - 1), static_cast<int>(i + 1)});
  }
  return includes;
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

bool is_left_out(const fs::path& path) {
  static const std::set<std::string> kNames = {"build", ".git", ".venv", "LICENSE"};
  const std::string name = path.filename().string();
  return kNames.contains(name) || name.ends_with(".part");
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".cpp", ".hpp", ".cu", ".cuh"};
  return kExtensions.contains(path.extension().string());
}

bool is_page(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".md",   ".txt", ".cmake", ".sh", ".py",
                                                    ".toml", ".yml", ".json",  ""};
  return kExtensions.contains(path.extension().string());
}

}  // namespace

std::string Name::joined() const {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : "::") + part;
  return all;
}

bool Source::is_under(std::string_view folder) const {
  return path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/';
}

bool Source::is_header() const { return path.ends_with(".hpp") || path.ends_with(".cuh"); }

int Source::line_at(std::size_t offset) const {
  return 1 + static_cast<int>(std::count(text.begin(),
                                         text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

Source parse(std::string path, std::string text) {
  Source source;
  source.path = std::move(path);
  source.text = std::move(text);
  source.code = blank_comments_and_literals(source.text);
  source.lines = split_lines(source.text);
  source.names = find_names(source.code);
  source.includes = find_includes(source.lines, source.code);
  return source;
}

Tree read_tree(const fs::path& root) {
  std::set<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    if (is_left_out(it->path())) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      files.insert(it->path());
    }
  }
  Tree tree;
  for (const fs::path& file : files) {
    const std::string path = file.lexically_relative(root).generic_string();
    if (is_source(file)) {
      tree.sources.push_back(parse(path, read_file(file)));
    } else if (is_page(file)) {
      tree.pages.push_back({path, read_file(file)});
    }
  }
  return tree;
}

}  // namespace rehearse::tidy
