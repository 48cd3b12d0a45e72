#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/autograd/pass.hpp"
#include "runtime/base/random.hpp"
#include "tests/autograd/message_graph.hpp"

namespace rehearse::autograd {

/// What breaks, and at which step of the run; a step is a delivery or a piece of work.
struct Injection {
  enum class Kind { kill, node_throws, deadline, close, cancel } kind = Kind::kill;
  int step = 0;
  WorkerId worker = 0;
};

struct NetworkOptions {
  WorkerId creator = 0;
  PassBounds bounds = {};
  PassOptions options = {};
  std::vector<Injection> injections = {};
  /// A planted bug: workers take their staged values over when they report, not at COMMIT.
  bool commits_at_report = false;
  /// Messages take one round each, work takes none; else the order is random.
  bool in_rounds = false;
};

/// One pass core per worker in one context, fake executors that follow a message graph, and a
/// network with a queue per (sender, receiver, lane). Any queue may be served next, so lanes and
/// pairs overtake each other as they like. A killed worker's last messages are cut off anywhere;
/// its loss is told to each survivor after what was left. Everything follows from the seed.
class PassNetwork {
 public:
  PassNetwork(const MessageGraph& graph, NetworkOptions options, std::uint64_t seed);

  /// `initiator` asks for a turn, and will then run a pass from `roots` (pairs it received).
  PassId ask(WorkerId initiator, std::vector<PairId> roots);
  /// Until nothing can happen any more.
  void run();

  /// What of the promises of `PassCore` does not hold at the end, or nothing.
  std::string violation() const;

  struct Ended {
    Status status;
    int round = 0;
  };
  /// How a pass ended for its initiator.
  const std::map<PassId, Ended>& ended() const { return ended_; }
  const std::map<PassId, std::set<WorkerId>>& committed() const { return committed_; }
  bool alive(WorkerId worker) const { return workers_[worker].alive; }
  bool closed(WorkerId worker) const { return workers_[worker].core.closed(); }
  bool any_closed() const;
  const PassCore& core(WorkerId worker) const { return workers_[worker].core; }
  int steps() const { return step_; }
  int messages(MessageKind kind) const;
  bool heard_anything(WorkerId worker) const { return workers_[worker].heard; }
  std::uint64_t digest() const { return digest_.value(); }
  /// What was running when a node threw: "in node 5".
  const std::string& thrown() const { return thrown_; }
  const std::vector<std::string>& log() const { return log_; }

 private:
  struct GradMessage {
    PassId pass;
    PairId pair;
  };
  using Body = std::variant<Bytes, GradMessage>;
  struct Packet {
    MessageKind kind = MessageKind::user;
    Body body;
    int round = 0;
  };
  struct Execution {
    Plan plan;
    std::set<PairId> fed;
    std::set<PairId> emitted;
    bool said_executed = false;
  };
  struct Worker {
    PassCore core;
    bool alive = true;
    bool heard = false;
    std::map<PassId, Execution> executions = {};
    std::vector<PassId> to_begin = {};
    std::vector<PassId> committed = {};
  };
  struct Channel {
    WorkerId from = 0;
    WorkerId to = 0;
    Lane lane = Lane::control;
    auto operator<=>(const Channel&) const = default;
  };

  bool step();
  bool step_in_rounds();
  void inject();
  void kill(WorkerId worker);
  void expire_all();
  void deliver(const Channel& channel);
  void perform(WorkerId worker, const Actions& actions);
  void perform(WorkerId worker, const Send& send);
  void perform(WorkerId worker, const Plan& plan);
  void perform(WorkerId worker, const Feed& feed);
  void perform(WorkerId worker, const CommitPass& commit);
  void perform(WorkerId worker, const DropPass& drop);
  void perform(WorkerId worker, const Finished& finished);
  void perform(WorkerId worker, const TurnGranted& granted);
  void perform(WorkerId worker, const CloseContext& close);
  /// Pairs whose gradients `worker` can send now.
  std::vector<PairId> ready(WorkerId worker, const Execution& execution) const;
  bool has_work(WorkerId worker) const;
  void work(WorkerId worker);
  void work_on(WorkerId worker, Execution& execution);
  void begin(WorkerId worker);
  void push(const Channel& channel, Packet packet);
  void complain(std::string what) { complaints_.push_back(std::move(what)); }
  void note(std::string what);
  void note_doubt(WorkerId worker, const Actions& actions);
  std::string check_pass(const PassId& pass) const;
  std::string check_order(const Worker& worker) const;

  const MessageGraph& graph_;
  NetworkOptions options_;
  Random random_;
  std::vector<Worker> workers_;
  std::map<Channel, std::deque<Packet>> channels_;
  std::set<std::pair<WorkerId, WorkerId>> losses_;  ///< (lost, to be told)
  std::map<PassId, std::vector<PairId>> roots_;
  std::map<PassId, std::set<WorkerId>> takes_part_;
  std::set<PassId> cancelled_;
  std::set<PassId> unknown_;  ///< the context was closed because nobody knew how these ended
  std::vector<PassId> begun_;
  std::map<PassId, Ended> ended_;
  std::map<PassId, std::set<WorkerId>> committed_;
  std::map<MessageKind, int> sent_;
  std::vector<std::string> complaints_;
  std::vector<std::string> log_;
  std::string thrown_;
  bool throw_next_ = false;
  Hash64 digest_;
  std::shared_ptr<int> gradient_ = std::make_shared<int>(0);  ///< counts the handles alive
  int step_ = 0;
  int round_ = 0;
};

}  // namespace rehearse::autograd
