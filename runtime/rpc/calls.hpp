#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/rpc/place.hpp"
#include "runtime/rpc/wire.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::rpc {

/// Brings a call to its worker and the result back. By messages in every world; in place in the
/// uncut run.
class Calls {
 public:
  using Complete = std::function<void(Result<Packed>)>;
  using CallNumber = std::uint64_t;

  virtual ~Calls() = default;

  /// Issues a call at the running task's place. `complete` runs once: with the result, or with what
  /// came in its place (`peer_lost`, `timed_out`, the remote exception, …).
  virtual CallNumber issue(int rank, std::string_view function, std::string_view signature,
                           Packed arguments, Time deadline, Complete complete) = 0;

  /// Its deadline has passed: completes it with `timed_out`, unless it is complete.
  virtual void expire(CallNumber call) = 0;

  /// Told once of each worker that is lost, after all that had arrived from it was handed on. Does
  /// not wait. Workers of the uncut run are never lost.
  using OnLost = std::function<void(std::uint16_t worker, const std::string& why)>;
  virtual void on_lost(OnLost) {}

  virtual World& world() = 0;
  virtual Places& places() = 0;
};

}  // namespace rehearse::rpc
