#include <array>

#include "runtime/world/event.hpp"
#include "runtime/world/fault_plan.hpp"
#include "runtime/world/message.hpp"

namespace rehearse {
namespace {

constexpr std::array<std::string_view, kMessageKinds> kMessageNames = {
    "hello",    "request", "reply",       "error",       "turn_ask",    "turn",
    "turn_end", "query",   "answer",      "start",       "grad",        "done",
    "fail",     "commit",  "abort",       "close",       "open_ask",    "open_answer",
    "finished", "join",    "release",     "verdict_ask", "verdict",     "remote",
    "fetch",    "ref_ask", "ref_confirm", "ref_accept",  "ref_release", "user"};

constexpr std::array<std::string_view, kEventKinds> kEventNames = {
    "sent",           "received",       "peer_lost",      "task_failed",  "killed",
    "ended",          "fault_fired",    "deadline_fired", "step",         "phase",
    "context_opened", "context_closed", "pass_started",   "pass_done",    "pass_committed",
    "pass_aborted",   "step_prepared",  "step_committed", "step_aborted", "gradients_read",
    "gradient",       "late_reply"};

constexpr std::array<std::string_view, 6> kCauseNames = {"ended",     "exited",      "killed",
                                                         "host_lost", "unreachable", "unknown"};
constexpr std::array<std::string_view, kFaultKinds> kFaultNames = {"kill", "delay", "reorder"};

}  // namespace

std::string_view name(MessageKind kind) { return kMessageNames.at(static_cast<std::size_t>(kind)); }
std::string_view name(EventKind kind) { return kEventNames.at(static_cast<std::size_t>(kind)); }
std::string_view name(LossCause cause) { return kCauseNames.at(static_cast<std::size_t>(cause)); }
std::string_view name(FaultKind kind) { return kFaultNames.at(static_cast<std::size_t>(kind)); }

std::optional<EventKind> event_kind(std::string_view text) {
  for (std::size_t i = 0; i < kEventNames.size(); ++i) {
    if (kEventNames[i] == text) return static_cast<EventKind>(i);
  }
  return std::nullopt;
}

}  // namespace rehearse
