// A vendor replaces this file: it is written for the instructions of a processor.
// SwiGLU's gate: out = silu(x[:size]) * x[size:], silu(a) = a / (1 + exp(-a)).
#include "dispatch.h"
#include "exponential.h"
#include "kernels.h"
#include "vec.h"

namespace sglang_example_oot {

void silu_and_mul(const Rows& x, const Rows& out, int64_t tokens, int64_t size) {
  with_type(x.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    // Cut rows too, so that one long row uses all threads.
    constexpr int64_t kPiece = 4096;
    const int64_t pieces = (size + kPiece - 1) / kPiece;
    parallel_for(0, tokens * pieces, grain(std::min(size, kPiece) * 2), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % pieces * kPiece;
        const T* gate = x.at<const T>(i / pieces, 0) + first;
        T* to = out.at<T>(i / pieces, 0) + first;
        for_each_vector(std::min(kPiece, size - first), [&](int64_t e, int64_t n) {
          store(to + e, silu(load(gate + e, n)) * load(gate + size + e, n), n);
        });
      }
    });
  });
}

}  // namespace sglang_example_oot
