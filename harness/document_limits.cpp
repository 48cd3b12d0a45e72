#include <fmt/format.h>

#include "harness/document.hpp"

namespace rehearse::harness {
namespace {

constexpr int kMaxKeyDepth = 32;

/// Walks a text and knows line and column (of bytes).
struct Cursor {
  std::string_view text;
  std::size_t at = 0;
  std::uint32_t line = 1;
  std::uint32_t column = 1;

  bool done() const { return at >= text.size(); }
  char letter() const { return text[at]; }
  bool starts(std::string_view with) const { return text.substr(at, with.size()) == with; }
  void advance(std::size_t by = 1) {
    for (; by > 0 && !done(); --by, ++at) {
      column = letter() == '\n' ? 1 : column + 1;
      line += letter() == '\n' ? 1 : 0;
    }
  }
  Place place(const Place& start) const { return {start.source, line, column}; }
};

/// Skips a string that begins at the cursor; to the end of the text if it is not closed.
void skip_string(Cursor& cursor) {
  const char quote = cursor.letter();
  const std::string triple(3, quote);
  const bool multiline = cursor.starts(triple);
  const std::string_view end =
      multiline ? std::string_view(triple) : std::string_view(triple).substr(0, 1);
  cursor.advance(end.size());
  while (!cursor.done() && !cursor.starts(end)) {
    if (!multiline && cursor.letter() == '\n') return;
    cursor.advance(quote == '"' && cursor.letter() == '\\' ? 2 : 1);
  }
  cursor.advance(end.size());
  // A multi-line string may end in up to two quotes of its own before the closing three.
  for (int i = 0; multiline && i < 2 && !cursor.done() && cursor.letter() == quote; ++i) {
    cursor.advance();
  }
}

bool continues_key(char letter) {
  return letter == '.' || letter == '-' || letter == '_' || letter == ' ' || letter == '\t' ||
         (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z');
}

/// The number of bytes of the character at the start of `text`; 0 if it is not UTF-8 (overlong
/// forms, surrogates and what is above U+10FFFF included).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool outside = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
  return overlong || outside ? 0 : length;
}

}  // namespace

void check_key_depth(std::string_view text, const Place& start, Problems& problems) {
  int dots = 0;
  for (Cursor cursor{text}; !cursor.done();) {
    const char letter = cursor.letter();
    if (letter == '"' || letter == '\'') {
      skip_string(cursor);
      continue;
    }
    if (letter == '#') {
      while (!cursor.done() && cursor.letter() != '\n') cursor.advance();
      continue;
    }
    if (!continues_key(letter)) dots = 0;
    if (letter == '.' && ++dots > kMaxKeyDepth) {
      problems.add(cursor.place(start),
                   fmt::format("a key with more than {} dots, expected a key of a scenario such as "
                               "`cluster.link.latency`",
                               kMaxKeyDepth));
      return;
    }
    cursor.advance();
  }
}

void check_utf8(std::string_view text, const Place& start, Problems& problems) {
  for (Cursor cursor{text}; !cursor.done();) {
    const std::size_t length = utf8_length(text.substr(cursor.at));
    if (length == 0) {
      const auto byte = static_cast<unsigned char>(cursor.letter());
      problems.add(cursor.place(start),
                   fmt::format("byte 0x{:02x} is not UTF-8, expected a text in UTF-8", byte));
      return;
    }
    // Columns count characters, as editors do.
    const std::uint32_t column = cursor.column;
    cursor.advance(length);
    if (length > 1) cursor.column = column + 1;
  }
}

}  // namespace rehearse::harness
