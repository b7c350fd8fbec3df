// A vendor deletes this file: the driver hands out addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace sglang_example_oot::device {

// Free ranges of addresses, merged where they touch; first fit.
class AddressSpace {
 public:
  void open(uintptr_t begin, size_t size);
  uintptr_t take(size_t size);  // 0 where no range is long enough
  void give(uintptr_t begin, size_t size);

 private:
  std::map<uintptr_t, size_t> free_;
};

}  // namespace sglang_example_oot::device
