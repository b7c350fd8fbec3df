// A vendor replaces this file: it is written for the instructions of a processor.
// Rotary position embedding (Su et al. 2021), in place: each pair (a, b) becomes (a cos - b sin, b cos + a sin).
// The pairs are (i, i + rotary_dim / 2) in the neox style and (2 i, 2 i + 1) otherwise.
#include "dispatch.h"
#include "kernels.h"
#include "vec.h"

namespace sglang_example_oot {
namespace {

template <typename T>
void rotate_head(T* x, const float* cosines, const float* sines, int64_t half, bool neox) {
  if (neox) {
    for_each_vector(half, [&](int64_t i, int64_t n) {
      const VecF a = load(x + i, n), b = load(x + half + i, n);
      const VecF c = load(cosines + i, n), s = load(sines + i, n);
      store(x + i, a * c - b * s, n);
      store(x + half + i, b * c + a * s, n);
    });
  } else {
    for (int64_t i = 0; i < half; ++i) {
      const float a = static_cast<float>(x[2 * i]), b = static_cast<float>(x[2 * i + 1]);
      x[2 * i] = static_cast<T>(a * cosines[i] - b * sines[i]);
      x[2 * i + 1] = static_cast<T>(b * cosines[i] + a * sines[i]);
    }
  }
}

}  // namespace

void rotate(const Rotary& rotary, const Rows& x, int64_t heads) {
  const int64_t half = rotary.rotary_dim / 2;
  with_type(x.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel_for(0, rotary.tokens, grain(heads * rotary.rotary_dim), [&](int64_t begin, int64_t end) {
      float* angles = static_cast<float*>(scratch(2 * round_up(half, W) * sizeof(float)));
      float* sines = angles + round_up(half, W);
      for (int64_t t = begin; t < end; ++t) {
        with_type(rotary.cos_sin.type, [&](auto* angle) {
          const auto* row = rotary.cos_sin.at<const std::remove_pointer_t<decltype(angle)>>(rotary.positions[t], 0);
          widen_row(row, angles, half, round_up(half, W));
          widen_row(row + half, sines, half, round_up(half, W));
        });
        for (int64_t h = 0; h < heads; ++h) rotate_head(x.at<T>(t, h), angles, sines, half, rotary.neox);
      }
    });
  });
}

}  // namespace sglang_example_oot
