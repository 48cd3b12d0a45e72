#include "app/expanded_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/expand.hpp"
#include "reports/report_file.hpp"

namespace rehearse::cli {
namespace {

namespace fs = std::filesystem;

/// Two files of one name in different folders get different names here.
std::string unused_name(const harness::Case& run, std::set<std::string>& used) {
  std::string name = fs::path(run.file).stem().string() + "." + run.name();
  std::replace(name.begin(), name.end(), '#', '-');
  std::string candidate = name;
  for (int i = 2; !used.insert(candidate).second; ++i) candidate = fmt::format("{}-{}", name, i);
  return candidate + ".toml";
}

}  // namespace

Status write_expanded(const std::string& report, std::vector<harness::CaseResult>& results) {
  std::error_code error;
  if (report == "-" || (fs::exists(report, error) && !fs::is_regular_file(report, error)))
    return {};
  const fs::path folder = fs::path(report).replace_extension(".cases");
  fs::create_directories(folder, error);
  if (error) {
    const std::string why = fmt::format("cannot create {}: {}", folder.string(), error.message());
    return Failure{Code::disk_error, why, {}, 0};
  }
  std::set<std::string> used;
  for (harness::CaseResult& result : results) {
    const std::string file = (folder / unused_name(result.run, used)).string();
    Status written =
        reports::write_report(file, harness::expanded(result.run.scenario, result.run.world));
    if (!written.ok()) return written;
    result.expanded_file = file;
  }
  return {};
}

}  // namespace rehearse::cli
