#include "runtime/rpc/calls.hpp"

#include <ATen/record_function.h>

#include <algorithm>

namespace rehearse::rpc {

Calls::Calls() : thread_(at::RecordFunction::currentThreadId()) {}

void Calls::check_thread() const {
  if (at::RecordFunction::currentThreadId() == thread_) return;
  throw Error(Code::bad_argument,
              "a worker is used on another thread than its own: calls, references and contexts "
              "belong to the tasks of one worker");
}

RefPtr Calls::remote(int rank, Request request, const CallOptions& options) {
  check_thread();
  const RefPtr made = references().mint(rank);
  request.kind = MessageKind::remote;
  request.what = made->what();
  issue(rank, std::move(request), deadline_of(options),
        [home = references().weak_from_this(), what = made->what()](const Result<Packed>& reply) {
          if (const auto here = home.lock())
            here->settle(what, reply.ok() ? Status() : Status(reply.failure()));
        });
  return made;
}

Time Calls::deadline_of(const CallOptions& options) {
  Duration length = options.deadline;
  if (length == Duration::zero()) length = default_deadline_;
  if (length == Duration::zero()) length = world().limits.call;
  return std::min(after(world().clock.now(), length), places().current().deadline);
}

}  // namespace rehearse::rpc
