#include "runtime/rpc/exceptions.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "runtime/base/type_name.hpp"
#include "runtime/fiber/task.hpp"

namespace rehearse::rpc {

Failure failure_of_current_exception(const std::string& worker) {
  try {
    throw;
  } catch (const Error& error) {
    Failure failure = error.failure();
    if (failure.worker.empty()) failure.worker = worker;  // said once, where it happened
    return failure;
  } catch (const c10::Error& error) {
    return {Code::remote_exception, fmt::format("c10::Error: {}", error.what_without_backtrace()),
            worker, 0};
  } catch (const std::exception& error) {
    return {Code::remote_exception, fmt::format("{}: {}", type_name(error), error.what()), worker,
            0};
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    return {Code::remote_exception, "an exception that is no std::exception", worker, 0};
  }
}

}  // namespace rehearse::rpc
