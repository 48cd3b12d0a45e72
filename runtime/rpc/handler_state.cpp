#include "runtime/rpc/handler_state.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "runtime/base/random.hpp"

namespace rehearse::rpc {

std::uint64_t seed_of(std::uint64_t job_seed, const Place& place, std::uint64_t salt) {
  Hash64 hash;
  hash.add(job_seed);
  if (!place.path) return hash.add(salt).value();
  hash.add(static_cast<std::uint64_t>(place.step)).add(place.ordinal);
  for (const std::uint32_t index : *place.path) hash.add(index);
  return hash.value();
}

void HandlerState::seed(TaskId task, const Place& place, std::uint64_t salt) {
  torch_.set_seed(task, seed_of(job_seed_, place, salt));
}

void HandlerState::run(const Place& place, bool grad_enabled, const std::function<void()>& body) {
  PlaceScope scope(places_, place);
  c10::AutoGradMode grad_mode(grad_enabled);
  body();
}

void HandlerState::run_in_place(TaskId task, const Place& place, std::uint64_t salt,
                                const std::function<void()>& body) {
  struct Restore {
    // tidy: banned-name: the calling task's own generator is what stands there
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    at::Tensor state = generator.get_state();
    ~Restore() { generator.set_state(state); }
  } restore;
  PlaceScope scope(places_, place);
  seed(task, place, salt);
  c10::AutoGradMode grad_mode(at::GradMode::is_enabled());  // a handler's own changes end with it
  body();
}

}  // namespace rehearse::rpc
