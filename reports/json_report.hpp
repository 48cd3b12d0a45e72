#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/case.hpp"

namespace rehearse::reports {

/// What made a report.
struct Identity {
  std::string program = "rehearse";
  std::string version;
  std::string commit;   ///< that it was built from; empty if unknown
  std::string torch;    ///< version of libtorch; empty if there is none
  std::string machine;  ///< architecture, cores, system
};

/// The report of one run; the fields and their order are a promise to scripts.
nlohmann::ordered_json to_json(const harness::CaseResult& result, const Identity& identity);

/// Of one run: its object. Of any other number: { format, summary, runs }.
nlohmann::ordered_json report(const std::vector<harness::CaseResult>& results,
                              const Identity& identity);

/// JSON Schema (draft 2020-12) of `report`.
nlohmann::ordered_json report_schema();

/// 16 hexadecimal digits.
std::string hex(std::uint64_t digest);

}  // namespace rehearse::reports
