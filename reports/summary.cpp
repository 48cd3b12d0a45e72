#include "reports/summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/verdict_checks.hpp"

namespace rehearse::reports {

using harness::CaseResult;
using harness::CheckResult;
using harness::Verdict;

namespace {

using Lines = std::vector<std::string>;

bool is_failure(const CaseResult& result) {
  return result.verdict != Verdict::passed && result.verdict != Verdict::skipped;
}

/// Text of others (a remote exception) may have several lines.
std::string one_line(std::string text) {
  constexpr std::size_t kLongest = 500;
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > kLongest) text = text.substr(0, kLongest) + " …";
  return text;
}

std::string word(Verdict verdict, bool colours) {
  const std::string text = fmt::format("{:<8}", harness::name(verdict));
  if (!colours) return text;
  const int colour = verdict == Verdict::passed ? 32 : verdict == Verdict::skipped ? 33 : 31;
  return fmt::format("\x1b[{}m{}\x1b[0m", colour, text);
}

std::string title(const CaseResult& result, bool colours) {
  return fmt::format("{} {} [{}] seed {}", word(result.verdict, colours),
                     one_line(result.run.scenario.name), result.run.name(), result.run.seed);
}

/// What was turned off must be seen, or a green line would promise too much.
std::string not_checked(const CaseResult& result) {
  std::string names;
  for (const CheckResult& check : result.checks) {
    if (check.state != CheckResult::State::unchecked) continue;
    names += (names.empty() ? "; not checked: " : ", ") + check.name + " (" + check.actual + ")";
  }
  return names;
}

std::string passed_line(const CaseResult& result, bool colours) {
  if (result.verdict == Verdict::skipped) {
    return title(result, colours) + ": " + one_line(result.skip_reason);
  }
  const auto world_time = result.outcome.world_end.time_since_epoch();
  return fmt::format("{}: {} gradients compared, {} different, {}; {} world, {:.2f}s wall{}",
                     title(result, colours), result.gradients.compared, result.gradients.different,
                     result.gradients.tolerance, format_duration(world_time), result.wall_s,
                     not_checked(result));
}

/// Who waits for whom; of a run that waits for nothing, what its first dead worker printed last.
Lines details(const RunOutcome& outcome) {
  Lines lines;
  for (const WaitingTask& waiting : outcome.waiting) lines.push_back(harness::to_text(waiting));
  for (const WorkerOutcome& worker : outcome.workers) {
    if (!lines.empty()) break;
    for (const std::string& line : worker.last_lines) {
      lines.push_back(fmt::format("{} printed: {}", worker.name, line));
    }
  }
  return lines;
}

/// `room` ≥ 3 lines; what is left of it after title, cause and command shows details. Of waits the
/// first are shown, of what a worker printed the last.
Lines failure_lines(const CaseResult& result, std::size_t room, bool colours) {
  Lines lines = {title(result, colours), "  " + one_line(result.first_cause)};
  Lines more = details(result.outcome);
  const std::size_t left = room - 3;
  if (more.size() > left && result.outcome.waiting.empty()) {
    more.erase(more.begin(), more.end() - static_cast<std::ptrdiff_t>(left));
  }
  const std::size_t shown = std::min(more.size(), left);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool cut = i + 1 == shown && shown < more.size();
    lines.push_back("    " +
                    (cut ? fmt::format("… and {} more wait", more.size() - i) : one_line(more[i])));
  }
  lines.push_back("  " + result.reproduce);
  return lines;
}

std::string totals(const std::vector<CaseResult>& results) {
  std::string text;
  for (int i = 0; i < harness::kVerdicts; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    const auto count = std::count_if(results.begin(), results.end(), [&](const CaseResult& result) {
      return result.verdict == verdict;
    });
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, harness::name(verdict));
  }
  return fmt::format("{} runs: {}", results.size(), text);
}

void append(Lines& to, const Lines& lines) { to.insert(to.end(), lines.begin(), lines.end()); }

Lines failures(const std::vector<const CaseResult*>& failed, std::size_t room, bool colours) {
  Lines lines;
  const std::size_t shown =
      std::min(failed.size(), failed.size() * 3 <= room ? failed.size() : (room - 1) / 3);
  for (std::size_t i = 0; i < shown; ++i) {
    append(lines, failure_lines(*failed[i], shown == 1 && failed.size() == 1 ? room : 3, colours));
  }
  if (shown < failed.size()) {
    lines.push_back(fmt::format("… and {} more that did not pass", failed.size() - shown));
  }
  return lines;
}

}  // namespace

std::string summary(const std::vector<CaseResult>& results, bool colours) {
  std::vector<const CaseResult*> failed, others;
  for (const CaseResult& result : results) {
    (is_failure(result) ? failed : others).push_back(&result);
  }
  const bool several = results.size() > 1;
  std::size_t room = static_cast<std::size_t>(kSummaryLines) - (several ? 1 : 0);
  // The failures stand at the end, where the eye is; the others get what room they leave.
  const Lines bad = failures(failed, others.empty() ? room : room - 1, colours);
  room -= bad.size();
  Lines lines;
  const std::size_t shown = others.size() <= room ? others.size() : room - 1;
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(passed_line(*others[i], colours));
  if (shown < others.size()) {
    lines.push_back(
        fmt::format("… and {} more that passed or were skipped", others.size() - shown));
  }
  if (several) lines.push_back(totals(results));
  append(lines, bad);
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

}  // namespace rehearse::reports
