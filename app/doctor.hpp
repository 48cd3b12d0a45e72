#pragma once

#include "app/cli.hpp"

namespace rehearse::cli {

/// `doctor`: what was found, and what is absent costs. Absence is no failure: always 0.
int doctor_command(bool json, const Setup& setup, const Streams& streams);

}  // namespace rehearse::cli
