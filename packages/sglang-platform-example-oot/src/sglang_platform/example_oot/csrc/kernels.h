// A vendor keeps this list of kernels and replaces what is behind it.
// What the operators (operators.cpp) and the kernels agree on: raw pointers, strides in elements, no torch types.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace sglang_example_oot {

// Rows of vectors: element (i, j, e) lies at data + i * outer + j * inner + e.
struct Rows {
  void* data;
  int64_t outer;
  int64_t inner;
  c10::ScalarType type;

  template <typename T>
  T* at(int64_t i, int64_t j) const {
    return static_cast<T*>(data) + i * outer + j * inner;
  }
};

// A batch of requests over the paged KV cache. Every token's slot was checked to lie in [0, slots).
struct PagedAttention {
  Rows q;    // [tokens, heads, dim]
  Rows k;    // [slots, kv_heads, dim]
  Rows v;    // [slots, kv_heads, v_dim]
  Rows out;  // [tokens, heads, v_dim]
  int64_t heads, kv_heads, dim, v_dim, slots;
  std::vector<const int32_t*> slot_of;  // per request: position -> slot
  std::vector<std::vector<int32_t>> mapped;  // what slot_of points into where slots are translated
  std::vector<int64_t> seq_lens;        // per request, the tokens in the cache, new ones included
  std::vector<int64_t> prefix_lens;     // extend only: where the request's new tokens start
  std::vector<int64_t> new_lens;        // extend only: how many they are
  float scaling;
  float logit_cap;  // 0: none
  int64_t window;   // < 0: none; else the tokens before the query's own that still count
  bool causal;
  std::vector<float> sinks;  // per head, or empty

  // The first position that a query at `position` attends to.
  int64_t first_seen(int64_t position) const {
    return window < 0 || position < window ? 0 : position - window;
  }
};

void paged_decode(const PagedAttention& batch);
void paged_extend(const PagedAttention& batch);

void store_kv(
    const Rows& k, const Rows& v, const Rows& k_buffer, const Rows& v_buffer, const int64_t* loc, int64_t tokens,
    int64_t heads, int64_t dim, int64_t v_dim);

void rms_norm(
    const Rows& x, const Rows& out, int64_t outer, int64_t inner, int64_t size, const void* weight,
    c10::ScalarType weight_type, float eps, float shift);
void fused_add_rms_norm(
    const Rows& x, const Rows& residual, int64_t tokens, int64_t size, const void* weight, c10::ScalarType weight_type,
    float eps, float shift);
void layer_norm(
    const Rows& x, const Rows& out, int64_t tokens, int64_t size, const void* weight, const void* bias,
    c10::ScalarType weight_type, float eps);

enum class Activation { silu, gelu_tanh, gelu_erf, quick_gelu, relu2 };

// x has `size` columns, and with a gate as many more.
void activate(const Rows& x, const Rows& out, int64_t tokens, int64_t size, Activation activation, bool gated);

struct Rotary {
  const int64_t* positions;
  int64_t tokens;
  Rows cos_sin;  // [max_position, rotary_dim]: cosines, then sines
  int64_t rotary_dim;
  bool neox;
};
void rotate(const Rotary& rotary, const Rows& x, int64_t heads);

// y = x W^T + b: every row of W is read from memory once for all rows of x.
struct Linear {
  Rows x;            // [m, k]
  Rows w;            // [n, k]
  const void* bias;  // [n], or null
  Rows out;          // [m, n]
  int64_t m, n, k;
};
void linear(const Linear& product);

// Causal convolutions over the tokens of each request, state and all: see kernels/convolution.py.
struct ShortConv {
  Rows x;            // [tokens, channels]
  Rows weight;       // [channels, width]
  const void* bias;  // [channels], or null
  Rows states;       // [slots, channels, state_length], of which the last width - 1 count
  Rows out;          // [tokens, channels]
  int64_t channels, width, state_length;
  std::vector<int64_t> starts, slots;
  std::vector<bool> resumes;
  bool silu;
};
void short_conv(const ShortConv& batch);

// SwiGLU experts for few tokens: every chosen expert's weights are read once.
struct Experts {
  Rows x;    // [tokens, hidden]
  Rows w13;  // [experts, 2 * inter, hidden]
  Rows w2;   // [experts, hidden, inter]
  Rows out;  // [tokens, hidden]
  int64_t tokens, hidden, inter, experts, top_k;
  const int64_t* ids;    // [tokens, top_k]; outside [0, experts): not here, adds nothing
  const float* weights;  // [tokens, top_k]
  bool weight_on_input;
};
void small_batch_experts(const Experts& batch);

}  // namespace sglang_example_oot
