// A vendor replaces this file: it is written for the instructions of a processor.
// Extend (prefill) attention over the paged KV cache: FlashAttention-2's loop (Dao 2023), tile by tile.
//
// A block holds a few new tokens of one request, for the query heads that share a kv head; row r is token r / group and
// head r % group. For each tile of cached tokens, gathered from their slots into a tile that stays in the cache:
//   S = scaling * Q K^T, masked;  m' = max(m, rowmax S);  P = exp(S - m');  a = exp(m - m');  l = a l + rowsum P;
//   O = a O + P V;  and at the end out = O / l.
#include <algorithm>

#include "dispatch.h"
#include "exponential.h"
#include "kernels.h"
#include "lanes.h"
#include "tiles.h"
#include "vec.h"

namespace sglang_example_oot {
namespace {

struct Block {
  int64_t request, kv_head;
  int64_t first, tokens;  // new tokens of the request
  int64_t row;            // of the first token in q and out
};

// scores[lower, upper) becomes what the softmax takes: multiplied and capped.
void cap_scores(float* scores, int64_t lower, int64_t upper, float scaling, float cap) {
  for (int64_t i = lower / W * W; i < upper; i += W) {
    const VecF s = load(scores + i) * scaling;
    store(scores + i, cap > 0 ? soft_cap(s, cap) : s);
  }
}

// One step of the online softmax for a row of a tile: p = 2^(factor * scores - m) in columns [lower, upper), zero
// elsewhere up to `width`. m, in the same unit, and l are the row's running maximum and denominator.
template <int Degree, typename Element>
void soften(
    float* scores, Element* p, int64_t width, int64_t lower, int64_t upper, float factor, float& m, float& l,
    float* out, int64_t out_size) {
  VecI lane;
  for (int i = 0; i < W; ++i) lane[i] = i;
  const int64_t first = lower / W * W, last = round_up(upper, W);
  VecF top = splat(-kInf);
  for (int64_t i = first; i < last; i += W) {
    VecF s = load(scores + i);
    if (i < lower || i + W > upper) {
      const VecI at = lane + static_cast<int32_t>(i);
      s = (at >= static_cast<int32_t>(lower)) & (at < static_cast<int32_t>(upper)) ? s : splat(-kInf);
      store(scores + i, s);
    }
    top = max(top, s);
  }
  const float old = m;
  m = std::max(old, max_lanes(top) * factor);
  VecF total = {};
  for (int64_t i = 0; i < first; i += W) store(p + i, VecF{});
  for (int64_t i = first; i < last; i += W) {
    const VecF e = exp2<Degree>(load(scores + i) * factor - m);
    store(p + i, e);
    total += e;
  }
  for (int64_t i = last; i < width; i += W) store(p + i, VecF{});
  const float shrink = old == m ? 1.0f : std::exp2(old - m);
  l = l * shrink + sum_lanes(total);
  if (shrink != 1.0f)
    for (int64_t e = 0; e < out_size; e += W) store(out + e, load(out + e) * shrink);
}

// The parts of one thread's scratch memory.
template <typename Tiles>
struct Workspace {
  using Element = typename Tiles::Element;
  Element *q, *keys, *values, *p;
  float *scores, *out, *m, *l;

  Workspace(int64_t rows, int64_t dim, int64_t v_dim) {
    size_t size = 0;
    const auto part = [&](int64_t n, size_t bytes) {
      const size_t at = size;
      size += round_up(n * static_cast<int64_t>(bytes), 64);
      return at;
    };
    const size_t q_at = part(rows * dim, sizeof(Element)), keys_at = part(dim * Tiles::kTokens, sizeof(Element));
    const size_t values_at = part(v_dim * Tiles::kTokens, sizeof(Element));
    const size_t p_at = part(rows * Tiles::kTokens, sizeof(Element));
    const size_t scores_at = part(rows * Tiles::kTokens, sizeof(float)), out_at = part(rows * v_dim, sizeof(float));
    const size_t m_at = part(rows, sizeof(float)), l_at = part(rows, sizeof(float));
    char* base = static_cast<char*>(scratch(size));
    q = reinterpret_cast<Element*>(base + q_at);
    keys = reinterpret_cast<Element*>(base + keys_at);
    values = reinterpret_cast<Element*>(base + values_at);
    p = reinterpret_cast<Element*>(base + p_at);
    scores = reinterpret_cast<float*>(base + scores_at);
    out = reinterpret_cast<float*>(base + out_at);
    m = reinterpret_cast<float*>(base + m_at);
    l = reinterpret_cast<float*>(base + l_at);
  }
};

template <typename Tiles>
void pack_queries(const PagedAttention& b, const Block& block, typename Tiles::Element* to) {
  const int64_t group = b.heads / b.kv_heads, dim = Tiles::padded_dim(b.dim);
  const auto pack = [&](auto* type) {
    using Query = std::remove_pointer_t<decltype(type)>;
    for (int64_t r = 0; r < block.tokens * group; ++r)
      Tiles::pack_query(
          b.q.at<const Query>(block.row + r / group, block.kv_head * group + r % group), to + r * dim, b.dim);
  };
  if constexpr (std::is_same_v<Tiles, MatrixUnitTiles>) {
    pack(static_cast<c10::BFloat16*>(nullptr));
  } else {
    with_type(b.q.type, pack);
  }
}

template <typename Tiles>
void run_block(const PagedAttention& b, const Block& block) {
  using Element = typename Tiles::Element;
  using Source = typename Tiles::Source;
  const int64_t group = b.heads / b.kv_heads, rows = block.tokens * group, all_rows = Tiles::padded_rows(rows);
  const int64_t dim = Tiles::padded_dim(b.dim), v_dim = Tiles::padded_dim(b.v_dim);
  Workspace<Tiles> w(all_rows, dim, v_dim);

  pack_queries<Tiles>(b, block, w.q);
  std::fill(w.q + rows * dim, w.q + all_rows * dim, Element(0.0f));
  std::fill(w.p, w.p + all_rows * Tiles::kTokens, Element(0.0f));
  std::fill(w.out, w.out + all_rows * v_dim, 0.0f);
  std::fill(w.m, w.m + rows, -kInf);
  std::fill(w.l, w.l + rows, 0.0f);

  const int64_t position = b.prefix_lens[block.request] + block.first, length = b.seq_lens[block.request];
  const int64_t end = b.causal ? std::min(position + block.tokens, length) : length;
  const int64_t begin = b.first_seen(position);
  const int32_t* slots = b.slot_of[block.request];
  const bool raw = b.logit_cap == 0 && b.scaling > 0;  // then the largest score is so before the scaling too
  for (int64_t t = begin; t < end; t += Tiles::kTokens) {
    const int64_t n = std::min(Tiles::kTokens, end - t);
    const Source *k_rows[Tiles::kTokens], *v_rows[Tiles::kTokens];
    for (int64_t i = 0; i < Tiles::kTokens; ++i) {
      const int64_t slot = slots[t + std::min(i, n - 1)];
      k_rows[i] = b.k.at<const Source>(slot, block.kv_head);
      v_rows[i] = b.v.at<const Source>(slot, block.kv_head);
    }
    Tiles::pack_keys(k_rows, n, b.dim, w.keys);
    Tiles::pack_values(v_rows, n, b.v_dim, w.values);
    Tiles::multiply_keys(rows, n, b.dim, w.q, w.keys, w.scores);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t own = position + r / group;
      const int64_t upper = b.causal ? std::min(n, own + 1 - t) : n;
      const int64_t lower = std::max<int64_t>(0, b.first_seen(own) - t);
      Element* p = w.p + r * Tiles::kTokens;
      if (lower >= upper) {
        std::fill(p, p + Tiles::kTokens, Element(0.0f));
        continue;
      }
      float* scores = w.scores + r * Tiles::kTokens;
      if (!raw) cap_scores(scores, lower, upper, b.scaling, b.logit_cap);
      const float factor = (raw ? b.scaling : 1.0f) * kLog2E;
      float* out = w.out + r * v_dim;
      soften<Tiles::kDegree>(scores, p, Tiles::kTokens, lower, upper, factor, w.m[r], w.l[r], out, v_dim);
    }
    Tiles::add_values(rows, n, b.v_dim, w.p, w.values, w.out);
  }

  with_type(b.out.type, [&](auto* type) {
    using Out = std::remove_pointer_t<decltype(type)>;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t head = block.kv_head * group + r % group;
      float total = w.l[r];
      if (!b.sinks.empty() && total > 0) total += std::exp2(b.sinks[head] * kLog2E - w.m[r]);
      const float factor = total > 0 ? 1.0f / total : 0.0f;
      Out* out = b.out.at<Out>(block.row + r / group, head);
      for_each_vector(b.v_dim, [&](int64_t e, int64_t n) { store(out + e, load(w.out + r * v_dim + e) * factor, n); });
    }
  });
}

// New tokens per block: as many as make kRows rows, fewer where some threads would get no block.
template <typename Tiles>
int64_t tokens_per_block(const PagedAttention& b) {
  const int64_t group = b.heads / b.kv_heads, enough = 2 * thread_count();
  int64_t step = std::max<int64_t>(1, Tiles::kRows / group);
  const auto blocks = [&] {
    int64_t count = 0;
    for (const int64_t n : b.new_lens) count += (n + step - 1) / step * b.kv_heads;
    return count;
  };
  while (step * group > 32 && step > 1 && blocks() < enough) step /= 2;
  return step;
}

template <typename Tiles>
void run(const PagedAttention& b) {
  const int64_t step = tokens_per_block<Tiles>(b);
  std::vector<Block> blocks;
  int64_t row = 0, work = 0;
  for (size_t r = 0; r < b.new_lens.size(); ++r) {
    // Later tokens see more of the cache: the long blocks go first.
    for (int64_t first = (b.new_lens[r] - 1) / step * step; first >= 0 && b.new_lens[r] > 0; first -= step)
      for (int64_t h = 0; h < b.kv_heads; ++h)
        blocks.push_back({static_cast<int64_t>(r), h, first, std::min(step, b.new_lens[r] - first), row + first});
    row += b.new_lens[r];
    work += b.new_lens[r] * b.heads * b.seq_lens[r];
  }
  parallel_dynamic(
      static_cast<int64_t>(blocks.size()), work * b.dim > 8 * kGrainElements,
      [&](int64_t i) { run_block<Tiles>(b, blocks[i]); }, [] { Tiles::release(); });
}

}  // namespace

void paged_extend(const PagedAttention& b) {
  using c10::ScalarType;
  if (b.k.type == ScalarType::BFloat16 && b.q.type == ScalarType::BFloat16 && MatrixUnitTiles::available())
    return run<MatrixUnitTiles>(b);
  with_cache_type(b.k.type, [&](auto* type) { run<FloatTiles<std::remove_pointer_t<decltype(type)>>>(b); });
}

}  // namespace sglang_example_oot
