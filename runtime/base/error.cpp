#include "runtime/base/error.hpp"

#include <fmt/format.h>

#include <array>

namespace rehearse {
namespace {

constexpr std::array<std::string_view, kCodes> kNames = {"ok",
                                                         "peer_lost",
                                                         "timed_out",
                                                         "unknown_worker",
                                                         "unknown_function",
                                                         "bad_argument",
                                                         "unknown_context",
                                                         "context_closed",
                                                         "pass_failed",
                                                         "remote_exception",
                                                         "stale_generation",
                                                         "no_quorum",
                                                         "store_lost",
                                                         "not_sequential",
                                                         "wait_refused",
                                                         "stopped",
                                                         "cancelled",
                                                         "not_found",
                                                         "cannot_start",
                                                         "disk_full",
                                                         "disk_error",
                                                         "corrupt",
                                                         "deadlock"};

std::string sentence(const Failure& failure) {
  const std::string where = failure.worker.empty() ? "" : fmt::format(" on {}", failure.worker);
  return fmt::format("{}{}: {}", name(failure.code), where, failure.message);
}

}  // namespace

std::string_view name(Code code) { return kNames.at(static_cast<std::size_t>(code)); }

Error::Error(Failure failure)
    : std::runtime_error(sentence(failure)), failure_(std::move(failure)) {}

}  // namespace rehearse
