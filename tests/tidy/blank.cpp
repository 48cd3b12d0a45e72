#include "tests/tidy/blank.hpp"

#include <algorithm>
#include <cctype>

namespace rehearse::tidy {
namespace {

class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text), code_(text) {}

  std::string run() {
    while (at_ < text_.size()) step();
    return std::move(code_);
  }

 private:
  void step() {
    if (starts("//")) return blank_until("\n", 0);
    if (starts("/*")) return blank_until("*/", 2);
    if (starts("R\"") && !after_word()) return blank_raw_string();
    if (text_[at_] == '"') return blank_quoted('"');
    if (text_[at_] == '\'' && !after_word()) return blank_quoted('\'');  // not in 1'000
    ++at_;
  }

  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  bool after_word() const {
    return at_ > 0 && std::isalnum(static_cast<unsigned char>(text_[at_ - 1])) != 0;
  }

  /// Blanks up to `end`, and `included` characters of it.
  void blank_until(std::string_view end, std::size_t included) {
    const std::size_t found = text_.find(end, std::min(at_ + 2, text_.size()));
    blank_to(found == std::string_view::npos ? text_.size() : found + included);
  }

  void blank_raw_string() {
    const std::size_t open = text_.find('(', at_);
    const std::string end = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    blank_until(end, end.size());
  }

  void blank_quoted(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    blank_to(std::min(end + 1, text_.size()));
  }

  void blank_to(std::size_t end) {
    for (; at_ < end; ++at_) {
      if (code_[at_] != '\n') code_[at_] = ' ';
    }
  }

  std::string_view text_;
  std::string code_;
  std::size_t at_ = 0;
};

}  // namespace

std::string blank_comments_and_literals(std::string_view text) { return Blanker(text).run(); }

}  // namespace rehearse::tidy
