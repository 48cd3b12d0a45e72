#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/document.hpp"

namespace rehearse::harness {

/// The first thing in `value` that `schema` refuses, with its path; empty if it accepts. Knows the
/// part of JSON Schema 2020-12 that our schemas use, and throws at a keyword that it does not know,
/// so that no constraint goes unchecked.
std::string refusal(const nlohmann::ordered_json& value, const nlohmann::ordered_json& schema);

/// A scenario file as the JSON that an editor would check.
nlohmann::ordered_json to_json(const Value& value);

}  // namespace rehearse::harness
