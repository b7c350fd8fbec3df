// A vendor keeps this file, less what the device learns: operators that would end the process or give a wrong result,
// and kinds of tensors that the device has not.
#include <torch/library.h>

namespace sglang_example_oot::device {
namespace {

// Torch offers these to every device, and follows their tensors' addresses on the host.
void read_by_the_host(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "operator ", op.operator_name(), " reads the memory of its tensors on the host, and the device has no kernel ",
      "for it; move them to the CPU first");
}

// The CPU gives these a type that a tensor of the device cannot have; what their meta kernels promise is another.
void quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "operator ", op.operator_name(), " makes a quantized tensor, and the device has none; do it on the CPU");
}

// Tensors of these kinds, which torch would refuse with a list of everybody's kernels.
template <const char* kind>
void has_no(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "operator ", op.operator_name(), " makes or takes a ", kind, " tensor, and the device has none; keep it on ",
      "the CPU, or make it a dense one");
}

constexpr char kSparse[] = "sparse", kQuantized[] = "quantized", kNested[] = "nested (strided)";

}  // namespace
}  // namespace sglang_example_oot::device

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  using namespace sglang_example_oot::device;
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&has_no<kSparse>>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  using namespace sglang_example_oot::device;
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&has_no<kSparse>>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  using namespace sglang_example_oot::device;
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&has_no<kQuantized>>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  using namespace sglang_example_oot::device;
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&has_no<kNested>>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace sglang_example_oot::device;
  for (const char* name :
       {"_saturate_weight_to_fp16", "choose_qparams_optimized", "fbgemm_linear_fp16_weight",
        "fbgemm_linear_fp16_weight_fp32_activation", "fbgemm_linear_int8_weight",
        "fbgemm_linear_int8_weight_fp32_activation", "fbgemm_linear_quantize_weight", "fbgemm_pack_gemm_matrix_fp16",
        "fbgemm_pack_quantized_matrix", "fbgemm_pack_quantized_matrix.KN"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&read_by_the_host>());
  for (const char* name :
       {"quantize_per_tensor", "quantize_per_tensor.tensor_qparams", "quantize_per_tensor.tensors",
        "quantize_per_tensor_dynamic", "quantize_per_channel"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&quantized>());
}
