// A vendor replaces this file: it is written for the instructions of a processor.
// Activations: out = f(x), and gated ones: out = f(x[:size]) * x[size:].
#include "dispatch.h"
#include "exponential.h"
#include "kernels.h"
#include "vec.h"

namespace sglang_example_oot {
namespace {

// x times a sigmoid: gelu's tanh form is one too, (1 + tanh(y)) / 2 = sigmoid(2 y).
inline VecF gelu_tanh(VecF x) {
  return x / (1.0f + exp(-1.59576912f * (x + 0.044715f * x * x * x)));
}

inline VecF gelu_erf(VecF x) {
  VecF y;
  for (int i = 0; i < W; ++i) y[i] = 0.5f * x[i] * std::erfc(-0.707106781f * x[i]);
  return y;
}

inline VecF quick_gelu(VecF x) {
  return x / (1.0f + exp(-1.702f * x));
}

inline VecF relu2(VecF x) {
  const VecF positive = max(x, VecF{});
  return positive * positive;
}

template <typename F>
void with_activation(Activation activation, const F& f) {
  switch (activation) {
    case Activation::silu:
      return f([](VecF x) { return silu(x); });
    case Activation::gelu_tanh:
      return f([](VecF x) { return gelu_tanh(x); });
    case Activation::gelu_erf:
      return f([](VecF x) { return gelu_erf(x); });
    case Activation::quick_gelu:
      return f([](VecF x) { return quick_gelu(x); });
    case Activation::relu2:
      return f([](VecF x) { return relu2(x); });
  }
}

}  // namespace

void activate(const Rows& x, const Rows& out, int64_t tokens, int64_t size, Activation activation, bool gated) {
  with_type(x.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    with_activation(activation, [&](const auto& f) {
      // Cut rows too, so that one long row uses all threads.
      constexpr int64_t kPiece = 4096;
      const int64_t pieces = (size + kPiece - 1) / kPiece;
      parallel_for(0, tokens * pieces, grain(std::min(size, kPiece) * 2), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % pieces * kPiece;
          const T* in = x.at<const T>(i / pieces, 0) + first;
          T* to = out.at<T>(i / pieces, 0) + first;
          for_each_vector(std::min(kPiece, size - first), [&](int64_t e, int64_t n) {
            const VecF y = f(load(in + e, n));
            store(to + e, gated ? y * load(in + size + e, n) : y, n);
          });
        }
      });
    });
  });
}

}  // namespace sglang_example_oot
