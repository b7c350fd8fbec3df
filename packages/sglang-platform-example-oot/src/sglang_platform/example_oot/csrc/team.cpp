// A vendor deletes this file: see team.h.
#include "team.h"

#include <chrono>
#include <thread>
#include <utility>

namespace sglang_example_oot {
namespace {

constexpr auto kAwake = std::chrono::microseconds(200);
constexpr uint64_t kOpen = 1, kOne = 2, kJoined = 0xfffe, kNumber = 1 << 16;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Team::Team(int size) : size_(size) {
  for (int i = 1; i < size; ++i) std::thread([this] { work(); }).detach();
}

void Team::start(int64_t count, Call call, const void* context) {
  count_ = count, call_ = call, context_ = context;
  next_.store(0, std::memory_order_relaxed);
  // Nobody is inside: the work before was left by all. Its number is what tells this one from it.
  state_.store((state_.load(std::memory_order_relaxed) & ~kJoined) + kNumber + kOpen, std::memory_order_release);
  bell_.fetch_add(1);
  bell_.notify_all();
  join_in();
  state_.fetch_and(~kOpen);
  while (state_.load(std::memory_order_acquire) & kJoined) pause();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Team::join_in() {
  for (int64_t i = next_++; i < count_; i = next_++) {
    try {
      call_(context_, i);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }
}

void Team::work() {
  uint64_t done = 0;  // the number of the work this thread took part in last
  auto idle_since = std::chrono::steady_clock::now();
  for (;;) {
    const uint32_t rung = bell_.load();
    uint64_t state = state_.load(std::memory_order_acquire);
    if ((state & kOpen) && state / kNumber != done) {
      if (!state_.compare_exchange_strong(state, state + kOne, std::memory_order_acq_rel)) continue;
      done = state / kNumber;
      join_in();
      state_.fetch_sub(kOne, std::memory_order_release);
      idle_since = std::chrono::steady_clock::now();
      continue;
    }
    for (int i = 0; i < 64 && bell_.load(std::memory_order_relaxed) == rung; ++i) pause();
    if (bell_.load(std::memory_order_relaxed) == rung && std::chrono::steady_clock::now() - idle_since > kAwake) {
      bell_.wait(rung);
      idle_since = std::chrono::steady_clock::now();
    }
  }
}

Team*& this_team() {
  thread_local Team* team = nullptr;
  return team;
}

}  // namespace sglang_example_oot
