// A vendor replaces this file: it is written for the instructions of a processor.
// Copies a step's new keys and values into their slots of the paged cache.
#include "dispatch.h"
#include "kernels.h"

#include <cstring>

namespace sglang_example_oot {
namespace {

void copy_token(const Rows& from, int64_t token, const Rows& to, int64_t slot, int64_t heads, int64_t dim) {
  const int64_t size = static_cast<int64_t>(c10::elementSize(from.type));
  if (from.inner == dim && to.inner == dim) {
    std::memcpy(to.at<char>(slot * size, 0), from.at<char>(token * size, 0), heads * dim * size);
    return;
  }
  for (int64_t h = 0; h < heads; ++h)
    std::memcpy(to.at<char>(slot * size, h * size), from.at<char>(token * size, h * size), dim * size);
}

}  // namespace

void store_kv(
    const Rows& k, const Rows& v, const Rows& k_buffer, const Rows& v_buffer, const int64_t* loc, int64_t tokens,
    int64_t heads, int64_t dim, int64_t v_dim) {
  parallel_for(0, tokens, grain(heads * (dim + v_dim)), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      copy_token(k, t, k_buffer, loc[t], heads, dim);
      copy_token(v, t, v_buffer, loc[t], heads, v_dim);
    }
  });
}

}  // namespace sglang_example_oot
