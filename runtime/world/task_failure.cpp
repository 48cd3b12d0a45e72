#include "runtime/world/task_failure.hpp"

#include "runtime/base/type_name.hpp"

namespace rehearse {
namespace {

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.failure();
  } catch (const std::exception& other) {
    return {Code::remote_exception, type_name(other) + ": " + other.what(), {}, 0};
  } catch (...) {
    return {Code::remote_exception, "an exception that is no std::exception", {}, 0};
  }
}

}  // namespace

Failure failure_of_task(const std::string& worker, const std::string& task,
                        const std::exception_ptr& error) {
  Failure failure = failure_of(error);
  failure.message = "task " + task + ": " + failure.message;
  if (failure.worker.empty()) failure.worker = worker;
  return failure;
}

}  // namespace rehearse
