// A vendor keeps this file: autocast, by torch's own lists of operators. Without it every operator fails inside autocast.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace sglang_example_oot::device {
namespace {

at::Tensor refuse_binary_cross_entropy(
    const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(
      false, "torch.nn.functional.binary_cross_entropy is unsafe under autocast: half precision overflows in it. Use "
      "binary_cross_entropy_with_logits, or disable autocast around the call");
}

}  // namespace
}  // namespace sglang_example_oot::device

namespace at {  // where the lists' types are

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT_UNLESS_GIVEN(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FLOAT)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT_UNLESS_GIVEN)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTE)
#undef LOWER
#undef FLOAT
#undef FLOAT_UNLESS_GIVEN
#undef PROMOTE
  m.impl("binary_cross_entropy", &::sglang_example_oot::device::refuse_binary_cross_entropy);
}

}  // namespace at
