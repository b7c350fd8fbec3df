// A vendor replaces this file: it is written for the instructions of a processor.
// A small float32 GEMM for cache-resident tiles: C[M, N] (+)= A[M, K] B[K, N], all row-major, N a multiple of W.
#pragma once

#include "vec.h"

namespace sglang_example_oot {

// MR rows by NV vectors of C live in registers, fed by one broadcast of A and NV loads of B per k.
template <int MR, int NV>
inline void gemm_block(
    int64_t k_size, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, bool add) {
  VecF acc[MR][NV];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) acc[i][j] = add ? load(c + i * ldc + j * W) : VecF{};
  for (int64_t k = 0; k < k_size; ++k) {
    VecF row[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) row[j] = load(b + k * ldb + j * W);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const VecF x = splat(a[i * lda + k]);
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) acc[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) store(c + i * ldc + j * W, acc[i][j]);
}

template <int NV>
inline void gemm_panel(
    int64_t m, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, bool add) {
  int64_t i = 0;
  for (; i + 6 <= m; i += 6) gemm_block<6, NV>(k, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add);
  for (; i + 2 <= m; i += 2) gemm_block<2, NV>(k, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add);
  if (i < m) gemm_block<1, NV>(k, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add);
}

inline void gemm(
    int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
    bool add) {
  constexpr int NV = W == 16 ? 4 : 2;  // 24 of AVX-512's 32 registers, 12 of AVX2's 16
  int64_t j = 0;
  for (; j + NV * W <= n; j += NV * W) gemm_panel<NV>(m, k, a, lda, b + j, ldb, c + j, ldc, add);
  for (; j < n; j += W) gemm_panel<1>(m, k, a, lda, b + j, ldb, c + j, ldc, add);
}

}  // namespace sglang_example_oot
