// A vendor replaces this file: the caching allocator over the driver's, in the stream's order.
//
// A freed block is handed out again at once to the stream it was allocated on, for that stream's tasks run in order;
// other streams that used it are waited for first (`record_stream`).
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>

#include "address_space.h"
#include "memory.h"
#include "redzone.h"
#include "stream.h"

namespace sglang_example_oot::device {
namespace {

constexpr size_t kSmallest = 512;
constexpr size_t kSlab = size_t{2} << 20;     // small blocks are cut from slabs, which are kept
constexpr size_t kLargestSmall = kSlab / 2;
constexpr size_t kSpaceFactor = 4;  // addresses per byte of memory, against fragmentation

char* host_begin = nullptr;  // what kernels reach
char* device_begin = nullptr;
size_t space_per_device = 0, limit_per_device = 0;
c10::DeviceIndex devices = 0;

struct Block {
  uintptr_t address;
  size_t size;
  c10::DeviceIndex device;
  c10::StreamId stream;
  c10::MempoolId_t pool;
  std::vector<c10::StreamId> used_on = {};
  uint64_t freed_at = 0;  // in the cache: the last task of its stream that may use it
};

size_t rounded(size_t bytes) {
  if (bytes > kLargestSmall) return (bytes + kSlab - 1) / kSlab * kSlab;
  size_t size = kSmallest;
  while (size < bytes) size *= 2;
  return size;
}

using c10::CachingAllocator::StatType;
constexpr auto kAggregate = static_cast<size_t>(StatType::AGGREGATE);

class Allocator final : public c10::DeviceAllocator {
 public:
  void open() {
    addresses_.resize(devices);
    for (c10::DeviceIndex d = 0; d < devices; ++d)
      addresses_[d].open(reinterpret_cast<uintptr_t>(host_begin) + d * space_per_device, space_per_device);
    stats_.resize(devices);
  }

  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex index = current_device();
    const c10::Device device(c10::DeviceType::PrivateUse1, index);
    if (bytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, device};
    const c10::Stream stream = current_stream(index);
    const c10::MempoolId_t pool = device::queue_of(stream).capture_pool();
    auto lock = locked();
    if (bytes > limit_per_device) out_of_memory(index, bytes);
    collect_pending();
    Block* block = find(index, stream.id(), pool, rounded(bytes));
    if (!block) {
      give_back_cache(lock);
      block = find(index, stream.id(), pool, rounded(bytes));
    }
    if (!block) out_of_memory(index, bytes);
    // A graph's tasks use what they hold at every replay, long after it was freed.
    may_touch(block->address, block->pool == c10::MempoolId_t{0, 0} ? bytes : block->size, block->size);
    auto& stats = stats_[index];
    stats.allocation[kAggregate].increase(1);
    stats.allocated_bytes[kAggregate].increase(block->size);
    stats.requested_bytes[kAggregate].increase(bytes);
    void* data = device_begin + (reinterpret_cast<char*>(block->address) - host_begin);
    return {data, block, &release, device};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }

  void copy_data(void* dest, const void* src, std::size_t count) const override {
    wait_device(-1);
    std::memcpy(kernel_address(dest), kernel_address(src), count);
  }

  bool initialized() override {
    return devices > 0;
  }

  void emptyCache(c10::MempoolId_t) override {
    auto lock = locked();
    give_back_cache(lock);
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (ptr.get_deleter() != &release || in_bad_fork()) return;
    auto* block = static_cast<Block*>(ptr.get_context());
    const std::lock_guard lock(mutex_);
    auto& used_on = block->used_on;
    if (stream.id() != block->stream && std::find(used_on.begin(), used_on.end(), stream.id()) == used_on.end())
      used_on.push_back(stream.id());
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const auto lock = locked();
    return stats_of(device);
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    const auto lock = locked();
    for (auto* stat : statistics(device)) stat->reset_accumulated();
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    const auto lock = locked();
    for (auto* stat : statistics(device)) stat->reset_peak();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const auto lock = locked();
    const auto used = static_cast<size_t>(stats_of(device).reserved_bytes[kAggregate].current);
    return {limit_per_device - used, limit_per_device};
  }

  void keep_pool(c10::MempoolId_t pool) {
    const std::lock_guard lock(mutex_);
    ++pool_users_[pool];
  }

  void release_pool(c10::MempoolId_t pool) {
    const auto lock = locked();
    const auto found = pool_users_.find(pool);
    if (found == pool_users_.end() || --found->second > 0) return;
    pool_users_.erase(found);
    // No graph writes this memory any more: it joins the ordinary cache.
    std::vector<Block*> blocks;
    for (auto entry = cache_.begin(); entry != cache_.end();) {
      if (std::get<2>(entry->first) != pool) {
        ++entry;
        continue;
      }
      for (auto& [size, block] : entry->second) blocks.push_back(block);
      entry = cache_.erase(entry);
    }
    for (Block* block : blocks) put(block);
  }

 private:
  using Key = std::tuple<c10::DeviceIndex, c10::StreamId, c10::MempoolId_t>;
  struct Pending {
    Block* block;
    std::vector<std::pair<Queue*, uint64_t>> after;
  };

  static void release(void* context) {
    static_cast<Allocator&>(allocator()).free(static_cast<Block*>(context));
  }

  void free(Block* block) {
    if (in_bad_fork()) return;  // the parent's, and the lock may be held by a thread that is not here
    const std::lock_guard lock(mutex_);
    auto& stats = stats_[block->device];
    stats.allocation[kAggregate].decrease(1);
    stats.allocated_bytes[kAggregate].decrease(block->size);
    if (block->used_on.empty()) return put(block);
    Pending pending{block, {}};
    for (const c10::StreamId id : block->used_on) {
      Queue& queue = stream_queue(block->device, id);
      pending.after.emplace_back(&queue, queue.last_ticket());
    }
    block->used_on.clear();
    pending_.push_back(std::move(pending));
  }

  void put(Block* block) {
    if (!pool_users_.count(block->pool)) block->pool = {0, 0};
    if (block->pool == c10::MempoolId_t{0, 0}) may_touch(block->address, 0, block->size);
    block->freed_at = queue_of(block).last_ticket();
    cache_[{block->device, block->stream, block->pool}].emplace(block->size, block);
  }

  void collect_pending() {
    for (auto entry = pending_.begin(); entry != pending_.end();) {
      const bool over = std::all_of(entry->after.begin(), entry->after.end(), [](const auto& after) {
        return after.first->done(after.second);
      });
      if (over) put(entry->block);
      entry = over ? pending_.erase(entry) : std::next(entry);
    }
  }

  // A block from the cache, else of new memory; null where there is none.
  Block* find(c10::DeviceIndex device, c10::StreamId stream, c10::MempoolId_t pool, size_t size) {
    auto& cached = cache_[{device, stream, pool}];
    const auto found = cached.lower_bound(size);
    // A large block may serve a request up to a quarter smaller.
    if (found != cached.end() && (found->first == size || (size > kLargestSmall && found->first <= size + size / 4))) {
      Block* block = found->second;
      cached.erase(found);
      return block;
    }
    const uintptr_t memory = reserve(device, std::max(size, kSlab));
    if (memory == 0) return nullptr;
    if (size <= kLargestSmall)
      for (size_t at = size; at < kSlab; at += size) cached.emplace(size, new Block{memory + at, size, device, stream, pool});
    return new Block{memory, size, device, stream, pool};
  }

  uintptr_t reserve(c10::DeviceIndex device, size_t size) {
    auto& reserved = stats_[device].reserved_bytes[kAggregate];
    if (size > limit_per_device - static_cast<size_t>(reserved.current)) return 0;
    const uintptr_t address = addresses_[device].take(size);
    if (address == 0) return 0;
    reserved.increase(size);
    madvise(reinterpret_cast<void*>(address), size, MADV_HUGEPAGE);
    return address;
  }

  [[noreturn]] void out_of_memory(c10::DeviceIndex device, size_t asked) {
    ++stats_[device].num_ooms;
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "the device is out of memory: ", asked, " bytes asked for on device ",
        static_cast<int>(device), ", ", stats_[device].reserved_bytes[kAggregate].current, " of ", limit_per_device,
        " in use. SGLANG_EXAMPLE_OOT_MEMORY sets the limit, in bytes");
  }

  // Waits, without the lock, for the tasks that use what was freed: one of them may need the lock, or Python, which
  // another thread holds while it waits for the lock.
  void wait_for_cache(std::unique_lock<std::mutex>& lock) {
    std::map<Queue*, uint64_t> after;
    const auto note = [&](Queue* queue, uint64_t ticket) { after[queue] = std::max(after[queue], ticket); };
    for (auto& [key, cached] : cache_)
      for (auto entry = cached.upper_bound(kLargestSmall); entry != cached.end(); ++entry)
        note(&queue_of(entry->second), entry->second->freed_at);
    for (auto& pending : pending_)
      for (auto& [queue, ticket] : pending.after) note(queue, ticket);
    lock.unlock();
    for (auto& [queue, ticket] : after) queue->wait_on_device(ticket);
    lock.lock();
  }

  void give_back_cache(std::unique_lock<std::mutex>& lock) {
    wait_for_cache(lock);
    collect_pending();
    for (auto& [key, cached] : cache_) {
      if (pool_users_.count(std::get<2>(key))) continue;  // a graph's memory stays
      for (auto entry = cached.upper_bound(kLargestSmall); entry != cached.end();) {
        Block* block = entry->second;
        if (!queue_of(block).done(block->freed_at)) {  // freed while this thread waited
          ++entry;
          continue;
        }
        entry = cached.erase(entry);
        madvise(reinterpret_cast<void*>(block->address), block->size, MADV_DONTNEED);
        addresses_[block->device].give(block->address, block->size);
        stats_[block->device].reserved_bytes[kAggregate].decrease(block->size);
        delete block;
      }
    }
  }

  static Queue& stream_queue(c10::DeviceIndex device, c10::StreamId stream) {
    return device::queue_of(
        c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), stream));
  }

  static Queue& queue_of(const Block* block) {
    return stream_queue(block->device, block->stream);
  }

  std::unique_lock<std::mutex> locked() {
    refuse_in_child();
    return std::unique_lock(mutex_);
  }

  c10::CachingDeviceAllocator::DeviceStats& stats_of(c10::DeviceIndex device) {
    TORCH_CHECK_INDEX(device >= 0 && device < devices, "there is no device ", static_cast<int>(device));
    return stats_[device];
  }

  std::vector<c10::CachingAllocator::Stat*> statistics(c10::DeviceIndex device) {
    auto& stats = stats_of(device);
    return {
        &stats.allocation[kAggregate], &stats.allocated_bytes[kAggregate], &stats.requested_bytes[kAggregate],
        &stats.reserved_bytes[kAggregate]};
  }

  std::mutex mutex_;
  std::vector<AddressSpace> addresses_;
  std::map<Key, std::multimap<size_t, Block*>> cache_;
  std::vector<Pending> pending_;
  std::map<c10::MempoolId_t, int> pool_users_;
  std::vector<c10::CachingDeviceAllocator::DeviceStats> stats_;
};

Allocator& the_allocator() {
  static auto* one = new Allocator;  // tensors may outlive static objects
  return *one;
}

}  // namespace

void open_memory(c10::DeviceIndex count, size_t bytes_per_device) {
  TORCH_CHECK(devices == 0, "the device's memory is open already");
  TORCH_CHECK(
      bytes_per_device < std::numeric_limits<size_t>::max() / 2 / kSpaceFactor / count, "no process has addresses for ",
      static_cast<int>(count), " devices of ", bytes_per_device, " bytes");
  space_per_device = rounded(bytes_per_device) * kSpaceFactor;
  const size_t space = space_per_device * count;
  const auto map = [space](int protection) {
    void* begin = mmap(nullptr, space + kSlab, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(begin != MAP_FAILED, "cannot reserve ", space, " bytes of addresses for the device");
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(begin) + kSlab - 1) / kSlab * kSlab);
  };
  host_begin = map(PROT_READ | PROT_WRITE);
  device_begin = map(PROT_NONE);
  limit_per_device = bytes_per_device;
  devices = count;
  the_allocator().open();
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &the_allocator());
}

c10::DeviceIndex device_of_address(const void* address) {
  const char* at = static_cast<const char*>(address);
  if (at < device_begin || at >= device_begin + space_per_device * devices) return -1;
  return static_cast<c10::DeviceIndex>(static_cast<size_t>(at - device_begin) / space_per_device);
}

void* kernel_address(const void* address) {
  if (address == nullptr) return nullptr;
  return host_begin + (static_cast<const char*>(address) - device_begin);
}

c10::DeviceIndex device_count() {
  return devices;
}

c10::DeviceAllocator& allocator() {
  return the_allocator();
}

c10::MempoolId_t new_pool() {
  static std::atomic<unsigned long long> next{1};
  return {next++, 0};
}

void keep_pool(c10::MempoolId_t pool) {
  the_allocator().keep_pool(pool);
}

void release_pool(c10::MempoolId_t pool) {
  the_allocator().release_pool(pool);
}

}  // namespace sglang_example_oot::device
