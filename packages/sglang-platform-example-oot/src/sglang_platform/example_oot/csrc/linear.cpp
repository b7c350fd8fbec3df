// A vendor replaces this file: it is written for the instructions of a processor.
// y = x W^T + b for the few rows of a decode step, W as models keep it, [n, k] with k contiguous.
//
// The work is bound by reading W, so each row of it is read from memory once. Up to kFewRows rows of x it is multiplied
// from where it lies. With more, tiles of W are copied next to each other (rows of a matrix lie a power of two apart and
// would share the cache's sets) and multiplied with x transposed (Goto and van de Geijn 2008, the copy of W per tile).
#include <algorithm>

#include "dispatch.h"
#include "gemm.h"
#include "kernels.h"
#include "products.h"

namespace sglang_example_oot {
namespace {

constexpr int64_t kWeightRows = 16;
constexpr int64_t kTileRows = 24, kTileDepth = 256, kTileStride = kTileDepth + W;
constexpr int64_t kPanel = 64;  // rows of x that a tile meets at once

template <typename T>
void few_rows(const Linear& l) {
  const int64_t padded = round_up(l.k, W);
  float* x = shared_scratch(l.m * padded);
  for (int64_t j = 0; j < l.m; ++j) widen_row(l.x.at<const T>(j, 0), x + j * padded, l.k, padded);
  const T* bias = static_cast<const T*>(l.bias);
  const int64_t items = (l.n + kWeightRows - 1) / kWeightRows;
  parallel_for(0, items, grain(kWeightRows * l.k), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kWeightRows, rows = std::min(end * kWeightRows, l.n) - first;
    const float* vectors[kFewRows];
    for (int64_t j = 0; j < l.m; ++j) vectors[j] = x + j * padded;
    multiply_any(l.w.at<const T>(first, 0), l.w.outer, rows, vectors, l.m, l.k, [&](int64_t r, int64_t j, float y) {
      l.out.at<T>(j, 0)[first + r] = static_cast<T>(bias ? y + static_cast<float>(bias[first + r]) : y);
    });
  });
}

// x as [panel][k][width]: a panel's width is kPanel, the last one's what is left, rounded up to W with zeros.
template <typename T>
void pack_x(const Linear& l, float* packed) {
  const int64_t depth_blocks = (l.k + W - 1) / W;
  parallel_for(0, depth_blocks, grain(l.m * W), [&](int64_t begin, int64_t end) {
    for (int64_t first = 0; first < l.m; first += kPanel) {
      const int64_t width = round_up(std::min(kPanel, l.m - first), W);
      float* panel = packed + first * l.k;
      for (int64_t j = 0; j < width; j += W) {
        for (int64_t e = begin * W; e < std::min(end * W, l.k); e += W) {
          const int64_t count = std::min<int64_t>(l.k - e, W);
          VecF v[W];
          for (int i = 0; i < W; ++i)
            v[i] = first + j + i < l.m ? load(l.x.at<const T>(first + j + i, 0) + e, count) : VecF{};
          transpose(v);
          for (int64_t i = 0; i < count; ++i) store(panel + (e + i) * width + j, v[i]);
        }
      }
    }
  });
}

// The tile after the one at (row, k); none where it would be a narrow rest.
template <typename T>
Ahead following(const Linear& l, int64_t row, int64_t k) {
  k += kTileDepth;
  if (k >= l.k) k = 0, row += kTileRows;
  if (row + kTileRows > l.n || k + kTileDepth > l.k) return {};
  constexpr int64_t size = sizeof(T);
  return {reinterpret_cast<const char*>(l.w.at<const T>(row, 0) + k), l.w.outer * size, kTileDepth * size / 64};
}

template <typename T>
void many_rows(const Linear& l) {
  const int64_t padded = round_up(l.m, W);
  float* x = shared_scratch(padded * l.k);
  pack_x<T>(l, x);
  const T* bias = static_cast<const T*>(l.bias);
  const int64_t tiles = (l.n + kTileRows - 1) / kTileRows;
  parallel_for(0, tiles, grain(kTileRows * l.k), [&](int64_t begin, int64_t end) {
    float* tile = static_cast<float*>(scratch((kTileRows * (kTileStride + padded)) * sizeof(float)));
    float* sums = tile + kTileRows * kTileStride;  // [panel][row][width]
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t * kTileRows, rows = std::min(kTileRows, l.n - first);
      for (int64_t k = 0; k < l.k; k += kTileDepth) {
        const int64_t depth = std::min(kTileDepth, l.k - k);
        for (int64_t r = 0; r < rows; ++r)
          widen_row(l.w.at<const T>(first + r, 0) + k, tile + r * kTileStride, depth, depth);
        const Ahead ahead = following<T>(l, first, k);
        for (int64_t j = 0; j < l.m; j += kPanel) {
          const int64_t width = round_up(std::min(kPanel, l.m - j), W);
          gemm(
              rows, width, depth, tile, kTileStride, x + j * l.k + k * width, width, sums + j * kTileRows, width,
              k > 0, j ? Ahead{} : ahead);
        }
      }
      for (int64_t j = 0; j < l.m; ++j) {
        const int64_t panel = j / kPanel * kPanel, width = round_up(std::min(kPanel, l.m - panel), W);
        const float* from = sums + panel * kTileRows + (j - panel);
        T* to = l.out.at<T>(j, 0) + first;
        for (int64_t r = 0; r < rows; ++r)
          to[r] = static_cast<T>(bias ? from[r * width] + static_cast<float>(bias[first + r]) : from[r * width]);
      }
    }
  });
}

}  // namespace

void linear(const Linear& l) {
  if (l.m == 0 || l.n == 0) return;
  with_type(l.x.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if (l.m <= kFewRows) few_rows<T>(l);
    else many_rows<T>(l);
  });
}

}  // namespace sglang_example_oot
