// A vendor replaces this file: it is written for the instructions of a processor.
// What moves numbers between the lanes of vectors: sums over lanes, transposes, dot products.
#pragma once

#include "vec.h"

namespace sglang_example_oot {

// a0 b0 a1 b1 ... of the lower and of the upper halves.
#if defined(__AVX512F__)
#define SGLANG_EXAMPLE_OOT_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SGLANG_EXAMPLE_OOT_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#else
#define SGLANG_EXAMPLE_OOT_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define SGLANG_EXAMPLE_OOT_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#endif
#if defined(__clang__)
inline VecF zip_low(VecF a, VecF b) {
  return __builtin_shufflevector(a, b, SGLANG_EXAMPLE_OOT_LOW);
}
inline VecF zip_high(VecF a, VecF b) {
  return __builtin_shufflevector(a, b, SGLANG_EXAMPLE_OOT_HIGH);
}
#else
inline VecF zip_low(VecF a, VecF b) {
  return __builtin_shuffle(a, b, VecI{SGLANG_EXAMPLE_OOT_LOW});
}
inline VecF zip_high(VecF a, VecF b) {
  return __builtin_shuffle(a, b, VecI{SGLANG_EXAMPLE_OOT_HIGH});
}
#endif

// The sum, and the largest, of a vector's lanes: every step folds the halves.
inline float sum_lanes(VecF v) {
  for (int width = W; width > 1; width /= 2) v = zip_low(v, v) + zip_high(v, v);
  return v[0];
}

inline float max_lanes(VecF v) {
  for (int width = W; width > 1; width /= 2) v = max(zip_low(v, v), zip_high(v, v));
  return v[0];
}

// Lane i of the result is the sum of v[i]'s lanes. The order of additions is the same for every lane.
template <int N = W>
inline VecF sum_each(VecF (&v)[N]) {
  VecF half[N / 2];
#pragma GCC unroll 16
  for (int i = 0; i < N / 2; ++i) half[i] = zip_low(v[i], v[i + N / 2]) + zip_high(v[i], v[i + N / 2]);
  if constexpr (N == 2) {
    return half[0];
  } else {
    return sum_each<N / 2>(half);
  }
}

// v becomes its transpose: log2(W) perfect shuffles.
inline void transpose(VecF (&v)[W]) {
  for (int stage = 1; stage < W; stage *= 2) {
    VecF t[W];
#pragma GCC unroll 16
    for (int i = 0; i < W / 2; ++i) {
      t[2 * i] = zip_low(v[i], v[i + W / 2]);
      t[2 * i + 1] = zip_high(v[i], v[i + W / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) v[i] = t[i];
  }
}

// Dot products of W / Q rows with Q float vectors: lane r * Q + j is rows[r] . x[j]. Each x is padded with zeros to
// round_up(d, W). Every row is read once for all Q vectors, and a lane's value does not depend on Q. With `ahead`, what
// lies so many elements further is fetched meanwhile.
template <int Q, typename T>
inline VecF dot_products(const T* const* rows, const float* const* x, int64_t d, int64_t ahead = 0) {
  constexpr int R = W / Q;
  VecF acc[W] = {};
  const auto step = [&](int64_t i, int64_t count) {
    VecF row[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      row[r] = load(rows[r] + i, count);
      if (ahead) __builtin_prefetch(rows[r] + i + ahead);
    }
#pragma GCC unroll 16
    for (int j = 0; j < Q; ++j) {
      const VecF xj = load(x[j] + i);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) acc[r * Q + j] += row[r] * xj;
    }
  };
  int64_t i = 0;
  for (; i + W <= d; i += W) step(i, W);
  if (i < d) step(i, d - i);
  return sum_each(acc);
}

}  // namespace sglang_example_oot
