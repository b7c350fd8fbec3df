// A vendor deletes this file: the cores of a device that is a processor.
//
// The threads that share a stream's kernels. They wait for the next kernel on their cores for a moment before they
// sleep: a decode step is a hundred short kernels, and to wake a thread takes as long as one of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

namespace sglang_example_oot {

class Team {
 public:
  // Starts size - 1 threads; the one that calls run() is the last of the team. They never end.
  explicit Team(int size);

  int size() const {
    return size_;
  }

  // Calls f(i) once for each i in [0, count), on any thread of the team; rethrows the first exception. A thread that
  // is late, asleep or without a core, is not waited for.
  template <typename F>
  void run(int64_t count, const F& f) {
    start(count, [](const void* context, int64_t i) { (*static_cast<const F*>(context))(i); }, &f);
  }

 private:
  using Call = void (*)(const void*, int64_t);

  void start(int64_t count, Call call, const void* context);
  void work();
  void join_in();

  const int size_;
  // The work at hand. Bit 0: threads may join in; the next 15: how many have; above: the number of the work.
  std::atomic<uint64_t> state_{0};
  std::atomic<uint32_t> bell_{0};
  std::atomic<int64_t> next_{0};
  int64_t count_ = 0;
  Call call_ = nullptr;
  const void* context_ = nullptr;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

// The team of the calling thread; null: torch's threads do the work.
Team*& this_team();

}  // namespace sglang_example_oot
