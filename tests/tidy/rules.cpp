#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace rehearse::tidy {
namespace {

bool allows(const Source& source, int line, const std::string& rule) {
  if (line < 1 || line > static_cast<int>(source.lines.size())) return false;
  const std::string mark = "tidy: " + rule + ": ";
  const std::string& text = source.lines[static_cast<std::size_t>(line - 1)];
  const std::size_t at = text.find(mark);
  return at != std::string::npos && text.find("//") < at && at + mark.size() < text.size();
}

void drop_allowed(const Source& source, Findings& findings) {
  std::erase_if(findings, [&](const Finding& finding) {
    return allows(source, finding.line, finding.rule) ||
           allows(source, finding.line - 1, finding.rule);
  });
}

Findings check_source(const Source& source) {
  Findings findings;
  check_banned_names(source, findings);
  check_swallowed_exceptions(source, findings);
  check_mutable_statics(source, findings);
  check_include_arrows(source, findings);
  check_torch_headers(source, findings);
  check_shape(source, findings);
  check_words(source.path, source.text, findings);
  drop_allowed(source, findings);
  return findings;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

Findings check(const Tree& tree) {
  Findings findings;
  for (const Source& source : tree.sources) {
    std::ranges::move(check_source(source), std::back_inserter(findings));
  }
  for (const Page& page : tree.pages) check_words(page.path, page.text, findings);
  check_autograd_header_count(tree, findings);
  check_readmes(tree, findings);
  return findings;
}

void check_readmes(const Tree& tree, Findings& findings) {
  std::set<std::string> folders;
  for (const Source& source : tree.sources) {
    // A folder of tests is explained by the folder it tests.
    folders.insert(source.is_under("tests") ? "tests" : folder_of(source.path));
  }
  for (const Page& page : tree.pages) {
    if (page.path.ends_with("README.md")) folders.erase(folder_of(page.path));
  }
  for (const std::string& folder : folders) {
    findings.push_back({folder + "/README.md", 1, "no-readme",
                        "missing: what lives here, the types to know, what may be included"});
  }
}

void check_words(const std::string& path, const std::string& text, Findings& findings) {
  // Put together here, so that this file does not break its own rule.
  static const std::map<std::string, std::pair<std::string, std::string>> kWords = {
      {std::string("TO") + "DO", {"unfinished", "finish it, or file an issue"}},
      {std::string("FIX") + "ME", {"unfinished", "finish it, or file an issue"}},
      {std::string("/work") + "/", {"private-path", "nobody else has this folder"}}};
  for (const auto& [word, meaning] : kWords) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const auto end = text.begin() + static_cast<std::ptrdiff_t>(at);
      const int line = 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
      findings.push_back({path, line, meaning.first, "'" + word + "': " + meaning.second});
    }
  }
}

}  // namespace rehearse::tidy
