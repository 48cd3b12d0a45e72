#include "runtime/training/trainer_core.hpp"

#include "runtime/base/check.hpp"

namespace rehearse::training {

TrainerActions TrainerCore::begin(StepId attempt, std::uint64_t settled_below) {
  REHEARSE_CHECK(stage_ == Stage::retrying, "a step was begun while an attempt is under way");
  stage_ = Stage::preparing;
  attempt_ = attempt;
  missing_ = {owners_.begin(), owners_.end()};
  without_.clear();
  TrainerActions out;
  for (const WorkerId owner : owners_)
    out.push_back(SendPrepare{owner, {attempt, age_, owners_, settled_below}});
  return out;
}

TrainerActions TrainerCore::prepared(WorkerId owner, StepId attempt) {
  TrainerActions out;
  if (!is_preparing(attempt)) return out;
  missing_.erase(owner);
  if (!missing_.empty()) return out;
  stage_ = Stage::committing;
  missing_ = {owners_.begin(), owners_.end()};
  send_verdict(StepVerdict::committed, out);
  return out;
}

TrainerActions TrainerCore::given_up(WorkerId owner, StepId attempt) {
  if (!is_preparing(attempt)) return {};
  without_.insert(owner);
  return wounded(attempt);
}

TrainerActions TrainerCore::wounded(StepId attempt) {
  TrainerActions out;
  if (!is_preparing(attempt)) return out;
  stage_ = Stage::retrying;
  abort(out);
  out.push_back(Retry{});
  return out;
}

TrainerActions TrainerCore::failed(WorkerId owner, StepId attempt, Failure failure) {
  TrainerActions out;
  if (!is_preparing(attempt)) return out;
  // One that did not answer in time may still be at it.
  if (failure.code != Code::timed_out) without_.insert(owner);
  stage_ = Stage::over;
  abort(out);
  out.push_back(FinishStep{std::move(failure)});
  return out;
}

TrainerActions TrainerCore::settled(WorkerId owner, StepId attempt) {
  TrainerActions out;
  if (stage_ != Stage::committing || attempt != attempt_) return out;
  missing_.erase(owner);
  if (!missing_.empty()) return out;
  stage_ = Stage::over;
  out.push_back(FinishStep{});
  return out;
}

void TrainerCore::abort(TrainerActions& out) {
  missing_.clear();
  send_verdict(StepVerdict::aborted, out);
}

void TrainerCore::send_verdict(StepVerdict verdict, TrainerActions& out) const {
  out.push_back(Decided{attempt_, verdict, owners_.size() - without_.size()});
  for (const WorkerId owner : owners_) {
    if (!without_.contains(owner)) out.push_back(SendVerdict{owner, attempt_, verdict});
  }
}

}  // namespace rehearse::training
