#include "runtime/rpc/task_state.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/random.hpp"

namespace rehearse::rpc {
namespace {

/// The part of torch's state that nearly all tasks differ in, if they differ at all.
struct Modes {
  bool grad = true;
  bool inference = false;
  bool forward_grad = true;
  bool multithreading = true;
  bool view_replay = false;
  bool autocast_cache = true;
  int autocast_depth = 0;
  c10::DispatchKeySet included;
  c10::DispatchKeySet excluded;

  bool operator==(const Modes&) const = default;
  bool autocast() const {
    return autocast_depth > 0 || !excluded.has(c10::DispatchKey::AutocastCPU) ||
           !excluded.has(c10::DispatchKey::AutocastCUDA);
  }
};

/// Torch shows the depth only as the result of changing it.
int autocast_depth() {
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting();
}

void set_autocast_depth(int from, int to) {
  for (; from < to; ++from) at::autocast::increment_nesting();
  for (; from > to; --from) at::autocast::decrement_nesting();
}

Modes current_modes() {
  const auto& autograd = c10::AutogradState::get_tls_state();
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return {.grad = autograd.get_grad_mode(),
          .inference = autograd.get_inference_mode(),
          .forward_grad = autograd.get_fw_grad_mode(),
          .multithreading = autograd.get_multithreading_enabled(),
          .view_replay = autograd.get_view_replay_enabled(),
          .autocast_cache = at::autocast::is_autocast_cache_enabled(),
          .autocast_depth = autocast_depth(),
          .included = keys.included_,
          .excluded = keys.excluded_};
}

/// Keeps the graph execution group: a state with one is never switched by modes alone.
void set_modes(const Modes& from, const Modes& to) {
  c10::AutogradState autograd = c10::AutogradState::get_tls_state();
  autograd.set_grad_mode(to.grad);
  autograd.set_inference_mode(to.inference);
  autograd.set_fw_grad_mode(to.forward_grad);
  autograd.set_multithreading_enabled(to.multithreading);
  autograd.set_view_replay_enabled(to.view_replay);
  c10::AutogradState::set_tls_state(std::move(autograd));
  if (from.included != to.included || from.excluded != to.excluded) {
    auto keys = c10::impl::tls_local_dispatch_key_set();
    keys.included_ = to.included;
    keys.excluded_ = to.excluded;
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
  at::autocast::set_autocast_cache_enabled(to.autocast_cache);
  set_autocast_depth(from.autocast_depth, to.autocast_depth);
}

/// True if beyond the modes nothing is set. Asked at every switch, so each variable is looked at
/// the cheapest way: transforms, dispatch modes and Python's dispatcher show in the included keys.
/// What only Python's argument parser reads is not looked at.
bool only_modes(c10::DispatchKeySet included) {
  using c10::DispatchKey;
  static constexpr c10::DispatchKeySet kBeyond{DispatchKey::Python,
                                               DispatchKey::PythonTLSSnapshot,
                                               DispatchKey::PythonDispatcher,
                                               DispatchKey::Functionalize,
                                               DispatchKey::FuncTorchDynamicLayerFrontMode,
                                               DispatchKey::FuncTorchDynamicLayerBackMode,
                                               DispatchKey::FuncTorchVmapMode,
                                               DispatchKey::FuncTorchBatched};
  const at::RecordFunctionTLS& callbacks = at::get_record_function_tls_();
  const auto& saved_hooks = at::SavedTensorDefaultHooks::get_tls_state();
  return !included.has_any(kBeyond) && callbacks.sorted_tls_callbacks_.empty() &&
         callbacks.tls_record_function_enabled_ && saved_hooks.stack.empty() &&
         !saved_hooks.disabled_error_message && !saved_hooks.is_tracing &&
         !c10::AutogradState::get_tls_state().get_graph_exec_group() &&
         !c10::ThreadLocalDebugInfo::current() &&
         at::autocast::get_autocast_dtype(at::kCPU) == at::kBFloat16 &&
         at::autocast::get_autocast_dtype(at::kCUDA) == at::kHalf;
}

/// All of a task's state: the modes, and everything if there is more than modes.
struct Saved {
  Modes modes;
  std::optional<at::ThreadLocalState> all;
};

Saved save() {
  Saved saved{current_modes(), std::nullopt};
  if (!only_modes(saved.modes.included)) [[unlikely]]
    saved.all.emplace();
  return saved;
}

/// Torch's variable is reached only through a const reference, but is not const itself.
at::Generator& default_generator() {
  // tidy: banned-name: this is the place that gives each task its own.
  return const_cast<at::Generator&>(at::detail::getDefaultCPUGenerator());
}

void seed_generator(at::Generator& generator, std::uint64_t seed) {
  at::mt19937_data_pod data{};
  data.seed_ = seed;
  data.left_ = 1;
  data.seeded_ = true;
  Random random(seed);
  for (std::size_t word = 0; word < data.state_.size(); word += 2) {
    const std::uint64_t drawn = random();
    data.state_[word] = static_cast<std::uint32_t>(drawn);
    data.state_[word + 1] = static_cast<std::uint32_t>(drawn >> 32);
  }
  static_assert(std::tuple_size_v<decltype(data.state_)> % 2 == 0);
  auto* cpu = static_cast<at::CPUGeneratorImpl*>(generator.unsafeGetGeneratorImpl());
  at::mt19937 engine = cpu->engine();  // constructing one costs more than all the rest
  engine.set_data(data);
  cpu->set_engine(engine);
  cpu->set_next_float_normal_sample(std::nullopt);
  cpu->set_next_double_normal_sample(std::nullopt);
}

}  // namespace

class TorchTaskState::Impl {
 public:
  explicit Impl(SeedOf seed_of) : seed_of_(std::move(seed_of)), outside_(save()) {}
  ~Impl() {
    if (running_) remove_generator();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void inherit(TaskId task) { entries_[task].saved = save(); }

  void resume(TaskId task) {
    Entry& entry = entry_of(task);
    outside_ = save();
    switch_state(outside_, entry.saved);
    install_generator(task, entry);
  }

  void suspend(TaskId task) {
    Entry& entry = entry_of(task);
    entry.saved = save();
    switch_state(entry.saved, outside_);
    if (running_ == &entry) remove_generator();
  }

  void forget(TaskId task) {
    const auto found = entries_.find(task);
    if (found == entries_.end()) return;
    recycle(std::move(found->second.generator));
    entries_.erase(found);
  }

  void adopt(TaskId task) { install_generator(task, entry_of(task)); }

  void set_seed(TaskId task, std::uint64_t seed) {
    Entry& entry = entry_of(task);
    entry.seed = seed;
    if (running_ == &entry) {
      seed_generator(default_generator(), seed);
    } else if (entry.generator.defined()) {
      seed_generator(entry.generator, seed);
    }
  }

 private:
  struct Entry {
    Saved saved;
    at::Generator generator;  ///< while the task runs: what was torch's default before
    std::optional<std::uint64_t> seed;
  };

  /// A task that the hook has not seen yet goes on with the state of now.
  Entry& entry_of(TaskId task) {
    const auto [found, is_new] = entries_.try_emplace(task);
    if (is_new) found->second.saved = save();
    return found->second;
  }

  void switch_state(const Saved& from, const Saved& to) {
    if (from.modes.autocast()) at::autocast::clear_cache();  // it is one for all, and has history
    if (from.all || to.all) [[unlikely]]
      return switch_all(to);
    if (from.modes != to.modes) set_modes(from.modes, to.modes);
  }

  void switch_all(const Saved& to) {
    REHEARSE_CHECK(to.all || plain_, "no state without hooks was seen, yet one is to be restored");
    at::ThreadLocalState::setThreadLocalState(to.all ? *to.all : *plain_);
    set_modes(current_modes(), to.modes);
  }

  /// As the free function; keeps the first state that has nothing beyond modes, to go back to.
  Saved save() {
    Saved saved = rpc::save();
    if (!saved.all && !plain_) plain_.emplace();
    return saved;
  }

  void install_generator(TaskId task, Entry& entry) {
    REHEARSE_CHECK(!running_, "a task runs while another one does");
    if (!entry.generator.defined()) entry.generator = make_generator(seed_of(task, entry));
    std::swap(default_generator(), entry.generator);
    running_ = &entry;
  }

  void remove_generator() {
    std::swap(default_generator(), running_->generator);
    running_ = nullptr;
  }

  std::uint64_t seed_of(TaskId task, const Entry& entry) const {
    if (entry.seed) return *entry.seed;
    return seed_of_ ? seed_of_(task) : mix64(task.value);
  }

  at::Generator make_generator(std::uint64_t seed) {
    at::Generator generator;
    if (spare_.empty()) {
      generator = at::detail::createCPUGenerator();
    } else {
      generator = std::move(spare_.back());
      spare_.pop_back();
    }
    seed_generator(generator, seed);
    return generator;
  }

  void recycle(at::Generator generator) {
    constexpr std::size_t kSpareMax = 64;
    const bool sole_holder = generator.defined() && generator.getIntrusivePtr().use_count() == 1;
    if (sole_holder && spare_.size() < kSpareMax) spare_.push_back(std::move(generator));
  }

  SeedOf seed_of_;
  std::optional<at::ThreadLocalState> plain_;
  Saved outside_;
  std::unordered_map<TaskId, Entry> entries_;  // looked up only, never walked
  Entry* running_ = nullptr;                   // whose generator is torch's default
  std::vector<at::Generator> spare_;
};

TorchTaskState::TorchTaskState(SeedOf seed_of)
    : impl_(std::make_unique<Impl>(std::move(seed_of))) {}
TorchTaskState::~TorchTaskState() = default;

void TorchTaskState::adopt(TaskId running) { impl_->adopt(running); }
void TorchTaskState::set_seed(TaskId task, std::uint64_t seed) { impl_->set_seed(task, seed); }
void TorchTaskState::spawned(TaskId, TaskId child) { impl_->inherit(child); }
void TorchTaskState::resumed(TaskId task) { impl_->resume(task); }
void TorchTaskState::suspended(TaskId task) { impl_->suspend(task); }
void TorchTaskState::finished(TaskId task) { impl_->forget(task); }

}  // namespace rehearse::rpc
