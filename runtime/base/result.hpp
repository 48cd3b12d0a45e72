#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "runtime/base/check.hpp"
#include "runtime/base/error.hpp"

namespace rehearse {

/// Success, or a failure that the caller must look at.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Failure failure) : failure_(std::move(failure)) {}

  bool ok() const { return !failure_; }
  Code code() const { return failure_ ? failure_->code : Code::ok; }
  const Failure& failure() const {
    REHEARSE_CHECK(failure_, "asked a success for its failure");
    return *failure_;
  }
  void or_throw() const {
    if (failure_) throw Error(*failure_);
  }

 private:
  std::optional<Failure> failure_;
};

/// A value, or the failure that took its place.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Failure failure) : state_(std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  Code code() const { return ok() ? Code::ok : failure().code; }
  const Failure& failure() const { return std::get<Failure>(state_); }
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  /// The value, or the failure as an exception.
  T or_throw() && {
    if (!ok()) throw Error(failure());
    return std::move(std::get<T>(state_));
  }

 private:
  T& checked() {
    REHEARSE_CHECK(ok(), std::string(name(failure().code)) + ": " + failure().message);
    return std::get<T>(state_);
  }

  std::variant<T, Failure> state_;
};

}  // namespace rehearse
