// A vendor replaces this file: it is written for the instructions of a processor.
// SIMD vectors of W floats, written with GCC/Clang vector types so that one source serves AVX-512, AVX2 and NEON.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstdint>
#include <limits>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace sglang_example_oot {

#if defined(__AVX512F__)
constexpr int W = 16;
#else
constexpr int W = 8;
#endif

typedef float VecF __attribute__((vector_size(W * 4)));
typedef int32_t VecI __attribute__((vector_size(W * 4)));
typedef uint32_t VecU __attribute__((vector_size(W * 4)));
typedef uint16_t VecH __attribute__((vector_size(W * 2)));
typedef uint8_t VecB __attribute__((vector_size(W)));

constexpr float kInf = std::numeric_limits<float>::infinity();

inline int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

inline VecF splat(float x) {
  return x - VecF{};  // unlike a sum with zero, a plain broadcast: no sign of zero to keep
}

template <typename To, typename From>
inline To bits(From from) {
  To to;
  static_assert(sizeof(To) == sizeof(From));
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

template <typename V>
inline V read(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}

inline VecF load(const float* p) {
  return read<VecF>(p);
}

// Unsigned 16-bit to 32-bit lanes.
inline VecU widen(VecH h) {
#if defined(__AVX512F__)
  return bits<VecU>(_mm512_cvtepu16_epi32(bits<__m256i>(h)));
#elif defined(__AVX2__)
  return bits<VecU>(_mm256_cvtepu16_epi32(bits<__m128i>(h)));
#else
  return __builtin_convertvector(h, VecU);
#endif
}

inline VecF load(const c10::BFloat16* p) {
  return bits<VecF>(widen(read<VecH>(p)) << 16);
}

inline VecF load(const c10::Half* p) {
#if defined(__AVX512F__)
  return bits<VecF>(_mm512_cvtph_ps(read<__m256i>(p)));
#elif defined(__F16C__)
  return bits<VecF>(_mm256_cvtph_ps(read<__m128i>(p)));
#else
  VecF v;
  for (int i = 0; i < W; ++i) v[i] = static_cast<float>(p[i]);
  return v;
#endif
}

// Exponent and mantissa in float's places, then the biases' difference, 127 - 7, as a factor: exact, subnormals too.
// A NaN becomes 480 or -480; stores saturate, so the cache holds none.
inline VecF load(const c10::Float8_e4m3fn* p) {
  const VecU u = __builtin_convertvector(read<VecB>(p), VecU);
  const VecU magnitude = (u & 0x7f) << 20, sign = (u & 0x80) << 24;
  return bits<VecF>(bits<VecU>(bits<VecF>(magnitude) * 0x1p120f) | sign);
}

inline void store(float* p, VecF v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

inline VecH to_bfloat16(VecF v) {
#if defined(__AVX512BF16__)
  return bits<VecH>(_mm512_cvtneps_pbh(bits<__m512>(v)));
#else
  const VecU u = bits<VecU>(v);
  const VecU nearest_even = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  const VecU quiet_nan = (u >> 16) | 0x40;
  return __builtin_convertvector(v == v ? nearest_even : quiet_nan, VecH);
#endif
}

inline void store(c10::BFloat16* p, VecF v) {
  const VecH h = to_bfloat16(v);
  __builtin_memcpy(p, &h, sizeof(h));
}

inline void store(c10::Half* p, VecF v) {
#if defined(__AVX512F__)
  const __m256i h = _mm512_cvtps_ph(bits<__m512>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __builtin_memcpy(p, &h, sizeof(h));
#elif defined(__F16C__)
  const __m128i h = _mm256_cvtps_ph(bits<__m256>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __builtin_memcpy(p, &h, sizeof(h));
#else
  for (int i = 0; i < W; ++i) p[i] = static_cast<c10::Half>(v[i]);
#endif
}

// The first n < W elements, the rest zero; nothing behind them is touched.
template <typename T>
inline VecF load_part(const T* p, int64_t n) {
  T padded[W] = {};
  __builtin_memcpy(static_cast<void*>(padded), p, n * sizeof(T));
  return load(padded);
}

template <typename T>
inline void store_part(T* p, VecF v, int64_t n) {
  T all[W];
  store(all, v);
  __builtin_memcpy(static_cast<void*>(p), all, n * sizeof(T));
}

// Calls step(i, count) for each run of up to W elements of a row of n.
template <typename F>
inline void for_each_vector(int64_t n, const F& step) {
  int64_t i = 0;
  for (; i + W <= n; i += W) step(i, static_cast<int64_t>(W));
  if (i < n) step(i, n - i);
}

template <typename T>
inline VecF load(const T* p, int64_t count) {
  return count == W ? load(p) : load_part(p, count);
}

template <typename T>
inline void store(T* p, VecF v, int64_t count) {
  if (count == W) {
    store(p, v);
  } else {
    store_part(p, v, count);
  }
}

// dst[0, n) = src * factor as float, zeros up to `padded`.
template <typename T>
inline void widen_row(const T* src, float* dst, int64_t n, int64_t padded, float factor = 1.0f) {
  for_each_vector(n, [&](int64_t i, int64_t count) { store(dst + i, load(src + i, count) * factor, W); });
  for (int64_t i = round_up(n, W); i < padded; i += W) store(dst + i, VecF{});
}

inline VecF max(VecF a, VecF b) {
#if defined(__AVX512F__)
  return bits<VecF>(_mm512_max_ps(bits<__m512>(a), bits<__m512>(b)));
#else
  return a > b ? a : b;
#endif
}

inline VecF min(VecF a, VecF b) {
#if defined(__AVX512F__)
  return bits<VecF>(_mm512_min_ps(bits<__m512>(a), bits<__m512>(b)));
#else
  return a < b ? a : b;
#endif
}

}  // namespace sglang_example_oot
