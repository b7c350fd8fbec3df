// SIMD vectors of W floats, written with GCC/Clang vector types so that one source serves AVX-512, AVX2 and NEON.
#pragma once

#include <c10/util/BFloat16.h>
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

// y * 2^n for integral n; 0 and infinity where that leaves the range.
inline VecF scale_by_power(VecF y, VecF n) {
#if defined(__AVX512F__)
  return bits<VecF>(_mm512_scalef_ps(bits<__m512>(y), bits<__m512>(n)));
#else
  const VecI exponent = __builtin_convertvector(n, VecI);
  const VecF scaled = y * bits<VecF>((exponent + 127) << 23);
  return exponent < -126 ? VecF{} : (exponent > 127 ? splat(kInf) : scaled);
#endif
}

constexpr float kLog2E = 1.44269504f;

inline VecF round_to_integer(VecF x) {
  const VecF magic = splat(12582912.0f);  // 1.5 * 2^23 leaves no bits for a fraction
  return (x + magic) - magic;
}

// 2^r for |r| <= 1/2, the minimax polynomial in the relative error: 7.5e-8 for degree 5, 7.5e-5 for degree 3.
template <int Degree>
inline VecF power_of_two(VecF r) {
  static_assert(Degree == 3 || Degree == 5);
  if constexpr (Degree == 3) {
    return ((0.0551716691f * r + 0.242611122f) * r + 0.693260985f) * r + 0.999928074f;
  } else {
    const VecF high = (0.0013276472f * r + 0.00967554133f) * r + 0.0555071327f;
    return ((high * r + 0.240221197f) * r + 0.693146967f) * r + 1.00000007f;
  }
}

// 2^x; exactly 0 far below the range of float (so for -inf).
template <int Degree>
inline VecF exp2(VecF x) {
  x = max(splat(-300.0f), x);
  const VecF n = round_to_integer(x);
  return scale_by_power(power_of_two<Degree>(x - n), n);
}

// e^x within 2 ulp, exactly 0 far below the range of float (so for -inf).
inline VecF exp(VecF x) {
  x = min(splat(200.0f), max(splat(-200.0f), x));
  const VecF n = round_to_integer(x * kLog2E);
  const VecF r = (x * kLog2E - n) + x * 1.92596299e-8f;  // log2(e) in two parts
  return scale_by_power(power_of_two<5>(r), n);
}

inline VecF soft_cap(VecF x, float cap) {
  const VecF e = exp(x * (2.0f / cap));
  return cap - (2.0f * cap) / (e + 1.0f);
}

inline VecF silu(VecF x) {
  return x / (1.0f + exp(-x));
}

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
// round_up(d, W). Every row is read once for all Q vectors, and a lane's value does not depend on Q.
template <int Q, typename T>
inline VecF dot_products(const T* const* rows, const float* const* x, int64_t d) {
  constexpr int R = W / Q;
  VecF acc[W] = {};
  const auto step = [&](int64_t i, int64_t count) {
    VecF row[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) row[r] = load(rows[r] + i, count);
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
