// A vendor replaces this file: it is written for the instructions of a processor.
// Decode attention over the paged KV cache, split over the tokens (Flash-Decoding, Dao et al. 2023).
//
// A request's tokens are cut into chunks of kChunk. For a chunk and a kv head, the query heads h of the group compute
//   s_t = scaling * q_h . k_t,   m = max s_t,   l = sum exp(s_t - m),   a = sum exp(s_t - m) v_t
// and the chunks of a head merge as  out_h = sum_c exp(m_c - M) a_c / sum_c exp(m_c - M) l_c,  M = max m_c.
// Chunks do not depend on the batch or on the thread count, so neither does a row's result.
#include <algorithm>

#include "dispatch.h"
#include "exponential.h"
#include "kernels.h"
#include "lanes.h"
#include "vec.h"

namespace sglang_example_oot {
namespace {

constexpr int64_t kChunk = 128;
constexpr int64_t kValueTokens = 32;
constexpr int64_t kMaxHeads = 8;  // query heads that share one pass over the rows
constexpr int64_t kPrefetchTokens = 8;

struct Chunk {
  int64_t request, begin, end;
  int64_t partial;  // index of the chunk's partial results; -1: the request has no other chunk
};

// One head's partial result: v_dim floats of `a` (padded to W), then m and l.
struct Partials {
  float* data;
  int64_t heads, padded_v;

  float* at(int64_t partial, int64_t head) const {
    return data + (partial * heads + head) * (padded_v + W);
  }
};

template <typename T>
inline void prefetch_row(const T* row, int64_t n) {
  const char* p = reinterpret_cast<const char*>(row);
  for (int64_t i = 0; i < n * static_cast<int64_t>(sizeof(T)); i += 64) __builtin_prefetch(p + i);
}

// acc[j][0, v_dim) = sum_t p[t * Q + j] * rows[t], C vectors of columns at a time over a few tokens that stay in L1.
template <int Q, typename T>
void weighted_sum(const T* const* rows, const float* p, int64_t n, int64_t v_dim, float* acc, int64_t stride) {
  constexpr int C = Q == 1 ? 8 : W / Q;
  const int64_t wide = v_dim / (C * W) * (C * W);
  for (int64_t first = 0; first < n; first += kValueTokens) {
    const int64_t last = std::min(first + kValueTokens, n);
    for (int64_t e = 0; e < wide; e += C * W) {
      VecF sum[Q][C];
#pragma GCC unroll 16
      for (int j = 0; j < Q; ++j)
#pragma GCC unroll 16
        for (int c = 0; c < C; ++c) sum[j][c] = first == 0 ? VecF{} : load(acc + j * stride + e + c * W);
      for (int64_t t = first; t < last; ++t) {
        if (e == 0 && t + kPrefetchTokens < n) prefetch_row(rows[t + kPrefetchTokens], v_dim);
        VecF v[C];
#pragma GCC unroll 16
        for (int c = 0; c < C; ++c) v[c] = load(rows[t] + e + c * W);
#pragma GCC unroll 16
        for (int j = 0; j < Q; ++j) {
          const VecF weight = splat(p[t * Q + j]);
#pragma GCC unroll 16
          for (int c = 0; c < C; ++c) sum[j][c] += weight * v[c];
        }
      }
#pragma GCC unroll 16
      for (int j = 0; j < Q; ++j)
#pragma GCC unroll 16
        for (int c = 0; c < C; ++c) store(acc + j * stride + e + c * W, sum[j][c]);
    }
  }
  for (int64_t e = wide; e < v_dim; e += W) {
    const int64_t count = std::min<int64_t>(v_dim - e, W);
    VecF sum[Q] = {};
    for (int64_t t = 0; t < n; ++t) {
      const VecF v = load(rows[t] + e, count);
#pragma GCC unroll 16
      for (int j = 0; j < Q; ++j) sum[j] += p[t * Q + j] * v;
    }
    for (int j = 0; j < Q; ++j) store(acc + j * stride + e, sum[j]);
  }
}

// One chunk for Q query heads of one kv head. `q` holds Q padded rows; `scores` has room for (kChunk + W) * Q floats.
// Writes `a`, m and l of the first `live` heads to `result`, `stride` floats apart.
template <int Q, typename T>
void attend(
    const PagedAttention& b, const T** k_rows, const T* const* v_rows, int64_t n, const float* q, float* scores,
    float* result, int64_t stride, int64_t padded_v, int live) {
  constexpr int R = W / Q;
  const int64_t padded = round_up(n, R);
  for (int64_t t = n; t < padded; ++t) k_rows[t] = k_rows[n - 1];
  const float* x[Q];
  for (int j = 0; j < Q; ++j) x[j] = q + j * round_up(b.dim, W);

  for (int64_t t = 0; t < padded; t += R) {
    for (int64_t ahead = t + kPrefetchTokens; ahead < t + kPrefetchTokens + R && ahead < n; ++ahead)
      prefetch_row(k_rows[ahead], b.dim);
    store(scores + t * Q, dot_products<Q>(k_rows + t, x, b.dim));
  }
  VecF top = splat(-kInf);
  for (int64_t i = 0; i < padded * Q; i += W) {
    VecF s = load(scores + i);
    if (b.logit_cap > 0) s = soft_cap(s, b.logit_cap);
    if (i + W > n * Q) {
      for (int lane = 0; lane < W; ++lane)
        if (i + lane >= n * Q) s[lane] = -kInf;
    }
    store(scores + i, s);
    top = max(top, s);
  }
  // Lane i of a vector belongs to head i % Q.
  float m[Q], l[Q] = {};
  for (int j = 0; j < Q; ++j) {
    m[j] = top[j];
    for (int lane = j + Q; lane < W; lane += Q) m[j] = top[lane] > m[j] ? top[lane] : m[j];
  }
  VecF shift, total = {};
  for (int lane = 0; lane < W; ++lane) shift[lane] = m[lane % Q];
  for (int64_t i = 0; i < padded * Q; i += W) {
    const VecF p = exp(load(scores + i) - shift);
    store(scores + i, p);
    total += p;
  }
  for (int lane = 0; lane < W; ++lane) l[lane % Q] += total[lane];

  if (live == Q) {
    weighted_sum<Q>(v_rows, scores, n, b.v_dim, result, stride);
  } else {
    float* all = scores + (kChunk + W) * Q;
    weighted_sum<Q>(v_rows, scores, n, b.v_dim, all, padded_v);
    for (int j = 0; j < live; ++j) __builtin_memcpy(result + j * stride, all + j * padded_v, padded_v * sizeof(float));
  }
  for (int j = 0; j < live; ++j) {
    result[j * stride + padded_v] = m[j];
    result[j * stride + padded_v + 1] = l[j];
  }
}

// out row = merge of `count` partials, `step` floats apart. Overwrites each m by its factor exp(m - M).
void merge(const PagedAttention& b, int64_t request, int64_t head, float* first, int64_t count, int64_t step) {
  const int64_t padded_v = round_up(b.v_dim, W);
  float top = b.sinks.empty() ? -kInf : b.sinks[head];
  for (int64_t c = 0; c < count; ++c) top = std::fmax(top, first[c * step + padded_v]);
  float total = b.sinks.empty() ? 0.0f : std::exp(b.sinks[head] - top);
  for (int64_t c = 0; c < count; ++c) {
    float* m = first + c * step + padded_v;
    m[0] = std::exp(m[0] - top);
    total += m[0] * m[1];
  }
  with_type(b.out.type, [&](auto* type) {
    auto* out = b.out.at<std::remove_pointer_t<decltype(type)>>(request, head);
    for_each_vector(b.v_dim, [&](int64_t e, int64_t n) {
      VecF sum = {};
      for (int64_t c = 0; c < count; ++c) sum += first[c * step + padded_v] * load(first + c * step + e);
      store(out + e, sum / total, n);
    });
  });
}

// The query heads [head, head + live), scaled and padded, then zero rows up to `width`.
void pack_queries(const PagedAttention& b, int64_t request, int64_t head, int64_t live, int64_t width, float* q) {
  const int64_t padded = round_up(b.dim, W);
  with_type(b.q.type, [&](auto* type) {
    using Query = std::remove_pointer_t<decltype(type)>;
    for (int64_t j = 0; j < live; ++j)
      widen_row(b.q.at<const Query>(request, head + j), q + j * padded, b.dim, padded, b.scaling);
  });
  std::fill(q + live * padded, q + width * padded, 0.0f);
}

template <typename T>
void run_chunk(const PagedAttention& b, const Chunk& chunk, int64_t kv_head, const Partials& partials) {
  const int64_t group = b.heads / b.kv_heads, n = chunk.end - chunk.begin;
  const int64_t padded_v = round_up(b.v_dim, W), step = padded_v + W;
  const int64_t score_floats = (kChunk + W) * kMaxHeads + kMaxHeads * padded_v;
  float* scores = static_cast<float*>(
      scratch((score_floats + group * step + kMaxHeads * round_up(b.dim, W)) * sizeof(float)));
  float* own = scores + score_floats;
  float* q = own + group * step;

  const T *k_rows[kChunk + W], *v_rows[kChunk];
  const int32_t* slots = b.slot_of[chunk.request] + chunk.begin;
  for (int64_t t = 0; t < n; ++t) {
    k_rows[t] = b.k.at<const T>(slots[t], kv_head);
    v_rows[t] = b.v.at<const T>(slots[t], kv_head);
  }
  for (int64_t done = 0; done < group;) {
    const int64_t head = kv_head * group + done, live = std::min<int64_t>(group - done, kMaxHeads);
    const int64_t width = live <= 2 ? live : (live <= 4 ? 4 : 8);
    pack_queries(b, chunk.request, head, live, width, q);
    float* result = chunk.partial < 0 ? own + done * step : partials.at(chunk.partial, head);
    const auto run = [&](auto q_heads) {
      attend<decltype(q_heads)::value>(b, k_rows, v_rows, n, q, scores, result, step, padded_v, static_cast<int>(live));
    };
    if (width == 1) run(std::integral_constant<int, 1>{});
    else if (width == 2) run(std::integral_constant<int, 2>{});
    else if (width == 4) run(std::integral_constant<int, 4>{});
    else run(std::integral_constant<int, 8>{});
    done += live;
  }
  if (chunk.partial < 0)
    for (int64_t j = 0; j < group; ++j) merge(b, chunk.request, kv_head * group + j, own + j * step, 1, step);
}

}  // namespace

void paged_decode(const PagedAttention& b) {
  const int64_t requests = static_cast<int64_t>(b.seq_lens.size());
  std::vector<Chunk> chunks;
  std::vector<std::pair<int64_t, int64_t>> split;  // request, its first partial
  int64_t partial_count = 0, tokens = 0;
  for (int64_t r = 0; r < requests; ++r) {
    const int64_t length = b.seq_lens[r];
    if (length <= 0) {
      with_type(b.out.type, [&](auto* type) {
        using Out = std::remove_pointer_t<decltype(type)>;
        for (int64_t h = 0; h < b.heads; ++h) std::fill_n(b.out.at<Out>(r, h), b.v_dim, Out(0.0f));
      });
      continue;
    }
    const int64_t begin = b.first_seen(length - 1);
    const bool single = length - begin <= kChunk;
    if (!single) split.emplace_back(r, partial_count);
    for (int64_t t = begin; t < length; t += kChunk)
      chunks.push_back({r, t, std::min(t + kChunk, length), single ? -1 : partial_count++});
    tokens += length - begin;
  }
  if (chunks.empty()) return;

  const int64_t padded_v = round_up(b.v_dim, W), step = padded_v + W;
  std::unique_ptr<float[]> memory(partial_count > 0 ? new float[partial_count * b.heads * step] : nullptr);
  const Partials partials{memory.get(), b.heads, padded_v};

  const int64_t items = static_cast<int64_t>(chunks.size()) * b.kv_heads;
  const int64_t cost = tokens * b.kv_heads * (b.dim + b.v_dim) / items;
  with_cache_type(b.k.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    at::parallel_for(0, items, grain(cost), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_chunk<T>(b, chunks[i / b.kv_heads], i % b.kv_heads, partials);
    });
  });
  const int64_t rows = static_cast<int64_t>(split.size()) * b.heads;
  if (rows == 0) return;
  at::parallel_for(0, rows, grain(partial_count * b.heads * step / rows), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [request, first] = split[i / b.heads];
      const size_t next = i / b.heads + 1;
      const int64_t last = next < split.size() ? split[next].second : partial_count;
      merge(b, request, i % b.heads, partials.at(first, i % b.heads), last - first, b.heads * step);
    }
  });
}

}  // namespace sglang_example_oot
