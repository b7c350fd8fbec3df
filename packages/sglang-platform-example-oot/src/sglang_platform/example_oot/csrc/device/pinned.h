// A vendor replaces this file: host memory that copies reach while the host goes on.
#pragma once

#include <c10/core/Allocator.h>

namespace sglang_example_oot::device {

bool is_pinned(const void* data);

// Registers itself with torch when it is first asked for.
c10::Allocator* pinned_allocator();

}  // namespace sglang_example_oot::device
