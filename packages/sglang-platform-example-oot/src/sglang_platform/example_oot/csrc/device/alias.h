// A vendor deletes this file: how this device's operators become the CPU's, on the same memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace sglang_example_oot::device {

inline bool on_device(const at::Tensor& t) {
  return t.defined() && t.device().type() == c10::DeviceType::PrivateUse1;
}

// Throws where the tensor reaches past its memory, which was resized since.
void check_memory(const at::Tensor& t);

// What torch has put off, conjugation and negation of a view, holds for `to` as for `from`.
void keep_pending(const at::Tensor& to, const at::Tensor& from);

// A CPU tensor over the device tensor's memory that does not keep it alive: the allocator's stream order does.
// `memory`: the one of another view of the same memory, where there is one.
at::Tensor kernel_view(const at::Tensor& t, const c10::Storage* memory = nullptr);

}  // namespace sglang_example_oot::device
