// A vendor replaces this file: where device memory lies, and who may touch it.
//
// The device's memory is a range of the process that kernels alone can reach. A tensor's data pointer lies in a second
// range of the same length, which no page backs: the host that follows such a pointer faults at once, as it would with
// a card's address. Kernels add the constant distance between the two.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>

namespace sglang_example_oot::device {

// Reserves both ranges and fixes the number of devices and the bytes that each may hold. Called once, before all else.
void open_memory(c10::DeviceIndex devices, size_t bytes_per_device);

// -1 for an address that is no device's.
c10::DeviceIndex device_of_address(const void* address);

// The address under which kernels reach what lies at `address` on the device.
void* kernel_address(const void* address);

c10::DeviceIndex device_count();

c10::DeviceAllocator& allocator();

// While a stream captures, what is allocated on it comes from the graph's pool and returns there, so that nothing else
// gets memory that a replay writes.
c10::MempoolId_t new_pool();
void keep_pool(c10::MempoolId_t pool);
void release_pool(c10::MempoolId_t pool);

}  // namespace sglang_example_oot::device
