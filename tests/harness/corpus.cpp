#include "tests/harness/corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace rehearse::harness {
namespace {

/// The rest of the last line that begins with `mark`.
std::string comment(const std::string& text, const std::string& mark) {
  const std::size_t at = text.rfind("\n" + mark);
  if (at == std::string::npos) return {};
  const std::size_t first = at + 1 + mark.size();
  return text.substr(first, text.find('\n', first) - first);
}

}  // namespace

std::vector<CorpusFile> corpus(const std::string& folder) {
  std::vector<CorpusFile> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/harness/corpus/" + folder)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    CorpusFile file;
    file.name = entry.path().filename();
    file.text.assign(std::istreambuf_iterator<char>(stream), {});
    file.error = comment(file.text, "# error: ");
    file.schema = comment(file.text, "# schema: ");
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const CorpusFile& a, const CorpusFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace rehearse::harness
