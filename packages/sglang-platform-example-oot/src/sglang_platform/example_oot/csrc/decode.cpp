// A vendor replaces this file: it is written for the instructions of a processor.
// Decode attention over the paged KV cache, split over the tokens (Flash-Decoding, Dao et al. 2023).
//
// A request's tokens are cut into chunks of kChunk. For a chunk and a kv head, the query heads h of the group compute
//   s_t = scaling * q_h . k_t,   m = max s_t,   l = sum exp(s_t - m),   a = sum exp(s_t - m) v_t
// and the chunks of a head merge as  out_h = sum_c exp(m_c - M) a_c / sum_c exp(m_c - M) l_c,  M = max m_c.
// Chunks do not depend on the batch or on the thread count, so neither does a row's result.
//
// The work is bound by reading the cache. A token's kv heads lie next to each other, so a few tokens are taken at a time
// for all heads, while the next ones are fetched.
#include <algorithm>

#include "dispatch.h"
#include "exponential.h"
#include "kernels.h"
#include "lanes.h"
#include "vec.h"

namespace sglang_example_oot {
namespace {

constexpr int64_t kChunk = 128;
constexpr int64_t kBlock = 32;    // tokens that are taken at a time; a multiple of W
constexpr int64_t kMaxHeads = 8;  // query heads that share one pass over the rows

struct Chunk {
  int64_t request, begin, end;
  int64_t partial;  // index of the chunk's partial results; -1: the request has no other chunk
};

// Query heads [head, head + live) of one kv head, computed as `width` heads of which the last may be zeros, and where
// their numbers lie in the scratch memory, sizes padded to W: queries [width][dim], scores [kChunk + W][width], sums
// [width][v_dim], then m and l [width].
struct Group {
  int64_t kv_head, head, live, width;
  int64_t queries, scores, sums, m, l;
};

// One head's partial result: v_dim floats of `a` (padded to W), then m and l.
struct Partials {
  float* data;
  int64_t heads, padded_v;

  float* at(int64_t partial, int64_t head) const {
    return data + (partial * heads + head) * (padded_v + W);
  }
};

// Fetches rows into the cache, a few lines with each call.
struct Fetcher {
  const char* const* rows;
  int64_t count, bytes;  // of a row
  int64_t row = 0, byte = 0;

  void operator()(int64_t lines) {
    for (; lines > 0 && row < count; --lines) {
      __builtin_prefetch(rows[row] + byte, 0, 2);
      byte += 64;
      if (byte >= bytes) byte = 0, ++row;
    }
  }
};

template <typename F>
inline void with_width(int64_t width, const F& f) {
  if (width == 1) f(std::integral_constant<int, 1>{});
  else if (width == 2) f(std::integral_constant<int, 2>{});
  else if (width == 4) f(std::integral_constant<int, 4>{});
  else f(std::integral_constant<int, 8>{});
}

// scores[t * Q + j] = q_j . rows[t], the elements of a row from `offset` on, for t in [first, last). Whole vectors are
// written: what lies behind `last` means nothing.
template <int Q, typename T>
void score(
    const T* const* rows, int64_t offset, int64_t first, int64_t last, const float* q, int64_t dim, float* scores,
    Fetcher& fetch, int64_t lines_per_token) {
  constexpr int R = W / Q;
  const float* x[Q];
  for (int j = 0; j < Q; ++j) x[j] = q + j * round_up(dim, W);
  for (int64_t t = first; t < last; t += R) {
    const T* pointers[R];
    for (int64_t r = 0; r < R; ++r) pointers[r] = rows[std::min(t + r, last - 1)] + offset;
    fetch(R * lines_per_token);
    store(scores + t * Q, dot_products<Q>(pointers, x, dim));
  }
}

// The scores of n tokens become exp(s - m); m and l of each head are written.
template <int Q>
void softmax(float logit_cap, float* scores, int64_t n, float* m, float* l) {
  VecF top = splat(-kInf);
  for (int64_t i = 0; i < n * Q; i += W) {
    VecF s = load(scores + i);
    if (logit_cap > 0) s = soft_cap(s, logit_cap);
    if (i + W > n * Q) {
      for (int lane = 0; lane < W; ++lane)
        if (i + lane >= n * Q) s[lane] = -kInf;
    }
    store(scores + i, s);
    top = max(top, s);
  }
  // Lane i of a vector belongs to head i % Q.
  for (int j = 0; j < Q; ++j) {
    m[j] = top[j], l[j] = 0.0f;
    for (int lane = j + Q; lane < W; lane += Q) m[j] = top[lane] > m[j] ? top[lane] : m[j];
  }
  VecF shift, total = {};
  for (int lane = 0; lane < W; ++lane) shift[lane] = m[lane % Q];
  for (int64_t i = 0; i < n * Q; i += W) {
    const VecF p = exp(load(scores + i) - shift);
    store(scores + i, p);
    total += p;
  }
  for (int lane = 0; lane < W; ++lane) l[lane % Q] += total[lane];
}

// sums[j][0, v_dim) = or += the sum of p[t * Q + j] * rows[t], from `offset` on, over t in [first, last). C vectors of
// columns at a time.
template <int Q, typename T>
void add_values(
    const T* const* rows, int64_t offset, int64_t first, int64_t last, const float* p, int64_t v_dim, float* sums,
    Fetcher& fetch, int64_t lines_per_token) {
  const int64_t stride = round_up(v_dim, W);
  const auto columns = [&](auto width, int64_t e, int64_t count) {
    constexpr int C = decltype(width)::value;
    VecF sum[Q][C];
#pragma GCC unroll 16
    for (int j = 0; j < Q; ++j)
#pragma GCC unroll 16
      for (int c = 0; c < C; ++c) sum[j][c] = first == 0 ? VecF{} : load(sums + j * stride + e + c * W);
    for (int64_t t = first; t < last; ++t) {
      if (e == 0) fetch(lines_per_token);
      VecF v[C];
#pragma GCC unroll 16
      for (int c = 0; c < C; ++c) v[c] = C > 1 ? load(rows[t] + offset + e + c * W) : load(rows[t] + offset + e, count);
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
      for (int c = 0; c < C; ++c) store(sums + j * stride + e + c * W, sum[j][c]);
  };
  // As many columns as the registers hold sums of; fewer where the row ends.
  constexpr int C = Q == 1 ? 8 : W / Q;
  int64_t e = 0;
  for (; e + C * W <= v_dim; e += C * W) columns(std::integral_constant<int, C>{}, e, W);
  if constexpr (C > 4)
    for (; e + 4 * W <= v_dim; e += 4 * W) columns(std::integral_constant<int, 4>{}, e, W);
  for (; e < v_dim; e += W) columns(std::integral_constant<int, 1>{}, e, std::min<int64_t>(v_dim - e, W));
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

// The groups of all heads, kv head by kv head, and where each kv head's begin; `floats` is the scratch memory they need.
struct Groups {
  std::vector<Group> all;
  std::vector<int64_t> start;
  int64_t floats = 0;

  explicit Groups(const PagedAttention& b) {
    const int64_t size = b.heads / b.kv_heads;
    for (int64_t kv_head = 0; kv_head < b.kv_heads; ++kv_head) {
      start.push_back(static_cast<int64_t>(all.size()));
      for (int64_t done = 0; done < size; done += kMaxHeads) {
        const int64_t live = std::min(size - done, kMaxHeads), width = live <= 2 ? live : (live <= 4 ? 4 : 8);
        const auto next = [&](int64_t count) {
          floats += round_up(count, W);
          return floats - round_up(count, W);
        };
        all.push_back(
            {kv_head, kv_head * size + done, live, width, next(width * round_up(b.dim, W)), next((kChunk + W) * width),
             next(width * round_up(b.v_dim, W)), next(width), next(width)});
      }
    }
    start.push_back(static_cast<int64_t>(all.size()));
  }
};

// One chunk for the kv heads [kv_begin, kv_end).
template <typename T>
void run_chunk(
    const PagedAttention& b, const Chunk& chunk, const Groups& groups, int64_t kv_begin, int64_t kv_end,
    const Partials& partials) {
  const int64_t n = chunk.end - chunk.begin, padded_v = round_up(b.v_dim, W), step = padded_v + W;
  float* memory = static_cast<float*>(scratch((groups.floats + step) * sizeof(float)));
  float* own = memory + groups.floats;
  const Group* const begin = groups.all.data() + groups.start[kv_begin];
  const Group* const end = groups.all.data() + groups.start[kv_end];

  // The chunk's keys and behind them its values, each row from the first of these heads on.
  const T* rows[2 * kChunk];
  const int32_t* slots = b.slot_of[chunk.request] + chunk.begin;
  for (int64_t t = 0; t < n; ++t) {
    rows[t] = b.k.at<const T>(slots[t], kv_begin);
    rows[n + t] = b.v.at<const T>(slots[t], kv_begin);
  }
  const int64_t bytes = ((kv_end - kv_begin - 1) * b.k.inner + b.dim) * static_cast<int64_t>(sizeof(T));
  const int64_t lines = (bytes / 64 + 1 + (end - begin) - 1) / (end - begin);  // of a row, for each group to fetch
  Fetcher fetch{reinterpret_cast<const char* const*>(rows), 2 * n, bytes};
  fetch(std::min(n, kBlock) * (bytes / 64 + 1));

  for (const Group* g = begin; g < end; ++g)
    pack_queries(b, chunk.request, g->head, g->live, g->width, memory + g->queries);
  const auto for_blocks = [&](const auto& f) {
    for (int64_t first = 0; first < n; first += kBlock)
      for (const Group* g = begin; g < end; ++g)
        with_width(g->width, [&](auto width) { f(width, *g, first, std::min(first + kBlock, n)); });
  };
  for_blocks([&](auto width, const Group& g, int64_t first, int64_t last) {
    score<decltype(width)::value>(
        rows, (g.kv_head - kv_begin) * b.k.inner, first, last, memory + g.queries, b.dim, memory + g.scores, fetch,
        lines);
  });
  for (const Group* g = begin; g < end; ++g)
    with_width(g->width, [&](auto width) {
      softmax<decltype(width)::value>(b.logit_cap, memory + g->scores, n, memory + g->m, memory + g->l);
    });
  for_blocks([&](auto width, const Group& g, int64_t first, int64_t last) {
    add_values<decltype(width)::value>(
        rows + n, (g.kv_head - kv_begin) * b.v.inner, first, last, memory + g.scores, b.v_dim, memory + g.sums, fetch,
        lines);
  });

  for (const Group* g = begin; g < end; ++g)
    for (int64_t j = 0; j < g->live; ++j) {
      float* result = chunk.partial < 0 ? own : partials.at(chunk.partial, g->head + j);
      std::copy_n(memory + g->sums + j * padded_v, padded_v, result);
      result[padded_v] = memory[g->m + j], result[padded_v + 1] = memory[g->l + j];
      if (chunk.partial < 0) merge(b, chunk.request, g->head + j, own, 1, step);
    }
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
  const Partials partials{shared_scratch(partial_count * b.heads * step), b.heads, padded_v};

  // Few chunks are divided by kv heads, so that every thread has some.
  const Groups groups(b);
  const int64_t chunk_count = static_cast<int64_t>(chunks.size());
  const int64_t parts = std::min(b.kv_heads, (4 * thread_count() + chunk_count - 1) / chunk_count);
  const int64_t items = chunk_count * parts;
  const int64_t cost = tokens * b.kv_heads * (b.dim + b.v_dim) / items;
  with_cache_type(b.k.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel_for(0, items, grain(cost), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i % parts;
        run_chunk<T>(
            b, chunks[i / parts], groups, part * b.kv_heads / parts, (part + 1) * b.kv_heads / parts, partials);
      }
    });
  });
  const int64_t rows = static_cast<int64_t>(split.size()) * b.heads;
  if (rows == 0) return;
  parallel_for(0, rows, grain(partial_count * b.heads * step / rows), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [request, first] = split[i / b.heads];
      const size_t next = i / b.heads + 1;
      const int64_t last = next < split.size() ? split[next].second : partial_count;
      merge(b, request, i % b.heads, partials.at(first, i % b.heads), last - first, b.heads * step);
    }
  });
}

}  // namespace sglang_example_oot
