// A vendor replaces this file: it is written for the instructions of a processor.
// Element types and work sharing for the kernels.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "team.h"

namespace sglang_example_oot {

// Calls f with a null pointer of the element type; `type` is one of float32, bfloat16, float16.
template <typename F>
inline void with_type(c10::ScalarType type, const F& f) {
  switch (type) {
    case c10::ScalarType::Float:
      return f(static_cast<float*>(nullptr));
    case c10::ScalarType::BFloat16:
      return f(static_cast<c10::BFloat16*>(nullptr));
    case c10::ScalarType::Half:
      return f(static_cast<c10::Half*>(nullptr));
    default:
      TORCH_CHECK(false, "expected float32, bfloat16 or float16, got ", c10::toString(type));
  }
}

// As with_type, for what a KV cache may hold: also 8-bit floats.
template <typename F>
inline void with_cache_type(c10::ScalarType type, const F& f) {
  if (type == c10::ScalarType::Float8_e4m3fn) return f(static_cast<c10::Float8_e4m3fn*>(nullptr));
  with_type(type, f);
}

// Below this many elements the wake-up of a thread costs more than it saves.
constexpr int64_t kGrainElements = 16384;

inline int64_t grain(int64_t elements_per_item) {
  return elements_per_item >= kGrainElements ? 1 : kGrainElements / (elements_per_item > 0 ? elements_per_item : 1);
}

inline int64_t thread_count() {
  return this_team() ? this_team()->size() : at::get_num_threads();
}

// As at::parallel_for, on the threads of the team where the calling thread has one. A thread may get several ranges.
template <typename F>
inline void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  Team* team = this_team();
  if (!team) return at::parallel_for(begin, end, grain, f);
  const int64_t n = end - begin, parts = std::min<int64_t>((n + grain - 1) / grain, 4 * team->size());
  if (parts > 1) team->run(parts, [&](int64_t i) { f(begin + n * i / parts, begin + n * (i + 1) / parts); });
  else if (n > 0) f(begin, end);
}

// Hands items 0..n-1 out one by one, for items of unequal cost; each thread calls finish() when none is left.
template <typename F, typename G>
inline void parallel_dynamic(int64_t n, bool worth_threads, const F& f, const G& finish) {
  std::atomic<int64_t> next{0};
  const auto drain = [&](int64_t, int64_t) {
    for (int64_t i = next++; i < n; i = next++) f(i);
    finish();
  };
  if (!worth_threads || n <= 1) {
    drain(0, 1);
  } else {
    parallel_for(0, thread_count(), 1, drain);
  }
}

// Memory that grows and stays, 64-byte aligned; what was in it is lost when it grows.
class Scratch {
 public:
  void* take(size_t bytes) {
    if (size_ < bytes) {
      memory_.reset();
      memory_.reset(new char[bytes + 64]);
      size_ = bytes;
    }
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory_.get()) + 63) / 64 * 64);
  }

 private:
  std::unique_ptr<char[]> memory_;
  size_t size_ = 0;
};

// For what one thread works on; one user at a time.
inline void* scratch(size_t bytes) {
  thread_local Scratch memory;
  return memory.take(bytes);
}

// For what the threads of a kernel share, asked for by the one that calls the kernel; one user at a time.
inline float* shared_scratch(size_t floats) {
  thread_local Scratch memory;
  return static_cast<float*>(memory.take(floats * sizeof(float)));
}

}  // namespace sglang_example_oot
