// A vendor deletes this file with fallback.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace sglang_example_oot::device {

// The results of the operator `name`, one value each, from the CPU's kernel on the device's memory: for kernels of the device
// that serve some arguments only.
std::vector<c10::IValue> fall_back(
    const char* name, std::vector<c10::IValue> arguments, const char* overload = "");

}  // namespace sglang_example_oot::device
