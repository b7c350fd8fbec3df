// A vendor replaces this file: it is written for the instructions of a processor.
// SwiGLU experts for few tokens:  out_t = sum_k weight_tk * w2[e] (silu(w13[e][:inter] x_t) * (w13[e][inter:] x_t)).
//
// The work is bound by reading the chosen experts' weights, so each is read once, for all tokens that chose it. The
// order of additions for a token is that of the expert numbers, whatever else is in the batch.
#include <algorithm>
#include <numeric>

#include "dispatch.h"
#include "kernels.h"
#include "products.h"

namespace sglang_example_oot {
namespace {

constexpr int64_t kRowsPerItem = 16;

// The (token, k) pairs by expert: pair numbers in `order`, expert e's from start[e] to start[e + 1].
struct Routing {
  std::vector<int64_t> start, order, active;

  explicit Routing(const Experts& b) : start(b.experts + 1, 0) {
    const int64_t pairs = b.tokens * b.top_k;
    const auto here = [&](int64_t id) { return id >= 0 && id < b.experts; };
    for (int64_t i = 0; i < pairs; ++i)
      if (here(b.ids[i])) ++start[b.ids[i] + 1];
    for (int64_t e = 0; e < b.experts; ++e)
      if (start[e + 1] > 0) active.push_back(e);
    std::partial_sum(start.begin(), start.end(), start.begin());
    order.resize(start.back());
    std::vector<int64_t> next(start.begin(), start.end() - 1);
    for (int64_t i = 0; i < pairs; ++i)
      if (here(b.ids[i])) order[next[b.ids[i]]++] = i;
  }
};

template <typename T>
void run(const Experts& b) {
  const Routing routing(b);
  const int64_t hidden = round_up(b.hidden, W), inter = round_up(b.inter, W);
  const int64_t pairs = static_cast<int64_t>(routing.order.size());
  float* x = shared_scratch(b.tokens * hidden + pairs * inter);
  float* gated = x + b.tokens * hidden;  // [pairs, inter], padded with zeros
  for (int64_t t = 0; t < b.tokens; ++t) widen_row(b.x.at<const T>(t, 0), x + t * hidden, b.hidden, hidden);
  for (int64_t i = 0; i < pairs; ++i) std::fill(gated + i * inter + b.inter, gated + (i + 1) * inter, 0.0f);

  const int64_t blocks = (b.inter + kRowsPerItem - 1) / kRowsPerItem;
  const int64_t up_items = static_cast<int64_t>(routing.active.size()) * blocks;
  parallel_for(0, up_items, grain(2 * kRowsPerItem * b.hidden), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t e = routing.active[item / blocks], first = item % blocks * kRowsPerItem;
      const int64_t rows = std::min(kRowsPerItem, b.inter - first);
      const T* gate_rows = b.w13.at<const T>(e, first);
      const T* up_rows = b.w13.at<const T>(e, b.inter + first);
      for (int64_t i = routing.start[e]; i < routing.start[e + 1]; i += kFewRows) {
        const int64_t n = std::min<int64_t>(kFewRows, routing.start[e + 1] - i);
        const float* vectors[kFewRows];
        for (int64_t j = 0; j < n; ++j) vectors[j] = x + routing.order[i + j] / b.top_k * hidden;
        float gate[kRowsPerItem][kFewRows], up[kRowsPerItem][kFewRows];
        const auto to_gate = [&](int64_t r, int64_t j, float y) { gate[r][j] = y; };
        const auto to_up = [&](int64_t r, int64_t j, float y) { up[r][j] = y; };
        multiply_any(gate_rows, b.w13.inner, rows, vectors, n, b.hidden, to_gate);
        multiply_any(up_rows, b.w13.inner, rows, vectors, n, b.hidden, to_up);
        for (int64_t j = 0; j < n; ++j) {
          const float scale = b.weight_on_input ? b.weights[routing.order[i + j]] : 1.0f;
          for (int64_t r = 0; r < rows; ++r) {
            const float a = gate[r][j] * scale;
            gated[(i + j) * inter + first + r] = a / (1.0f + std::exp(-a)) * (up[r][j] * scale);
          }
        }
      }
    }
  });

  const int64_t down_items = (b.hidden + kRowsPerItem - 1) / kRowsPerItem;
  const int64_t down_cost = kRowsPerItem * b.inter * static_cast<int64_t>(routing.active.size());
  parallel_for(0, down_items, grain(down_cost), [&](int64_t begin, int64_t end) {
    float* sums = static_cast<float*>(scratch(b.tokens * kRowsPerItem * sizeof(float)));
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item * kRowsPerItem, rows = std::min(kRowsPerItem, b.hidden - first);
      std::fill(sums, sums + b.tokens * kRowsPerItem, 0.0f);
      for (const int64_t e : routing.active) {
        for (int64_t i = routing.start[e]; i < routing.start[e + 1]; i += kFewRows) {
          const int64_t n = std::min<int64_t>(kFewRows, routing.start[e + 1] - i);
          const float* vectors[kFewRows];
          for (int64_t j = 0; j < n; ++j) vectors[j] = gated + (i + j) * inter;
          const auto to_sums = [&](int64_t r, int64_t j, float y) {
            const int64_t pair = routing.order[i + j];
            sums[pair / b.top_k * kRowsPerItem + r] += b.weight_on_input ? y : b.weights[pair] * y;
          };
          multiply_any(b.w2.at<const T>(e, first), b.w2.inner, rows, vectors, n, b.inter, to_sums);
        }
      }
      for (int64_t t = 0; t < b.tokens; ++t)
        for (int64_t r = 0; r < rows; ++r) b.out.at<T>(t, 0)[first + r] = static_cast<T>(sums[t * kRowsPerItem + r]);
    }
  });
}

}  // namespace

void small_batch_experts(const Experts& batch) {
  with_type(batch.x.type, [&](auto* type) { run<std::remove_pointer_t<decltype(type)>>(batch); });
}

}  // namespace sglang_example_oot
