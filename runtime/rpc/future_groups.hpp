#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/rpc/future.hpp"

/// Futures of several futures. None of them takes a place in the program: nothing runs in them.
namespace rehearse {

namespace rpc {

/// Collects results until all are there. It holds no futures: one that never completes must not
/// keep the others alive.
template <class T>
struct Gathering {
  Gathering(FutureCore& core, std::size_t count)
      : promise(core.world(), core.places(), "all of several results"),
        results(count),
        left(count) {}

  void arrived(std::size_t index, const Result<Stored<T>>& result) {
    results[index] = result;
    if (--left == 0) complete();
  }

  /// The error with the lowest index counts, whichever came first.
  void complete() {
    std::vector<Stored<T>> values;
    for (auto& result : results) {
      if (!result->ok()) return promise.set(result->failure());
      values.push_back(std::move(result->value()));
    }
    promise.set(std::move(values));
  }

  Promise<std::vector<Stored<T>>> promise;
  std::vector<std::optional<Result<Stored<T>>>> results;
  std::size_t left;
};

template <class T>
FutureCore& core_of_first(const std::vector<Future<T>>& futures) {
  if (futures.empty()) throw Error(Code::bad_argument, "there are no futures to wait for");
  return futures.front().core();
}

}  // namespace rpc

/// Complete when all are: with their values in the order of `futures`, or the error with the lowest
/// index. Throws Error{bad_argument} if there are none.
template <class T>
Future<std::vector<rpc::Stored<T>>> when_all(const std::vector<Future<T>>& futures) {
  auto all = std::make_shared<rpc::Gathering<T>>(rpc::core_of_first(futures), futures.size());
  auto result = all->promise.future();
  for (std::size_t index = 0; index < futures.size(); ++index) {
    futures[index].on_complete([all, index](const auto& arrived) { all->arrived(index, arrived); });
  }
  return result;
}

/// Waits until all are complete, also those behind one that failed: nothing is left pending. Throws
/// what `when_all` brings.
template <class T>
std::vector<rpc::Stored<T>> wait_all(const std::vector<Future<T>>& futures) {
  return when_all(futures).wait();
}

/// The first that is complete, by index and value; of several that are complete already, the one
/// with the lowest index. Its error, if that is how it completed. Which one is first depends on
/// time: in the uncut run, where every call is complete at once, it is the first of `futures`, so
/// gradients that depend on the choice are not those of the sequential program.
/// Throws Error{bad_argument} if there are none.
template <class T>
Future<std::pair<std::size_t, rpc::Stored<T>>> when_any(const std::vector<Future<T>>& futures) {
  using First = std::pair<std::size_t, rpc::Stored<T>>;
  rpc::FutureCore& core = rpc::core_of_first(futures);
  const Promise<First> first(core.world(), core.places(), "the first of several results");
  for (std::size_t index = 0; index < futures.size(); ++index) {
    futures[index].on_complete([first, index](const Result<rpc::Stored<T>>& arrived) {
      if (arrived.ok()) {
        first.set(First(index, arrived.value()));
      } else {
        first.set(arrived.failure());
      }
    });
  }
  return first.future();
}

}  // namespace rehearse
