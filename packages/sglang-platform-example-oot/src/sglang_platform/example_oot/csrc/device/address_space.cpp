// A vendor deletes this file: the driver hands out addresses.
#include "address_space.h"

namespace sglang_example_oot::device {

void AddressSpace::open(uintptr_t begin, size_t size) {
  free_[begin] = size;
}

uintptr_t AddressSpace::take(size_t size) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < size) continue;
    const uintptr_t begin = range->first;
    const size_t rest = range->second - size;
    free_.erase(range);
    if (rest > 0) free_[begin + size] = rest;
    return begin;
  }
  return 0;
}

void AddressSpace::give(uintptr_t begin, size_t size) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += size;
      return;
    }
  }
  free_[begin] = size;
}

}  // namespace sglang_example_oot::device
