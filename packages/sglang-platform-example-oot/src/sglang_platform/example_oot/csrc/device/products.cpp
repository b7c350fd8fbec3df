// A vendor replaces this file: matrix products, the operators of torch that a model spends most of its time in.
//
// What kernels.h has a kernel for runs here; every other product is left to the fallback.
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "../kernels.h"
#include "alias.h"
#include "fallback.h"
#include "stream.h"

namespace sglang_example_oot::device {
namespace {

// Up to this many rows the kernel wins over the CPU's product. Matrix units move the point.
int64_t most_rows(c10::ScalarType type) {
  if (type == at::kFloat) return 64;
  if (type != at::kBFloat16 && type != at::kHalf) return 0;
  return at::native::cpublas::could_pack(type) ? 2 : 64;
}

// True for x [m, k] times the transpose of a weight [n, k], which is how torch multiplies in a linear layer.
bool is_linear(const at::Tensor& x, const at::Tensor& weight_t) {
  return on_device(x) && on_device(weight_t) && x.device() == weight_t.device() && x.dim() == 2 &&
      weight_t.dim() == 2 && x.size(1) == weight_t.size(0) && x.scalar_type() == weight_t.scalar_type() &&
      x.size(0) <= most_rows(x.scalar_type()) && x.numel() > 0 && x.stride(1) == 1 && weight_t.stride(0) == 1 &&
      weight_t.stride(1) >= weight_t.size(0);
}

Rows rows(const at::Tensor& t, int64_t stride) {
  check_memory(t);
  return {kernel_address(t.mutable_data_ptr()), stride, 0, t.scalar_type()};
}

at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight_t, const at::Tensor* bias) {
  at::Tensor out = at::empty({x.size(0), weight_t.size(1)}, x.options());
  const Linear product{
      rows(x, x.stride(0)), rows(weight_t, weight_t.stride(1)),
      bias ? kernel_address(bias->const_data_ptr()) : nullptr, rows(out, out.stride(0)),
      x.size(0), weight_t.size(1), x.size(1)};
  current_queue(x.device().index()).push([product] { linear(product); });
  return out;
}

at::Tensor mm(const at::Tensor& x, const at::Tensor& weight_t) {
  if (is_linear(x, weight_t)) return multiply(x, weight_t, nullptr);
  return fall_back("aten::mm", {x, weight_t})[0].toTensor();
}

at::Tensor addmm(
    const at::Tensor& bias, const at::Tensor& x, const at::Tensor& weight_t, const at::Scalar& beta,
    const at::Scalar& alpha) {
  const bool plain = bias.dim() == 1 && bias.is_contiguous() && on_device(bias) && bias.device() == x.device() &&
      bias.scalar_type() == x.scalar_type() && beta.equal(1) && alpha.equal(1);
  if (plain && is_linear(x, weight_t) && bias.size(0) == weight_t.size(1)) return multiply(x, weight_t, &bias);
  return fall_back("aten::addmm", {bias, x, weight_t, beta, alpha})[0].toTensor();
}

}  // namespace
}  // namespace sglang_example_oot::device

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mm", sglang_example_oot::device::mm);
  m.impl("addmm", sglang_example_oot::device::addmm);
}
