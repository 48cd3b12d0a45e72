#include "runtime/real/launcher.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "runtime/real/event_file.hpp"
#include "runtime/real/local_job.hpp"

namespace rehearse::real {
namespace {

constexpr std::size_t kLastLines = 20;
constexpr std::streamoff kLastBytes = 16384;

std::vector<std::string> last_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kLastBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (lines.size() == kLastLines) lines.erase(lines.begin());
    lines.push_back(line);
  }
  return lines;
}

std::string describe(const Exit& exit) {
  return exit.signal != 0 ? fmt::format("killed by signal {}", exit.signal)
                          : fmt::format("exit status {}", exit.code);
}

}  // namespace

std::string log_path(const std::string& run_directory, const std::string& name) {
  return fmt::format("{}/{}.log", run_directory, name);
}
std::string disk_path(const std::string& run_directory, const std::string& name) {
  return fmt::format("{}/{}.disk", run_directory, name);
}
std::string events_path(const std::string& run_directory, const std::string& name) {
  return fmt::format("{}/{}.events", run_directory, name);
}

RunOutcome run_local_job(const LocalJobOptions& options) { return LocalJob(options).run(); }

void LocalJob::handle(Member&, const JournalEntry& entry) { outcome_.journal.push_back(entry); }

void LocalJob::handle(Member&, const CounterRecord& counter) {
  outcome_.counters[counter.name] += counter.amount;
}

void LocalJob::handle(Member&, const NoteRecord& note) { outcome_.notes.push_back(note.text); }

void LocalJob::handle(Member& member, const FiredRecord& fired) {
  if (fired.fault >= options_.faults.size()) return;
  if (!engine_.elsewhere(fired.what, fired.fault, fired.at)) return;
  broadcast(FiredRecord{fired.what, fired.fault, fired.at, {}}, &member);
  std::vector<int> others = fired.kills;
  std::erase(others, member.outcome.rank);  // that one kills itself, at the place of the fault
  kill(others);
}

void LocalJob::handle(Member& member, const FailedRecord& failed) {
  member.failure = failed.failure;
}

void LocalJob::handle(Member& member, const WaitingRecord& waiting) {
  member.answered = true;
  outcome_.waiting.insert(outcome_.waiting.end(), waiting.tasks.begin(), waiting.tasks.end());
}

void LocalJob::handle(Member& member, const FinishedRecord& finished) {
  member.finished = true;
  member.digest = finished.digest;
}

void LocalJob::handle(Member& member, const BookEntry& entry) { broadcast(entry, &member); }

void LocalJob::ended(Member& member, const Exit& exit) {
  const bool well = member.finished && exit.code == 0 && exit.signal == 0;
  const auto worker = static_cast<std::uint16_t>(member.outcome.rank);
  const LossCause cause = well               ? LossCause::ended
                          : exit.signal != 0 ? LossCause::killed
                                             : LossCause::exited;
  broadcast(DiedRecord{worker, cause, fmt::format("{}: {}", member.name, describe(exit))}, &member);
  engine_.set_gone(member.outcome.rank);
  WorkerOutcome& outcome = member.outcome;
  outcome.ended = now();
  outcome.finished = well;
  outcome.killed = exit.signal != 0;
  outcome.exit_code = exit.code;
  outcome.signal = exit.signal;
  const bool struck = exit.signal == SIGKILL || exit.signal == SIGTERM;
  if (!well && !member.started && !member.failure && !struck) {
    member.failure = Failure{
        Code::cannot_start,
        fmt::format("'{}' ended before it had started: {}",
                    options_.command.empty() ? member.name : options_.command[0], describe(exit)),
        member.name, 0};
  }
  if (!well && !struck) outcome.last_lines = last_lines(outcome.log);
}

void LocalJob::collect() {
  for (Member& member : members_) {
    member.outcome.failure = member.failure;
    member.outcome.digest = member.digest;
    outcome_.workers.push_back(member.outcome);
  }
  std::sort(outcome_.journal.begin(), outcome_.journal.end());
  outcome_.faults = engine_.outcomes();
  outcome_.counters["processes"] += options_.workers;
  if (options_.keep_events) collect_events();
}

// Sorted by time, and by rank within an instant; each worker's own order is kept.
void LocalJob::collect_events() {
  std::map<std::string, std::uint16_t> indices{{"", 0}};
  outcome_.phases = {""};
  for (const Member& member : members_) {
    const auto content = read_event_file(events_path(options_.run_directory, member.name));
    for (StampedEvent event : content.events) {
      const std::string& phase = content.phases[event.phase];
      const auto next = static_cast<std::uint16_t>(outcome_.phases.size());
      const auto [found, added] = indices.emplace(phase, next);
      if (added) outcome_.phases.push_back(phase);
      event.phase = found->second;
      outcome_.events.push_back(event);
    }
  }
  std::stable_sort(outcome_.events.begin(), outcome_.events.end(),
                   [](const StampedEvent& a, const StampedEvent& b) { return a.time < b.time; });
}

}  // namespace rehearse::real
