#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/rpc/ref_table.hpp"

namespace rehearse::rpc {

/// What a worker's program does with references, by name.
struct Step {
  enum class Do { own, mint, give_up, pass, drop } what = Do::drop;
  std::uint16_t worker = 0;
  std::string name{};     ///< of the reference
  std::uint16_t to = 0;   ///< the owner, or who it is passed on to
  std::string arrives{};  ///< its name there
};

struct Exploration {
  std::int64_t orders = 0;  ///< complete runs
  std::string violation{};  ///< with the run that shows it; empty: none
};

/// Tables of a few workers, and messages between them in flight. Explores *every* order in which
/// the messages can arrive and the programs can go on: messages overtake each other at will.
class SmallWorld {
 public:
  struct Options {
    int repeats = 0;  ///< how many messages between tables may arrive twice
    /// One worker may die at any point: what it has sent then arrives, or nothing of it does.
    std::optional<std::uint16_t> dies{};
  };

  SmallWorld(std::uint16_t workers, std::vector<Step> program, Options options);

  /// Every order. After it `violation` says the first that broke a promise.
  Exploration explore() const;

 private:
  struct Packet {
    enum class Kind { table, create, created, carry, lost } kind = Kind::table;
    std::uint16_t from = 0, to = 0;
    RefMessage message{};
    std::string arrives{};
    bool again = false;
  };
  struct Held {
    std::uint16_t worker = 0;
    Reference what;
    bool dropped = false;
  };
  struct State;

  void go_on(const State& state, Exploration& found) const;
  bool ready(const State& state, const Step& step) const;
  bool can_arrive(const State& state, const Packet& packet) const;
  void run(State& state, const Step& step) const;
  void arrive(State& state, const Packet& packet) const;
  void die(State& state, bool messages_arrive) const;
  void perform(State& state, std::uint16_t at, RefTable::Actions actions) const;
  std::string broken(const State& state) const;
  std::string left_over(const State& state) const;

  std::uint16_t workers_;
  std::vector<std::vector<Step>> programs_;  // by worker
  Options options_;
};

}  // namespace rehearse::rpc
