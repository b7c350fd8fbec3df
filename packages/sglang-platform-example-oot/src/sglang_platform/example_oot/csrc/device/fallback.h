// A vendor deletes this file with fallback.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace sglang_example_oot::device {

// The result of the operator `name`, one tensor, from the CPU's kernel on the device's memory: for kernels of the device
// that serve some arguments only.
at::Tensor fall_back(const char* name, std::vector<c10::IValue> arguments);

}  // namespace sglang_example_oot::device
