// A vendor keeps the checks, and hands the pointers to its own kernels.
// The operators' CPU implementations: checks what a wrong call could break, then calls the kernels with raw pointers.
// The schemas are defined in Python (kernels/library.py), the same for these and for the plain torch ones.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "kernels.h"

namespace sglang_example_oot {

void moe_experts(
    const at::Tensor& x, const at::Tensor& w13, const at::Tensor& w2, const at::Tensor& topk_weights,
    const at::Tensor& topk_ids, at::Tensor& out, bool apply_weight_on_input);

namespace {

Rows rows(const at::Tensor& t, const char* name) {
  TORCH_CHECK(t.dim() >= 1 && t.dim() <= 3, name, " must have 1 to 3 dimensions, got ", t.dim());
  TORCH_CHECK(
      t.numel() == 0 || t.size(-1) == 1 || t.stride(-1) == 1, name, " must be contiguous in its last dimension");
  // 1-D: one row; 2-D [outer, n]; 3-D [outer, inner, n].
  return {t.data_ptr(), t.dim() > 1 ? t.stride(0) : 0, t.dim() > 2 ? t.stride(1) : 0, t.scalar_type()};
}

// The values of an int32 or int64 vector of `n`.
std::vector<int64_t> integers(const at::Tensor& t, int64_t n, const char* name) {
  TORCH_CHECK(t.dim() == 1 && t.size(0) == n, name, " must have shape [", n, "], got ", t.sizes());
  std::vector<int64_t> values(n);
  if (t.scalar_type() == at::kLong) {
    for (int64_t i = 0; i < n; ++i) values[i] = t.const_data_ptr<int64_t>()[i * t.stride(0)];
  } else {
    TORCH_CHECK(t.scalar_type() == at::kInt, name, " must be int32 or int64, got ", t.scalar_type());
    for (int64_t i = 0; i < n; ++i) values[i] = t.const_data_ptr<int32_t>()[i * t.stride(0)];
  }
  return values;
}

void check_range(const std::vector<int64_t>& values, int64_t end, const char* name) {
  for (const int64_t value : values)
    TORCH_CHECK_INDEX(value >= 0 && value < end, name, " holds ", value, ", outside [0, ", end, ")");
}

PagedAttention paged(
    const at::Tensor& q, const at::Tensor& k_buffer, const at::Tensor& v_buffer, const at::Tensor& req_to_token,
    const at::Tensor& req_pool_indices, const at::Tensor& seq_lens, const at::Tensor& out, double scaling,
    double logit_cap, int64_t window, const std::optional<at::Tensor>& sinks) {
  TORCH_CHECK(
      q.dim() == 3 && k_buffer.dim() == 3 && v_buffer.dim() == 3 && out.dim() == 3,
      "q, k_buffer, v_buffer and out must be [rows, heads, size], got ", q.sizes(), ", ", k_buffer.sizes(), ", ",
      v_buffer.sizes(), ", ", out.sizes());
  PagedAttention b;
  b.q = rows(q, "q"), b.k = rows(k_buffer, "k_buffer"), b.v = rows(v_buffer, "v_buffer"), b.out = rows(out, "out");
  b.heads = q.size(1), b.kv_heads = k_buffer.size(1), b.dim = q.size(2), b.v_dim = v_buffer.size(2);
  b.slots = k_buffer.size(0);
  TORCH_CHECK(
      b.kv_heads > 0 && b.heads % b.kv_heads == 0 && v_buffer.size(1) == b.kv_heads && v_buffer.size(0) == b.slots &&
          k_buffer.size(2) == b.dim && out.size(0) == q.size(0) && out.size(1) == b.heads && out.size(2) == b.v_dim,
      "shapes do not fit: q ", q.sizes(), ", k_buffer ", k_buffer.sizes(), ", v_buffer ", v_buffer.sizes(), ", out ",
      out.sizes());
  TORCH_CHECK(b.k.type == b.v.type, "k_buffer is ", b.k.type, " and v_buffer ", b.v.type);
  TORCH_CHECK(
      req_to_token.dim() == 2 && req_to_token.scalar_type() == at::kInt &&
          (req_to_token.size(1) <= 1 || req_to_token.stride(1) == 1),
      "req_to_token must be int32 [requests, positions], contiguous in its last dimension");
  const int64_t requests = req_pool_indices.size(0);
  const std::vector<int64_t> table_rows = integers(req_pool_indices, requests, "req_pool_indices");
  b.seq_lens = integers(seq_lens, requests, "seq_lens");
  check_range(table_rows, req_to_token.size(0), "req_pool_indices");
  b.slot_of.resize(requests);
  for (int64_t r = 0; r < requests; ++r) {
    TORCH_CHECK_INDEX(
        b.seq_lens[r] >= 0 && b.seq_lens[r] <= req_to_token.size(1), "seq_lens holds ", b.seq_lens[r], ", but req_to_token has ",
        req_to_token.size(1), " positions");
    b.slot_of[r] = req_to_token.const_data_ptr<int32_t>() + table_rows[r] * req_to_token.stride(0);
  }
  b.scaling = static_cast<float>(scaling);
  b.logit_cap = static_cast<float>(logit_cap);
  b.window = window;
  if (sinks) {
    TORCH_CHECK(sinks->dim() == 1 && sinks->size(0) == b.heads, "sinks must have shape [", b.heads, "]");
    const at::Tensor values = sinks->to(at::kFloat).contiguous();
    b.sinks.assign(values.const_data_ptr<float>(), values.const_data_ptr<float>() + b.heads);
  }
  return b;
}

constexpr int64_t kSlots = int64_t{1} << 31;  // what an entry of req_to_token can name

// Checks the slots that request r reads, from position `begin` on; entries outside may be stale. With a map, the slots
// are translated by it.
void take_slots(PagedAttention& b, int64_t r, int64_t begin, const std::optional<at::Tensor>& slot_map) {
  const int64_t end = b.seq_lens[r];
  const auto check = [&](int64_t slots, const char* name) {
    uint32_t top = 0;  // unsigned: a negative slot is a large one
    for (int64_t t = begin; t < end; ++t) top = std::max(top, static_cast<uint32_t>(b.slot_of[r][t]));
    TORCH_CHECK_INDEX(
        begin >= end || top < std::min(slots, kSlots), name, " names slot ", static_cast<int32_t>(top), ", outside [0, ",
        slots, ")");
  };
  if (slot_map) {
    TORCH_CHECK(
        slot_map->dim() == 1 && slot_map->is_contiguous() &&
            (slot_map->scalar_type() == at::kLong || slot_map->scalar_type() == at::kInt),
        "slot_map must be one contiguous dimension of int64 or int32");
    check(slot_map->size(0), "req_to_token");
    b.mapped.resize(b.slot_of.size());
    std::vector<int32_t>& mapped = b.mapped[r];
    mapped.resize(std::max<int64_t>(end, 0));
    const auto translate = [&](const auto* map) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t slot = map[b.slot_of[r][t]];
        TORCH_CHECK_INDEX(
            slot >= 0 && slot < std::min(b.slots, kSlots), "slot_map names slot ", slot, ", outside [0, ",
            std::min(b.slots, kSlots), ")");
        mapped[t] = static_cast<int32_t>(slot);
      }
    };
    if (slot_map->scalar_type() == at::kLong) translate(slot_map->const_data_ptr<int64_t>());
    else translate(slot_map->const_data_ptr<int32_t>());
    b.slot_of[r] = mapped.data();
  } else {
    check(b.slots, "req_to_token");
  }
}

void paged_decode_op(
    const at::Tensor& q, const at::Tensor& k_buffer, const at::Tensor& v_buffer, const at::Tensor& req_to_token,
    const at::Tensor& req_pool_indices, const at::Tensor& seq_lens, at::Tensor& out, double scaling, double logit_cap,
    int64_t window, const std::optional<at::Tensor>& sinks, const std::optional<at::Tensor>& slot_map) {
  PagedAttention batch = paged(
      q, k_buffer, v_buffer, req_to_token, req_pool_indices, seq_lens, out, scaling, logit_cap, window, sinks);
  const int64_t requests = seq_lens.size(0);
  TORCH_CHECK(q.size(0) == requests, "decode takes one query per request, got ", q.size(0), " for ", requests);
  for (int64_t r = 0; r < requests; ++r) take_slots(batch, r, batch.first_seen(batch.seq_lens[r] - 1), slot_map);
  if (batch.heads > 0) paged_decode(batch);
}

void paged_extend_op(
    const at::Tensor& q, const at::Tensor& k_buffer, const at::Tensor& v_buffer, const at::Tensor& req_to_token,
    const at::Tensor& req_pool_indices, const at::Tensor& seq_lens, const at::Tensor& extend_prefix_lens,
    const at::Tensor& extend_seq_lens, at::Tensor& out, double scaling, double logit_cap, int64_t window, bool causal,
    const std::optional<at::Tensor>& sinks, const std::optional<at::Tensor>& slot_map) {
  PagedAttention batch = paged(
      q, k_buffer, v_buffer, req_to_token, req_pool_indices, seq_lens, out, scaling, logit_cap, window, sinks);
  const int64_t requests = seq_lens.size(0);
  batch.prefix_lens = integers(extend_prefix_lens, requests, "extend_prefix_lens");
  batch.new_lens = integers(extend_seq_lens, requests, "extend_seq_lens");
  batch.causal = causal;
  int64_t tokens = 0;
  for (int64_t r = 0; r < requests; ++r) {
    TORCH_CHECK(
        batch.prefix_lens[r] >= 0 && batch.new_lens[r] >= 0 && batch.new_lens[r] <= batch.seq_lens[r] &&
            batch.prefix_lens[r] <= batch.seq_lens[r] - batch.new_lens[r],
        "request ", r, ": extend_prefix_lens ", batch.prefix_lens[r], " + extend_seq_lens ", batch.new_lens[r],
        " exceeds seq_lens ", batch.seq_lens[r]);
    tokens += batch.new_lens[r];
    take_slots(batch, r, batch.first_seen(batch.prefix_lens[r]), slot_map);
  }
  TORCH_CHECK(tokens <= q.size(0), "q has ", q.size(0), " rows for ", tokens, " new tokens");
  if (batch.heads > 0) paged_extend(batch);
}

void store_kv_op(
    const at::Tensor& k, const at::Tensor& v, at::Tensor& k_buffer, at::Tensor& v_buffer, const at::Tensor& loc) {
  TORCH_CHECK(
      k.dim() == 3 && v.dim() == 3 && k_buffer.dim() == 3 && v_buffer.dim() == 3, "k, v and the buffers must be 3-D");
  TORCH_CHECK(
      k.sizes().slice(1) == k_buffer.sizes().slice(1) && v.sizes().slice(1) == v_buffer.sizes().slice(1) &&
          k.size(0) == v.size(0) && k.size(1) == v.size(1) && k_buffer.size(0) == v_buffer.size(0),
      "shapes do not fit: k ", k.sizes(), ", v ", v.sizes(), ", buffers ", k_buffer.sizes(), " and ", v_buffer.sizes());
  TORCH_CHECK(
      k.scalar_type() == k_buffer.scalar_type() && v.scalar_type() == v_buffer.scalar_type(), "k and v (",
      k.scalar_type(), ", ", v.scalar_type(), ") must have the buffers' type (", k_buffer.scalar_type(), ", ",
      v_buffer.scalar_type(), ")");
  const std::vector<int64_t> slots = integers(loc, k.size(0), "loc");
  check_range(slots, k_buffer.size(0), "loc");
  store_kv(
      rows(k, "k"), rows(v, "v"), rows(k_buffer, "k_buffer"), rows(v_buffer, "v_buffer"), slots.data(), k.size(0),
      k.size(1), k.size(2), v.size(2));
}

void check_weight(const std::optional<at::Tensor>& weight, const at::Tensor& x) {
  if (!weight) return;
  TORCH_CHECK(
      weight->dim() == 1 && weight->size(0) == x.size(-1) && weight->is_contiguous() &&
          (weight->scalar_type() == x.scalar_type() || weight->scalar_type() == at::kFloat),
      "weight must be [", x.size(-1), "] of x's type (", x.scalar_type(), ") or float32, got ", weight->scalar_type(),
      " ", weight->sizes());
}

const void* values_of(const std::optional<at::Tensor>& weight) {
  return weight ? weight->const_data_ptr() : nullptr;
}

c10::ScalarType type_of(const std::optional<at::Tensor>& weight) {
  return weight ? weight->scalar_type() : at::kFloat;
}

void rms_norm_op(
    const at::Tensor& x, const std::optional<at::Tensor>& weight, double eps, at::Tensor& out, double shift) {
  TORCH_CHECK(out.sizes() == x.sizes() && out.scalar_type() == x.scalar_type(), "out must be like x");
  check_weight(weight, x);
  const int64_t outer = x.dim() > 1 ? x.size(0) : 1, inner = x.dim() > 2 ? x.size(1) : 1;
  rms_norm(
      rows(x, "x"), rows(out, "out"), outer, inner, x.size(-1), values_of(weight), type_of(weight),
      static_cast<float>(eps), static_cast<float>(shift));
}

void fused_add_rms_norm_op(at::Tensor& x, at::Tensor& residual, const at::Tensor& weight, double eps, double shift) {
  TORCH_CHECK(x.dim() == 2, "x must be [tokens, size], got ", x.sizes());
  TORCH_CHECK(residual.sizes() == x.sizes() && residual.scalar_type() == x.scalar_type(), "residual must be like x");
  check_weight(weight, x);
  fused_add_rms_norm(
      rows(x, "x"), rows(residual, "residual"), x.size(0), x.size(1), weight.const_data_ptr(), weight.scalar_type(),
      static_cast<float>(eps), static_cast<float>(shift));
}

void layer_norm_op(
    const at::Tensor& x, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias, double eps,
    at::Tensor& out) {
  TORCH_CHECK(x.dim() == 2, "x must be [tokens, size], got ", x.sizes());
  TORCH_CHECK(out.sizes() == x.sizes() && out.scalar_type() == x.scalar_type(), "out must be like x");
  check_weight(weight, x);
  check_weight(bias, x);
  TORCH_CHECK(!weight || !bias || type_of(weight) == type_of(bias), "weight and bias must have one type");
  layer_norm(
      rows(x, "x"), rows(out, "out"), x.size(0), x.size(1), values_of(weight), values_of(bias),
      type_of(weight ? weight : bias), static_cast<float>(eps));
}

void activate_rows(const at::Tensor& x, const at::Tensor& out, Activation activation, bool gated) {
  TORCH_CHECK(
      x.dim() == 2 && out.dim() == 2 && x.size(0) == out.size(0) && x.size(1) == (gated ? 2 : 1) * out.size(1) &&
          x.scalar_type() == out.scalar_type(),
      "x must be [tokens, ", gated ? "2 * " : "", "size] and out [tokens, size] of one type, got ", x.sizes(), " and ",
      out.sizes());
  activate(rows(x, "x"), rows(out, "out"), x.size(0), out.size(1), activation, gated);
}

void silu_and_mul_op(const at::Tensor& x, at::Tensor& out) {
  activate_rows(x, out, Activation::silu, true);
}

void gelu_and_mul_op(const at::Tensor& x, at::Tensor& out, bool tanh) {
  activate_rows(x, out, tanh ? Activation::gelu_tanh : Activation::gelu_erf, true);
}

void activation_op(const at::Tensor& x, at::Tensor& out, c10::string_view name) {
  const auto chosen = name == "gelu_tanh" ? Activation::gelu_tanh
      : name == "quick_gelu"              ? Activation::quick_gelu
                                          : Activation::relu2;
  TORCH_CHECK(chosen != Activation::relu2 || name == "relu2", "no activation is called ", name);
  activate_rows(x, out, chosen, false);
}

void linear_op(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias, at::Tensor& out) {
  TORCH_CHECK(
      x.dim() == 2 && weight.dim() == 2 && out.dim() == 2 && weight.size(1) == x.size(1) && out.size(0) == x.size(0) &&
          out.size(1) == weight.size(0) && (!bias || (bias->dim() == 1 && bias->size(0) == weight.size(0))),
      "shapes do not fit: x ", x.sizes(), ", weight ", weight.sizes(), ", out ", out.sizes());
  TORCH_CHECK(
      x.scalar_type() == weight.scalar_type() && x.scalar_type() == out.scalar_type() &&
          (!bias || bias->scalar_type() == x.scalar_type()),
      "x, weight, bias and out must have one type");
  linear(
      {rows(x, "x"), rows(weight, "weight"), bias ? rows(*bias, "bias").data : nullptr, rows(out, "out"), x.size(0),
       weight.size(0), x.size(1)});
}

void short_conv_op(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& starts, const at::Tensor& slots, const std::optional<at::Tensor>& resumes,
    at::Tensor& states, at::Tensor& out, bool silu) {
  const int64_t requests = slots.size(0);
  TORCH_CHECK(
      x.dim() == 2 && out.sizes() == x.sizes() && weight.dim() == 2 && weight.size(0) == x.size(1) &&
          weight.size(1) > 0 &&
          states.dim() == 3 && states.size(1) == x.size(1) && states.size(2) >= weight.size(1) - 1 &&
          (!bias || (bias->dim() == 1 && bias->size(0) == x.size(1))),
      "shapes do not fit: x ", x.sizes(), ", weight ", weight.sizes(), ", states ", states.sizes(), ", out ",
      out.sizes());
  const auto type = x.scalar_type();
  TORCH_CHECK(
      weight.scalar_type() == type && out.scalar_type() == type && (!bias || bias->scalar_type() == type),
      "x, weight, bias and out must have one type");
  ShortConv b{
      rows(x, "x"), rows(weight, "weight"), bias ? rows(*bias, "bias").data : nullptr, rows(states, "states"),
      rows(out, "out"), x.size(1), weight.size(1), states.size(2), {},
      integers(slots, requests, "slots"), std::vector<bool>(requests, true), silu};
  if (starts) b.starts = integers(*starts, requests + 1, "starts");
  else
    for (int64_t r = 0; r <= requests; ++r) b.starts.push_back(r);
  for (int64_t r = 0; r < requests; ++r) {
    TORCH_CHECK(
        b.starts[r] >= 0 && b.starts[r] <= b.starts[r + 1] && b.starts[r + 1] <= x.size(0),
        "starts must rise from 0 to ", x.size(0), " or less");
    TORCH_CHECK_INDEX(b.slots[r] < states.size(0), "slots holds ", b.slots[r], ", but there are ", states.size(0));
  }
  if (resumes) {
    TORCH_CHECK(
        resumes->dim() == 1 && resumes->size(0) == requests && resumes->scalar_type() == at::kBool,
        "resumes must be bool [", requests, "]");
    for (int64_t r = 0; r < requests; ++r) b.resumes[r] = resumes->const_data_ptr<bool>()[r * resumes->stride(0)];
  }
  short_conv(b);
}

void rotate_heads(const Rotary& rotary, const at::Tensor& x, int64_t head_size, const char* name) {
  TORCH_CHECK(
      x.size(0) == rotary.tokens &&
          (x.dim() == 3 ? x.size(2) == head_size : x.dim() == 2 && x.size(1) % head_size == 0),
      name, " must be [", rotary.tokens, ", heads * ", head_size, "] or [", rotary.tokens, ", heads, ", head_size,
      "], got ", x.sizes());
  Rows view = rows(x, name);
  if (x.dim() == 2) view.inner = head_size;
  rotate(rotary, view, x.dim() == 3 ? x.size(1) : x.size(1) / head_size);
}

void rotary_embedding_op(
    const at::Tensor& positions, at::Tensor& q, at::Tensor& k, int64_t head_size, const at::Tensor& cos_sin_cache,
    bool is_neox) {
  TORCH_CHECK(
      head_size > 0 && cos_sin_cache.dim() == 2 && cos_sin_cache.size(1) % 2 == 0 && cos_sin_cache.size(1) <= head_size,
      "head_size must be positive, and cos_sin_cache must be [positions, rotary_dim] with an even rotary_dim <= ", head_size, ", got ",
      cos_sin_cache.sizes());
  const std::vector<int64_t> values = integers(positions, q.size(0), "positions");
  check_range(values, cos_sin_cache.size(0), "positions");
  const Rotary rotary{
      values.data(), q.size(0), rows(cos_sin_cache, "cos_sin_cache"), cos_sin_cache.size(1), is_neox};
  rotate_heads(rotary, q, head_size, "q");
  rotate_heads(rotary, k, head_size, "k");
}

}  // namespace
}  // namespace sglang_example_oot

TORCH_LIBRARY_IMPL(sglang_example_oot, CPU, m) {
  using namespace sglang_example_oot;
  m.impl("store_kv", store_kv_op);
  m.impl("paged_decode", paged_decode_op);
  m.impl("paged_extend", paged_extend_op);
  m.impl("rms_norm", rms_norm_op);
  m.impl("fused_add_rms_norm", fused_add_rms_norm_op);
  m.impl("layer_norm", layer_norm_op);
  m.impl("silu_and_mul", silu_and_mul_op);
  m.impl("gelu_and_mul", gelu_and_mul_op);
  m.impl("activation", activation_op);
  m.impl("rotary_embedding", rotary_embedding_op);
  m.impl("linear", linear_op);
  m.impl("short_conv", short_conv_op);
  m.impl("moe_experts", moe_experts);
}
