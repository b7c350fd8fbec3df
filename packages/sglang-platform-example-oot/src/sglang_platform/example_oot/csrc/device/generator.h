// A vendor replaces this file: random numbers of the device.
#pragma once

#include <ATen/core/Generator.h>

namespace sglang_example_oot::device {

// `device` -1: the current one.
const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);

// The generator that kernels draw from on behalf of one of the device's.
at::Generator kernel_generator(const at::Generator& generator);

}  // namespace sglang_example_oot::device
