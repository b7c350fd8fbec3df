// A vendor replaces this file: it is written for the instructions of a processor.
// The two ways extend multiplies a block of queries with a tile of keys and values: float32 in vector registers, and
// bfloat16 through oneDNN's batch-reduce GEMM (matrix units such as AMX), both accumulating in float32.
#pragma once

#include <ATen/native/CPUBlas.h>

#include "gemm.h"
#include "lanes.h"
#include "vec.h"

namespace sglang_example_oot {

// Element types of T (of any width) widened to float.
template <typename T>
struct FloatTiles {
  using Element = float;
  using Source = T;
  static constexpr int kDegree = 5;  // of the exponential's polynomial
  static constexpr int64_t kTokens = 64;
  static constexpr int64_t kRows = 128;

  static int64_t padded_rows(int64_t rows) {
    return rows;
  }
  static int64_t padded_dim(int64_t dim) {
    return round_up(dim, W);
  }

  // keys[e][t] = rows[t][e]; `rows` holds kTokens pointers, the unused ones equal to the last used.
  static void pack_keys(const T* const* rows, int64_t n, int64_t dim, float* keys) {
    for (int64_t t = 0; t < n; t += W) {
      for_each_vector(dim, [&](int64_t e, int64_t count) {
        VecF v[W];
        for (int i = 0; i < W; ++i) v[i] = load(rows[t + i] + e, count);
        transpose(v);
        for (int i = 0; i < W; ++i) store(keys + (e + i) * kTokens + t, v[i]);
      });
    }
  }

  // values[t][e] = rows[t][e]
  static void pack_values(const T* const* rows, int64_t n, int64_t dim, float* values) {
    for (int64_t t = 0; t < n; ++t) widen_row(rows[t], values + t * padded_dim(dim), dim, padded_dim(dim));
  }

  template <typename Query>
  static void pack_query(const Query* from, float* to, int64_t dim) {
    widen_row(from, to, dim, padded_dim(dim));
  }

  static void multiply_keys(int64_t m, int64_t n, int64_t dim, const float* q, const float* keys, float* scores) {
    gemm(m, round_up(n, W), dim, q, padded_dim(dim), keys, kTokens, scores, kTokens, false);
  }

  static void add_values(int64_t m, int64_t n, int64_t dim, const float* p, const float* values, float* out) {
    gemm(m, padded_dim(dim), n, p, kTokens, values, padded_dim(dim), out, padded_dim(dim), true);
  }

  static void release() {}
};

// B operands in VNNI layout: element (k, n) at [k / 2][n][k % 2].
struct MatrixUnitTiles {
  using Element = c10::BFloat16;
  using Source = c10::BFloat16;
  static constexpr int kDegree = 3;  // its error of 7.5e-5 vanishes in the rounding of the probabilities, 2^-9
  static constexpr int64_t kTokens = 128;
  static constexpr int64_t kRows = 256;

  static bool available() {
    return at::native::cpublas::could_pack(c10::ScalarType::BFloat16);
  }
  // Few distinct shapes, because each is compiled once per thread.
  static int64_t padded_rows(int64_t rows) {
    int64_t padded = 16;
    while (padded < rows) padded *= 2;
    return padded;
  }
  static int64_t padded_dim(int64_t dim) {
    return round_up(dim, 32);
  }

  static void pack_keys(const Element* const* rows, int64_t n, int64_t dim, Element* keys) {
    for (int64_t t = 0; t < n; t += W) {
      for (int64_t e = 0; e < padded_dim(dim); e += 2 * W) {
        VecF v[W];  // pairs of elements, moved as one
        for (int i = 0; i < W; ++i) v[i] = load_pairs(rows[t + i] + e, std::max<int64_t>(dim - e, 0));
        transpose(v);
        for (int i = 0; i < W; ++i)
          __builtin_memcpy(static_cast<void*>(keys + (e + 2 * i) * kTokens + 2 * t), &v[i], sizeof(VecF));
      }
    }
    // Scores of absent tokens are computed as well: they must come from numbers.
    for (int64_t e = 0; e < padded_dim(dim); e += 2)
      std::fill(keys + e * kTokens + 2 * round_up(n, W), keys + (e + 2) * kTokens, Element(0.0f));
  }

  static void pack_values(const Element* const* rows, int64_t n, int64_t dim, Element* values) {
    const int64_t padded = padded_dim(dim);
    for (int64_t t = 0; t < kTokens; t += 2) {
      Element* to = values + t * padded;
      if (t >= n) {
        std::fill(to, to + 2 * padded, Element(0.0f));
        continue;
      }
      const Element* even = rows[t];
      const Element* odd = t + 1 < n ? rows[t + 1] : nullptr;
      for (int64_t e = 0; e < padded; e += W) {
        const int64_t count = std::max<int64_t>(std::min<int64_t>(dim - e, W), 0);
        const VecU low = widen(load_halves(even + e, count));
        const VecU high = odd ? widen(load_halves(odd + e, count)) << 16 : VecU{};
        const VecU pairs = low | high;
        __builtin_memcpy(static_cast<void*>(to + 2 * e), &pairs, sizeof(pairs));
      }
    }
  }

  static void pack_query(const Element* from, Element* to, int64_t dim) {
    std::copy(from, from + dim, to);
    std::fill(to + dim, to + padded_dim(dim), Element(0.0f));
  }

  static void multiply_keys(int64_t m, int64_t, int64_t dim, const Element* q, const Element* keys, float* scores) {
    const int64_t k = padded_dim(dim);
    at::native::cpublas::brgemm(padded_rows(m), kTokens, k, k, kTokens, kTokens, false, q, keys, scores);
  }

  static void add_values(int64_t m, int64_t, int64_t dim, const Element* p, const Element* values, float* out) {
    const int64_t n = padded_dim(dim);
    at::native::cpublas::brgemm(padded_rows(m), n, kTokens, kTokens, n, n, true, p, values, out);
  }

  static void release() {
    at::native::cpublas::brgemm_release();
  }

 private:
  static VecH load_halves(const Element* p, int64_t count) {
    if (count == W) return read<VecH>(p);
    Element padded[W] = {};
    __builtin_memcpy(static_cast<void*>(padded), p, count * sizeof(Element));
    return read<VecH>(padded);
  }

  static VecF load_pairs(const Element* p, int64_t count) {
    if (count >= 2 * W) return read<VecF>(p);
    Element padded[2 * W] = {};
    __builtin_memcpy(static_cast<void*>(padded), p, count * sizeof(Element));
    return read<VecF>(padded);
  }
};

}  // namespace sglang_example_oot
