#include "app/scenario_files.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

namespace rehearse::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_below(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(
      directory, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() == ".toml" && !entry->is_directory(ignored)) {
      files.push_back(entry->path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool matches(const std::string& file, const std::string& filter) {
  if (filter.empty()) return true;
  const fs::path path(file);
  for (const std::string& candidate : {file, path.filename().string(), path.stem().string()}) {
    if (::fnmatch(filter.c_str(), candidate.c_str(), 0) == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> expand_paths(const std::vector<std::string>& paths,
                                      const std::string& filter) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    const auto found = fs::is_directory(path, ignored) ? files_below(path) : std::vector{path};
    for (const std::string& file : found) {
      const bool known = std::find(files.begin(), files.end(), file) != files.end();
      if (!known && matches(file, filter)) files.push_back(file);
    }
  }
  return files;
}

std::optional<std::vector<LoadedScenario>> load_all(const std::vector<std::string>& files,
                                                    const std::vector<std::string>& overrides,
                                                    const harness::Catalogue& catalogue,
                                                    std::ostream& err) {
  std::vector<LoadedScenario> loaded;
  for (const std::string& file : files) {
    harness::Parsed parsed = harness::load_scenario(file, overrides, catalogue);
    for (const harness::Problem& problem : parsed.problems) err << problem.text() << '\n';
    if (parsed.scenario) loaded.push_back({file, std::move(*parsed.scenario)});
  }
  if (loaded.size() != files.size()) return std::nullopt;
  return loaded;
}

}  // namespace rehearse::cli
