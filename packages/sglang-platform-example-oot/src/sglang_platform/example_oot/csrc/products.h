// A vendor replaces this file: it is written for the instructions of a processor.
// Rows of a matrix times a few vectors, the matrix read from memory once.
#pragma once

#include <algorithm>

#include "lanes.h"

namespace sglang_example_oot {

constexpr int kFewRows = W < 8 ? W : 8;

// Calls use(row, j, value) with value = (row of `matrix`) . x[j] for `rows` rows and `n` <= Q vectors.
template <int Q, typename T, typename F>
inline void multiply(
    const T* matrix, int64_t stride, int64_t rows, const float* const* x, int64_t n, int64_t d, const F& use) {
  constexpr int64_t R = W / Q;
  for (int64_t row = 0; row < rows; row += R) {
    const T* pointers[R];
    for (int64_t r = 0; r < R; ++r) pointers[r] = matrix + std::min(row + r, rows - 1) * stride;
    const VecF dots = dot_products<Q>(pointers, x, d, row + 2 * R <= rows ? R * stride : 0);
    for (int64_t r = 0; r < R && row + r < rows; ++r)
      for (int64_t j = 0; j < n; ++j) use(row + r, j, dots[r * Q + j]);
  }
}

// As multiply, for 1 <= n <= kFewRows; `x` has room for kFewRows.
template <typename T, typename F>
void multiply_any(
    const T* matrix, int64_t stride, int64_t rows, const float** x, int64_t n, int64_t d, const F& use) {
  for (int64_t j = n; j < kFewRows; ++j) x[j] = x[n - 1];
  if (n == 1) multiply<1>(matrix, stride, rows, x, n, d, use);
  else if (n == 2) multiply<2>(matrix, stride, rows, x, n, d, use);
  else if (n <= 4) multiply<4>(matrix, stride, rows, x, n, d, use);
  else multiply<kFewRows>(matrix, stride, rows, x, n, d, use);
}

}  // namespace sglang_example_oot
