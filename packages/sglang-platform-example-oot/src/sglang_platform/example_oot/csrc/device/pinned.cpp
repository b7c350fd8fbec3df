// A vendor replaces this file: host memory that copies reach while the host goes on. On this device all host memory is
// alike; what is pinned is remembered, so that only such memory is copied without waiting.
#include "pinned.h"

#include <ATen/core/CachingHostAllocator.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace sglang_example_oot::device {
namespace {

std::mutex mutex;
std::map<const char*, size_t> ranges;

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    if (bytes > 0) {
      TORCH_CHECK(posix_memalign(&data, 64, bytes) == 0, "cannot allocate ", bytes, " bytes of pinned host memory");
      const std::lock_guard lock(mutex);
      ranges[static_cast<char*>(data)] = bytes;
    }
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }
  // A queued copy keeps its tensors, so nothing is freed under it; nothing is cached either.
  bool record_event(void*, void*, c10::Stream) override {
    return true;
  }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    return {};
  }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

 private:
  static void release(void* data) {
    {
      const std::lock_guard lock(mutex);
      ranges.erase(static_cast<char*>(data));
    }
    std::free(data);
  }
};

}  // namespace

bool is_pinned(const void* data) {
  const std::lock_guard lock(mutex);
  auto range = ranges.upper_bound(static_cast<const char*>(data));
  if (range == ranges.begin()) return false;
  --range;
  return data < range->first + range->second;
}

c10::Allocator* pinned_allocator() {
  static auto* allocator = [] {
    auto* made = new PinnedAllocator;
    at::setHostAllocator(c10::DeviceType::PrivateUse1, made);
    return made;
  }();
  return allocator;
}

}  // namespace sglang_example_oot::device
