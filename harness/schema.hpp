#pragma once

#include <nlohmann/json.hpp>

#include "harness/catalogue.hpp"

namespace rehearse::harness {

/// JSON Schema (draft 2020-12) of scenario files, for editors. What it refuses, the parser refuses;
/// the parser refuses more: ranks that the cluster does not have, ids given twice.
nlohmann::ordered_json scenario_schema(const Catalogue& catalogue);

}  // namespace rehearse::harness
