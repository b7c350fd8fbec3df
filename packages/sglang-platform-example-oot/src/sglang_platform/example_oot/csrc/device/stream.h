// A vendor replaces this file: streams and events of the device.
//
// A stream is a thread that runs its tasks in order. The host goes on as soon as a task is queued, and learns of a
// task's failure when it next waits.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace sglang_example_oot::device {

using Task = std::function<void()>;
using TaskList = std::vector<Task>;

class Queue {
 public:
  explicit Queue(c10::Stream stream) : stream_(stream) {}

  c10::Stream stream() const {
    return stream_;
  }
  // Returns the task's ticket. While the stream captures, the task is kept for the graph and not run.
  uint64_t push(Task task);
  bool done(uint64_t ticket) const;
  // Blocks until the task of `ticket` is done; throws what a task threw since the last wait.
  void wait(uint64_t ticket);
  void wait_all();
  // As `wait`, for another stream's thread and for the allocator: leaves the failure to the host.
  void wait_on_device(uint64_t ticket);
  uint64_t last_ticket() const;

  void begin_capture(c10::MempoolId_t pool);
  TaskList end_capture();
  bool capturing() const;
  c10::MempoolId_t capture_pool() const;

 private:
  void run();
  void start_thread();
  void wait_done(std::unique_lock<std::mutex>& lock, uint64_t ticket);

  const c10::Stream stream_;
  mutable std::mutex mutex_;
  std::condition_variable work_, progress_;
  std::deque<Task> tasks_;
  uint64_t pushed_ = 0, completed_ = 0;
  std::exception_ptr failure_;
  bool started_ = false;
  bool capturing_ = false;
  c10::MempoolId_t pool_ = {0, 0};
  TaskList captured_;
};

Queue& queue_of(c10::Stream stream);
c10::Stream default_stream(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream new_stream(c10::DeviceIndex device);
void wait_device(c10::DeviceIndex device);

// The queue that an operator on `device` goes to.
inline Queue& current_queue(c10::DeviceIndex device) {
  return queue_of(current_stream(device));
}

// How many of the machine's cores the kernels of a stream run on; before the first stream.
void set_cores(int64_t count);

c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex device);
// True in a forked child, which has none of its parent's threads. There whatever would wait for one, or for a lock that
// one held, is refused.
bool in_bad_fork();
void refuse_in_child();

// SGLANG_EXAMPLE_OOT_BLOCKING=1: the host waits for every task, so that a failure shows where it was caused.
bool blocking_launches();

}  // namespace sglang_example_oot::device
