#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rehearse {

/// What can go wrong. Names are stable: reports, scenario files and `rehearse list codes` use them.
enum class Code : std::uint8_t {
  ok,
  peer_lost,
  timed_out,
  unknown_worker,
  unknown_function,
  bad_argument,
  unknown_context,
  context_closed,
  pass_failed,
  remote_exception,
  stale_generation,
  no_quorum,
  store_lost,
  not_sequential,
  wait_refused,
  stopped,
  cancelled,
  not_found,
  cannot_start,
  disk_full,
  disk_error,
  corrupt,
  deadlock,
};
inline constexpr int kCodes = static_cast<int>(Code::deadlock) + 1;

std::string_view name(Code code);

/// An operating error inside: a code for programs, a sentence for people.
struct Failure {
  Code code = Code::ok;
  std::string message;
  std::string worker;        ///< where it happened, "w2"; empty: here, or not one worker's
  std::int64_t context = 0;  ///< the autograd context it is about; 0: none
};

/// The one exception type of the public face. `what()` has everything: code, worker, message.
class Error : public std::runtime_error {
 public:
  explicit Error(Failure failure);
  Error(Code code, std::string message) : Error(Failure{code, std::move(message), {}, 0}) {}

  Code code() const { return failure_.code; }
  const std::string& message() const { return failure_.message; }
  const std::string& worker() const { return failure_.worker; }
  std::int64_t context() const { return failure_.context; }
  const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
};

}  // namespace rehearse
