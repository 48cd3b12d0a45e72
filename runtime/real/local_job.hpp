#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/real/child.hpp"
#include "runtime/real/launcher.hpp"
#include "runtime/real/local_socket.hpp"
#include "runtime/real/shared_counts.hpp"
#include "runtime/world/fault_engine.hpp"

namespace rehearse::real {

/// One run of `run_local_job`: starts the workers, listens to them, ends them.
class LocalJob {
 public:
  explicit LocalJob(const LocalJobOptions& options);

  RunOutcome run();

 private:
  struct Member {
    std::string name;
    std::optional<Child> child;  // while it runs
    bool started = false;        // its program has spoken
    bool finished = false;
    bool answered = false;  // whom it waits for
    std::optional<Failure> failure;
    std::uint64_t digest = 0;
    WorkerOutcome outcome;
  };
  enum class Stage { running, asking, terminating, killing };

  Failure prepare();
  /// Where one worker is to be found.
  struct Door {
    Listener tcp;
    LocalListener local;
  };
  Result<Door> open_door(int rank) const;
  void start_all(std::vector<Door> doors);
  ProcessOptions process_options(int rank, const Door& door) const;
  std::vector<int> own_descriptors() const;
  void loop();
  void wait_for_news();
  Time next_deadline() const;
  void on_time(Time now);
  void advance(Time now);
  void enter(Stage stage, Time until);
  bool running() const;
  bool all_answered() const;

  void listen_to(Member& member);
  void reap(Member& member);
  void ended(Member& member, const Exit& exit);
  void kill(const std::vector<int>& ranks);
  void broadcast(const Record& record, const Member* except = nullptr);
  void take_signal();

  template <class Other>
  void handle(Member&, const Other&) {}
  void handle(Member& member, const StartedRecord&) { member.started = true; }
  void handle(Member& member, const JournalEntry& entry);
  void handle(Member& member, const CounterRecord& counter);
  void handle(Member& member, const NoteRecord& note);
  void handle(Member& member, const FiredRecord& fired);
  void handle(Member& member, const FailedRecord& failed);
  void handle(Member& member, const WaitingRecord& waiting);
  void handle(Member& member, const FinishedRecord& finished);
  void handle(Member& member, const BookEntry& entry);

  void collect();
  void collect_events();
  Time now() const;

  const LocalJobOptions& options_;
  std::uint64_t job_;
  std::int64_t start_ns_;
  FaultEngine engine_;
  std::optional<SharedCounts> counts_;  // of the faults' triggers
  std::vector<BookEntry> book_;
  std::vector<Member> members_;
  Descriptor signals_;
  int stopped_by_ = 0;  // a signal to the launcher
  Stage stage_ = Stage::running;
  Time stage_until_ = kNever;
  RunOutcome outcome_;
};

}  // namespace rehearse::real
