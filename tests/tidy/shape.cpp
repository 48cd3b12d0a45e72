// How long files and functions are.
#include <array>
#include <cctype>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace rehearse::tidy {
namespace {

constexpr std::size_t kFileLines = 400;
constexpr int kFunctionLines = 70;

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const auto is_word = [&](std::size_t i) {
      return i < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
    };
    if ((at == 0 || !is_word(at - 1)) && !is_word(at + word.size())) return true;
  }
  return false;
}

std::string_view without_template(std::string_view head) {
  const std::size_t begin = head.find_first_not_of(" \n");
  if (begin == std::string_view::npos || !head.substr(begin).starts_with("template")) return head;
  int depth = 0;
  for (std::size_t at = begin; at < head.size(); ++at) {
    if (head[at] == '<') ++depth;
    if (head[at] == '>' && --depth == 0) return head.substr(at + 1);
  }
  return head;
}

/// Follows the braces of a file and hands each function's first and last line to a visitor.
class FunctionFinder {
 public:
  explicit FunctionFinder(std::string_view code) : code_(code) {}

  template <typename Visit>
  void run(Visit visit) {
    for (std::size_t at = 0; at < code_.size(); ++at) {
      const char c = code_[at];
      if (c == '\n') ++line_;
      if (c == '{') open(at);
      if (c == '}') close(visit);
      if (c == '{' || c == '}' || c == ';') head_ = at + 1;
    }
  }

 private:
  enum class Kind { scope, function, block };
  struct Brace {
    Kind kind;
    int line;
  };

  void open(std::size_t at) {
    braces_.push_back({kind_of(code_.substr(head_, at - head_)), line_});
  }

  template <typename Visit>
  void close(Visit visit) {
    if (braces_.empty()) return;  // unbalanced, by a macro or the preprocessor
    if (braces_.back().kind == Kind::function) visit(braces_.back().line, line_);
    braces_.pop_back();
  }

  Kind kind_of(std::string_view head) const {
    if (!braces_.empty() && braces_.back().kind != Kind::scope) return Kind::block;
    const std::string_view bare = without_template(head);
    constexpr std::array<std::string_view, 5> kScopes = {"namespace", "class", "struct", "union",
                                                         "extern"};
    for (const std::string_view word : kScopes) {
      if (has_word(bare, word)) return Kind::scope;
    }
    return bare.find('(') == std::string_view::npos ? Kind::block : Kind::function;
  }

  std::string_view code_;
  std::vector<Brace> braces_;
  std::size_t head_ = 0;
  int line_ = 1;
};

}  // namespace

void check_shape(const Source& source, Findings& findings) {
  if (source.lines.size() > kFileLines) {
    findings.push_back({source.path, 1, "long-file",
                        std::to_string(source.lines.size()) + " lines, at most " +
                            std::to_string(kFileLines) + ": divide it by what it does"});
  }
  if (source.is_header() && source.text.find("#pragma once") == std::string::npos) {
    findings.push_back({source.path, 1, "no-pragma-once", "headers start with #pragma once"});
  }
  FunctionFinder(source.code).run([&](int first, int last) {
    const int lines = last - first + 1;
    if (lines <= kFunctionLines) return;
    findings.push_back({source.path, first, "long-function",
                        std::to_string(lines) + " lines, at most " +
                            std::to_string(kFunctionLines) + ": name its steps"});
  });
}

}  // namespace rehearse::tidy
