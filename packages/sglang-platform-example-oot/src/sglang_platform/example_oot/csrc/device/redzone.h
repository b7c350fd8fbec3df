// A vendor deletes this file: in a build with AddressSanitizer it tells of kernels that reach past a tensor's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "stream.h"

namespace sglang_example_oot::device {

// Of the `size` bytes at `address` only the first `used` may be touched. Where the host does not wait for each task, one
// that was queued before may still use them: then nothing is said.
inline void may_touch([[maybe_unused]] uintptr_t address, [[maybe_unused]] size_t used, [[maybe_unused]] size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  if (!blocking_launches()) return;
  ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<void*>(address), used);
  ASAN_POISON_MEMORY_REGION(reinterpret_cast<void*>(address + used), size - used);
#endif
}

}  // namespace sglang_example_oot::device
