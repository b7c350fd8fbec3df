// A vendor keeps the checks, and hands the pointers to its own kernels.
// moe_experts: many tokens per expert go through one matrix product per expert, few through small_batch_experts.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "kernels.h"

namespace sglang_example_oot {
namespace {

// From this many tokens per expert on, the matrix product wins although it gathers tokens and rounds between steps;
// matrix units move the point. Measured with hidden sizes of 1024 and 2048.
int64_t tokens_for_product(c10::ScalarType type) {
  return type == c10::ScalarType::BFloat16 && at::native::cpublas::could_pack(type) ? 8 : 16;
}

Rows contiguous_rows(const at::Tensor& t) {
  return {t.data_ptr(), t.stride(0), t.dim() > 2 ? t.stride(1) : 0, t.scalar_type()};
}

void product_per_expert(
    const at::Tensor& x, const at::Tensor& w13, const at::Tensor& w2, const at::Tensor& ids, const at::Tensor& weights,
    at::Tensor& out, bool weight_on_input) {
  const int64_t pairs = ids.numel(), top_k = ids.size(1), experts = w13.size(0);
  const int64_t* id = ids.const_data_ptr<int64_t>();
  std::vector<int64_t> order;
  for (int64_t i = 0; i < pairs; ++i)
    if (id[i] >= 0 && id[i] < experts) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return id[a] < id[b]; });

  const at::Tensor flat_weights = weights.flatten();
  at::Tensor sums = at::zeros({x.size(0), x.size(1)}, x.options().dtype(at::kFloat));
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    const int64_t e = id[order[begin]];
    for (end = begin; end < order.size() && id[order[end]] == e;) ++end;
    const int64_t n = static_cast<int64_t>(end - begin);
    at::Tensor pair = at::empty({n}, ids.options()), token = at::empty({n}, ids.options());
    std::copy(order.begin() + begin, order.begin() + end, pair.data_ptr<int64_t>());
    for (int64_t i = 0; i < n; ++i) token.data_ptr<int64_t>()[i] = order[begin + i] / top_k;

    const at::Tensor weight = flat_weights.index_select(0, pair).unsqueeze(1);
    at::Tensor input = x.index_select(0, token);
    if (weight_on_input) input = input.mul(weight).to(x.scalar_type());
    const at::Tensor gate_up = at::linear(input, w13.select(0, e));
    at::Tensor gated = at::empty({n, w2.size(2)}, x.options());
    activate(contiguous_rows(gate_up), contiguous_rows(gated), n, gated.size(1), Activation::silu, true);
    at::Tensor y = at::linear(gated, w2.select(0, e)).to(at::kFloat);
    sums.index_add_(0, token, weight_on_input ? y : y.mul_(weight));
  }
  out.copy_(sums);
}

}  // namespace

void moe_experts(
    const at::Tensor& x, const at::Tensor& w13, const at::Tensor& w2, const at::Tensor& topk_weights,
    const at::Tensor& topk_ids, at::Tensor& out, bool apply_weight_on_input) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  TORCH_CHECK(
      x.dim() == 2 && w13.dim() == 3 && w2.dim() == 3 && w13.size(0) == w2.size(0) && w13.size(1) == 2 * w2.size(2) &&
          w13.size(2) == x.size(1) && w2.size(1) == x.size(1) && out.sizes() == x.sizes(),
      "shapes do not fit: x ", x.sizes(), ", w13 ", w13.sizes(), ", w2 ", w2.sizes(), ", out ", out.sizes());
  TORCH_CHECK(
      topk_ids.dim() == 2 && topk_ids.size(0) == x.size(0) && topk_weights.sizes() == topk_ids.sizes(),
      "topk_ids and topk_weights must be [", x.size(0), ", top_k], got ", topk_ids.sizes(), " and ",
      topk_weights.sizes());
  TORCH_CHECK(
      x.scalar_type() == w13.scalar_type() && x.scalar_type() == w2.scalar_type() &&
          x.scalar_type() == out.scalar_type(),
      "x, w13, w2 and out must have one type");
  for (const at::Tensor* t : {&x, &w13, &w2, static_cast<const at::Tensor*>(&out)})
    TORCH_CHECK(t->numel() == 0 || t->stride(-1) == 1, "x, w13, w2 and out must be contiguous in their last dimension");

  const at::Tensor ids = topk_ids.to(at::kLong).contiguous(), weights = topk_weights.to(at::kFloat).contiguous();
  if (ids.numel() >= tokens_for_product(x.scalar_type()) * w13.size(0)) {
    product_per_expert(x, w13, w2, ids, weights, out, apply_weight_on_input);
    return;
  }
  small_batch_experts(
      {contiguous_rows(x), contiguous_rows(w13), contiguous_rows(w2), contiguous_rows(out), x.size(0), x.size(1),
       w2.size(2), w13.size(0), ids.size(1), ids.const_data_ptr<int64_t>(), weights.const_data_ptr<float>(),
       apply_weight_on_input});
}

}  // namespace sglang_example_oot
