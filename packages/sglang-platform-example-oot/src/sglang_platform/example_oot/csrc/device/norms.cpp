// A vendor replaces this file: norms. Torch's own, for every device, are made of other operators and round on their way:
// a row whose mean is far from zero loses its digits.
#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "fallback.h"

namespace sglang_example_oot::device {
namespace {

using Norm = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // result, mean, one over the deviation
using MaybeTensor = std::optional<at::Tensor>;

bool is_mixed(const at::Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias) {
  return at::native::is_mixed_type(input, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()));
}

// The CPU's kernels; they want the statistics back, for gradients, in the type that they gave them.
Norm norm(
    const char* name, std::vector<c10::IValue> arguments, const at::Tensor& input, const MaybeTensor& weight,
    const MaybeTensor& bias) {
  const auto type = at::native::param_scalar_type(input, is_mixed(input, weight, bias));
  const auto results = fall_back(name, std::move(arguments));
  return {results[0].toTensor(), results[1].toTensor().to(type), results[2].toTensor().to(type)};
}

Norm layer_norm(
    const at::Tensor& input, c10::SymIntArrayRef shape, const MaybeTensor& weight, const MaybeTensor& bias, double eps) {
  return norm("aten::native_layer_norm", {input, shape, weight, bias, eps}, input, weight, bias);
}

Norm group_norm(
    const at::Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias, int64_t n, int64_t c,
    int64_t per_channel, int64_t groups, double eps) {
  TORCH_CHECK(groups > 0, "native_group_norm: the number of groups is ", groups, ", and must be above 0");
  std::vector<c10::IValue> arguments{input, weight, bias, n, c, per_channel, groups, eps};
  if (!is_mixed(input, weight, bias)) return norm("aten::native_group_norm", std::move(arguments), input, weight, bias);
  // The meta kernel has the statistics in the input's type, and they would lose their digits.
  const auto statistics = input.options().dtype(at::native::param_scalar_type(input, true));
  Norm made{
      at::empty(input.sizes(), input.options().memory_format(input.suggest_memory_format())),
      at::empty({n, groups}, statistics), at::empty({n, groups}, statistics)};
  std::apply([&](const auto&... out) { (arguments.emplace_back(out), ...); }, made);
  fall_back("aten::native_group_norm", std::move(arguments), "out");
  return made;
}

}  // namespace
}  // namespace sglang_example_oot::device

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace sglang_example_oot::device;
  m.impl("native_layer_norm", &layer_norm);
  m.impl("native_group_norm", &group_norm);
}
