// A vendor replaces this file: it is written for the instructions of a processor.
// A small float32 GEMM for cache-resident tiles: C[M, N] (+)= A[M, K] B[K, N], all row-major, N a multiple of W.
#pragma once

#include "vec.h"

namespace sglang_example_oot {

// Rows of A that are wanted next: a line of theirs is fetched per k.
struct Ahead {
  const char* rows = nullptr;
  int64_t stride = 0;  // bytes from row to row
  int64_t lines = 0;   // of 64 bytes, in a row

  Ahead from(int64_t row) const {
    return {rows ? rows + row * stride : nullptr, stride, lines};
  }
};

// MR rows by NV vectors of C live in registers, fed by one broadcast of A and NV loads of B per k.
template <int MR, int NV>
inline void gemm_block(
    int64_t k_size, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, bool add,
    Ahead ahead = {}) {
  VecF acc[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) acc[i][j] = add ? load(c + i * ldc + j * W) : VecF{};
  int64_t line = 0, left = ahead.rows ? MR : 0;
  for (int64_t k = 0; k < k_size; ++k) {
    if (left) {
      __builtin_prefetch(ahead.rows + line * 64, 0, 2);
      if (++line == ahead.lines) line = 0, ahead.rows += ahead.stride, --left;
    }
    VecF row[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) row[j] = load(b + k * ldb + j * W);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const VecF x = splat(a[i * lda + k]);
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) acc[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) store(c + i * ldc + j * W, acc[i][j]);
}

// R rows at a time, so many that their sums hide the multiplication's latency and fit the registers.
template <int NV>
inline void gemm_panel(
    int64_t m, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, bool add,
    Ahead ahead = {}) {
  constexpr int R = NV == 1 || (NV == 2 && W == 16) ? 12 : 6;
  int64_t i = 0;
  for (; i + R <= m; i += R) gemm_block<R, NV>(k, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add, ahead.from(i));
  for (; i + 2 <= m; i += 2) gemm_block<2, NV>(k, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add, ahead.from(i));
  if (i < m) gemm_block<1, NV>(k, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add, ahead.from(i));
}

inline void gemm(
    int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
    bool add, Ahead ahead = {}) {
  constexpr int NV = W == 16 ? 4 : 2;  // 24 of AVX-512's 32 registers, 12 of AVX2's 16
  int64_t j = 0;
  for (; j + NV * W <= n; j += NV * W) gemm_panel<NV>(m, k, a, lda, b + j, ldb, c + j, ldc, add, j ? Ahead{} : ahead);
  for (; j + 2 * W <= n; j += 2 * W) gemm_panel<2>(m, k, a, lda, b + j, ldb, c + j, ldc, add, j ? Ahead{} : ahead);
  for (; j < n; j += W) gemm_panel<1>(m, k, a, lda, b + j, ldb, c + j, ldc, add, j ? Ahead{} : ahead);
}

}  // namespace sglang_example_oot
