#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace rehearse::fiber {

/// Tells the sanitizers which stack is in use. Nothing in other builds.
struct StackUse {
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t size_bytes = 0;
  void* thread = nullptr;  // TSan's idea of a fiber
};

/// Just before the switch from `from`. A task that ends keeps its fake stack, too: Boost's frames
/// below the task's body still use it when it leaves for the last time.
inline void before_switch([[maybe_unused]] StackUse& from, [[maybe_unused]] const StackUse& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to.thread, 0);
#endif
}

/// Just after a switch onto the stack of `now`; learns the bounds of the one that was left.
inline void after_switch([[maybe_unused]] StackUse& now, [[maybe_unused]] StackUse& before) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(now.fake_stack, &before.bottom, &before.size_bytes);
#endif
}

inline void begin_stack([[maybe_unused]] StackUse& stack) {
#if defined(__SANITIZE_THREAD__)
  stack.thread = __tsan_create_fiber(0);
#endif
}
inline void end_stack([[maybe_unused]] StackUse& stack) {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(stack.thread);
#endif
}
inline void note_own_stack([[maybe_unused]] StackUse& stack) {
#if defined(__SANITIZE_THREAD__)
  stack.thread = __tsan_get_current_fiber();
#endif
}

}  // namespace rehearse::fiber
