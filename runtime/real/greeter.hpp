#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/real/peer.hpp"

namespace rehearse::real {

/// Reads the greeting, and not a byte more, from a connection that somebody has dialled.
class Greeter final : public Watcher {
 public:
  Greeter(std::unique_ptr<Link> link, Poller& poller);
  ~Greeter() override;

  enum class State { waiting, greeted, failed };
  State state() const { return state_; }
  const Prelude& prelude() const { return *prelude_; }
  const Hello& hello() const { return hello_; }
  const Failure& failure() const { return failure_; }
  /// The connection, no longer watched.
  std::unique_ptr<Link> release();

  void ready(std::uint32_t events) override;

 private:
  void fail(Failure failure);
  void end(State state);
  bool fill(std::size_t size_bytes);
  void read_prelude();
  void read_hello();

  Poller& poller_;
  std::unique_ptr<Link> link_;
  Bytes bytes_;
  State state_ = State::waiting;
  std::optional<Prelude> prelude_;
  Hello hello_;
  Failure failure_;
};

}  // namespace rehearse::real
