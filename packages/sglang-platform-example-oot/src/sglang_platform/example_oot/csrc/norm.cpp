// A vendor replaces this file: it is written for the instructions of a processor.
// RMS norm: out = x / sqrt(mean(x^2) + eps) * (weight + shift), and layer norm: out = (x - mean) / sqrt(variance + eps) *
// weight + bias, in float32 with one rounding at the end.
#include "dispatch.h"
#include "kernels.h"
#include "lanes.h"
#include "vec.h"

namespace sglang_example_oot {
namespace {

// `weight` has the type of x or is float32, and may be null.
template <typename T, typename F>
void with_weight(const void* weight, c10::ScalarType type, const F& f) {
  if (type == c10::ScalarType::Float) {
    f(static_cast<const float*>(weight));
  } else {
    f(static_cast<const T*>(weight));
  }
}

// The factors of W columns, or `otherwise` where there are none.
template <typename S>
inline VecF factors(const S* values, int64_t i, int64_t n, float otherwise, float shift = 0.0f) {
  return values ? load(values + i, n) + shift : splat(otherwise);
}

inline float inverse_root(VecF squares, int64_t size, float eps) {
  return 1.0f / std::sqrt(sum_lanes(squares) / static_cast<float>(size) + eps);
}

}  // namespace

void rms_norm(
    const Rows& x, const Rows& out, int64_t outer, int64_t inner, int64_t size, const void* weight,
    c10::ScalarType weight_type, float eps, float shift) {
  with_type(x.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    with_weight<T>(weight, weight_type, [&](auto* w) {
      parallel_for(0, outer * inner, grain(size), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* in = x.at<const T>(row / inner, row % inner);
          T* to = out.at<T>(row / inner, row % inner);
          VecF squares = {};
          for_each_vector(size, [&](int64_t i, int64_t n) {
            const VecF v = load(in + i, n);
            squares += v * v;
          });
          const float factor = inverse_root(squares, size, eps);
          for_each_vector(size, [&](int64_t i, int64_t n) {
            store(to + i, load(in + i, n) * factor * factors(w, i, n, 1.0f, shift), n);
          });
        }
      });
    });
  });
}

void fused_add_rms_norm(
    const Rows& x, const Rows& residual, int64_t tokens, int64_t size, const void* weight, c10::ScalarType weight_type,
    float eps, float shift) {
  with_type(x.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    with_weight<T>(weight, weight_type, [&](auto* w) {
      parallel_for(0, tokens, grain(size), [&](int64_t begin, int64_t end) {
        float* sum = static_cast<float*>(scratch(round_up(size, W) * sizeof(float)));
        for (int64_t t = begin; t < end; ++t) {
          T* in = x.at<T>(t, 0);
          T* carried = residual.at<T>(t, 0);
          VecF squares = {};
          for_each_vector(size, [&](int64_t i, int64_t n) {
            const VecF s = load(in + i, n) + load(carried + i, n);
            store(sum + i, s);
            store(carried + i, s, n);
            squares += s * s;
          });
          const float factor = inverse_root(squares, size, eps);
          for_each_vector(size, [&](int64_t i, int64_t n) {
            store(in + i, load(sum + i) * factor * factors(w, i, n, 1.0f, shift), n);
          });
        }
      });
    });
  });
}

void layer_norm(
    const Rows& x, const Rows& out, int64_t tokens, int64_t size, const void* weight, const void* bias,
    c10::ScalarType weight_type, float eps) {
  with_type(x.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    with_weight<T>(weight, weight_type, [&](auto* w) {
      const auto* b = static_cast<decltype(w)>(bias);
      parallel_for(0, tokens, grain(size), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* in = x.at<const T>(row, 0);
          T* to = out.at<T>(row, 0);
          VecF sum = {};
          for_each_vector(size, [&](int64_t i, int64_t n) { sum += load(in + i, n); });
          const float mean = sum_lanes(sum) / static_cast<float>(size);
          VecF squares = {};  // of the differences: the mean square less the squared mean would cancel
          for_each_vector(size, [&](int64_t i, int64_t n) {
            VecF d = load(in + i, n) - mean;
            for (int64_t lane = n; lane < W; ++lane) d[lane] = 0.0f;
            squares += d * d;
          });
          const float factor = inverse_root(squares, size, eps);
          for_each_vector(size, [&](int64_t i, int64_t n) {
            store(to + i, (load(in + i, n) - mean) * factor * factors(w, i, n, 1.0f) + factors(b, i, n, 0.0f), n);
          });
        }
      });
    });
  });
}

}  // namespace sglang_example_oot
