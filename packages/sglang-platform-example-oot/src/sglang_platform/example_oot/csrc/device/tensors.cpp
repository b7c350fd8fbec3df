// A vendor changes this file little: the operators that every backend of torch writes itself, memory and views.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/div.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <algorithm>

#include "alias.h"
#include "fallback.h"
#include "memory.h"
#include "stream.h"

namespace sglang_example_oot::device {

void check_memory(const at::Tensor& t) {
  const size_t needed =
      at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.dtype().itemsize(), t.storage_offset());
  TORCH_CHECK(
      needed <= t.storage().nbytes() || t.numel() == 0, "a tensor of shape ", t.sizes(), " and strides ", t.strides(),
      " needs ", needed, " bytes, but its memory was resized to ", t.storage().nbytes());
}

void keep_pending(const at::Tensor& to, const at::Tensor& from) {
  if (from.is_conj() != to.is_conj()) to._set_conj(from.is_conj());
  if (from.is_neg() != to.is_neg()) to._set_neg(from.is_neg());
}

at::Tensor kernel_view(const at::Tensor& t, const c10::Storage* memory) {
  check_memory(t);
  const auto own = [&] {
    return c10::Storage(
        c10::Storage::use_byte_size_t(), t.storage().nbytes(),
        c10::DataPtr(kernel_address(t.storage().data()), c10::Device(c10::DeviceType::CPU)), nullptr, false);
  };
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      memory ? c10::Storage(*memory) : own(), c10::DispatchKeySet(c10::DispatchKey::CPU), t.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
  keep_pending(view, t);
  return view;
}

namespace {

class OnDevice {
 public:
  explicit OnDevice(std::optional<c10::Device> device) : before_(current_device()) {
    if (device && device->has_index()) set_current_device(device->index());
  }
  ~OnDevice() {
    set_current_device(before_);
  }

 private:
  c10::DeviceIndex before_;
};

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// What this device makes: dense tensors of plain types.
c10::ScalarType plain_type(
    std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "only host memory can be pinned");
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(at::kStrided) == at::kStrided, "the device has no tensors of layout ", *layout);
  const auto type = c10::dtype_or_default(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isQIntType(type), "the device has no quantized tensors (", type, ")");
  return type;
}

at::Tensor empty(
    c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  const auto type = plain_type(dtype, layout, pinned);
  const OnDevice guard(device);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &allocator(), kKeys, type, format);
}

at::Tensor empty_strided(
    c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pinned) {
  const auto type = plain_type(dtype, layout, pinned);
  const OnDevice guard(device);
  return at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &allocator(), kKeys, type);
}

at::Tensor as_strided(
    const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

// As on the host, a tensor that is made larger than its memory gets more.
void grow(const c10::Storage& storage, size_t bytes) {
  if (bytes > storage.nbytes()) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(storage, bytes);
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  for (const int64_t n : sizes) TORCH_CHECK(n >= 0, "a tensor cannot have the sizes ", sizes);
  auto* tensor = self.unsafeGetTensorImpl();
  if (self.sizes() != sizes) {
    // Not their product, which may be past any number; computeStorageNbytesContiguous refuses what is.
    if (std::find(sizes.begin(), sizes.end(), 0) == sizes.end())
      grow(self.storage(), at::detail::computeStorageNbytesContiguous(
                               sizes, self.dtype().itemsize(), self.storage_offset()));
    tensor->set_sizes_contiguous(sizes);
  }
  if (format) tensor->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_storage(
    at::Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size), strides = C10_AS_INTARRAYREF_SLOW(stride);
  const int64_t begin = offset.expect_int();
  for (const int64_t n : sizes) TORCH_CHECK(n >= 0, "a tensor cannot have the sizes ", sizes);
  for (const int64_t step : strides) TORCH_CHECK(step >= 0, "a tensor cannot have the strides ", strides);
  at::native::checkSetStorage(self, source, begin, sizes, strides);
  auto* tensor = self.unsafeGetTensorImpl();
  if (strides.size() == sizes.size()) {
    tensor->set_sizes_and_strides(sizes, strides, begin);
  } else {  // none given: contiguous
    tensor->set_sizes_contiguous(sizes);
    tensor->set_storage_offset(begin);
  }
  if (self.numel() > 0)
    grow(self.storage(),
         at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.dtype().itemsize(), begin));
  return self;
}

at::Tensor& set_nothing(at::Tensor& self) {
  const OnDevice guard(self.device());
  return set_storage(
      self, c10::Storage(c10::Storage::use_byte_size_t(), 0, allocator().allocate(0), &allocator(), true), 0,
      c10::SymInt(0), c10::SymInt(1));
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage source) {
  const auto n = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, c10::SymInt(n), c10::SymInt(1));
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(
      self, source.storage(), source.sym_storage_offset(), source.sym_sizes(), source.sym_strides());
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  current_queue(self.device().index()).wait_all();
  return at::_local_scalar_dense(kernel_view(self));
}

void record_stream(at::Tensor& self, at::Stream stream) {
  allocator().recordStream(self.storage().data_ptr(), stream);
}

// torch asks every backend for its convolution here; no language model served needs it fast. The CPU's own choice among
// its kernels is made behind the operator's plain name.
at::Tensor convolution(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
    c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const auto results = fall_back(
      "aten::convolution", {input, weight, bias, stride, padding, dilation, transposed, output_padding, groups});
  return results[0].toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> wanted) {
  // The CPU asks for the bias' shape: one number per channel of the result.
  const std::vector<c10::SymInt> bias{gradient.sym_size(1)};
  const auto results = fall_back(
      "aten::convolution_backward",
      {gradient, input, weight, c10::SymIntArrayRef(bias), stride, padding, dilation, transposed, output_padding,
       groups, wanted});
  return {results[0].toTensor(), results[1].toTensor(), results[2].toTensor()};
}

// Shapes come from meta kernels, and torch has this operator's in Python alone: it took 2 ms. Division has its own in C++.
at::Tensor floor_divide(const at::Tensor& self, const at::Tensor& other) {
  return at::div(self, other, "floor");
}

// Scaled dot-product attention through matrix products: the fused CPU choice looks for CPU tensors.
int64_t fused_sdp_choice(
    const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, double, bool,
    std::optional<double>, bool) {
  return 0;
}

}  // namespace
}  // namespace sglang_example_oot::device

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace sglang_example_oot::device;
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("resize_", resize_);
  m.impl("set_", set_nothing);
  m.impl("set_.source_Storage", set_source_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Tensor", set_source_tensor);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("record_stream", record_stream);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  m.impl("floor_divide", floor_divide);
  m.impl("_fused_sdp_choice", fused_sdp_choice);
}
