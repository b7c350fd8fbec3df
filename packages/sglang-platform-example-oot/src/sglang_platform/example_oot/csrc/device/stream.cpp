// A vendor replaces this file: streams of the device. See stream.h.
#include "stream.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/Parallel.h>
#include <Python.h>
#include <c10/util/Exception.h>
#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "../team.h"
#include "memory.h"

// Of the math library that some builds of torch contain.
extern "C" __attribute__((weak)) int MKL_Set_Num_Threads_Local(int);

namespace sglang_example_oot::device {
namespace {

// Streams of a device beside its default one; who asks for more gets one of these again, as on other devices.
constexpr size_t kStreams = 32;

std::atomic<bool> forked{false};

struct Streams {
  std::mutex mutex;
  std::vector<std::vector<std::unique_ptr<Queue>>> queues;  // by device and stream id
  size_t given = 0;                                          // of streams that others have, too
};

Streams& streams() {
  // Never destroyed: threads may outlive static objects.
  static auto* all = [] {
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    auto* made = new Streams;
    made->queues.resize(device_count());
    for (c10::DeviceIndex d = 0; d < device_count(); ++d)
      made->queues[d].push_back(std::make_unique<Queue>(default_stream(d)));
    return made;
  }();
  return *all;
}

std::vector<std::unique_ptr<Queue>>& on_device(Streams& all, c10::DeviceIndex device) {
  TORCH_CHECK_INDEX(
      device >= 0 && device < static_cast<c10::DeviceIndex>(all.queues.size()), "there is no device ",
      static_cast<int>(device), " among ", all.queues.size());
  return all.queues[device];
}

thread_local c10::DeviceIndex this_device = 0;
thread_local std::vector<c10::StreamId> this_streams;

// A thread that waits for the device must let go of Python: a task may need it (an operator written in Python).
class WithoutGil {
 public:
  WithoutGil() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

int64_t cores = 1;

// The calling thread's kernels run on the device's cores, its own and torch's, however many threads the host allows
// itself: SGLang allows one where the device is not the CPU.
void take_cores() {
  // Torch gives a thread the host's number when it first asks: torch's library once, and this one once.
  at::get_num_threads();
  at::internal::lazy_init_num_threads();
  omp_set_num_threads(static_cast<int>(cores));
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(static_cast<int>(cores));
  this_team() = new Team(static_cast<int>(cores));
}

}  // namespace

void set_cores(int64_t count) {
  cores = count;
}

uint64_t Queue::push(Task task) {
  refuse_in_child();
  uint64_t ticket;
  {
    const std::lock_guard lock(mutex_);
    if (capturing_) {
      captured_.push_back(std::move(task));
      return completed_;
    }
    if (!started_) start_thread();  // first: where there is no thread, there is no task
    tasks_.push_back(std::move(task));
    ticket = ++pushed_;
  }
  work_.notify_one();
  if (blocking_launches()) wait(ticket);
  return ticket;
}

void Queue::start_thread() {
  try {
    std::thread([this] { run(); }).detach();
  } catch (const std::system_error& error) {
    TORCH_CHECK(false, "no thread can be started for a stream of the device: ", error.what());
  }
  started_ = true;
}

void Queue::run() {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  take_cores();
  set_current_device(stream_.device_index());
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return !tasks_.empty(); });
    while (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      std::exception_ptr failure;
      try {
        task();
      } catch (...) {
        failure = std::current_exception();
      }
      task = nullptr;  // what it holds is freed before anyone hears that it is done
      lock.lock();
      if (failure && !failure_) failure_ = failure;
      ++completed_;
      progress_.notify_all();
    }
  }
}

bool Queue::done(uint64_t ticket) const {
  refuse_in_child();
  const std::lock_guard lock(mutex_);
  return completed_ >= ticket;
}

uint64_t Queue::last_ticket() const {
  refuse_in_child();
  const std::lock_guard lock(mutex_);
  return pushed_;
}

void Queue::wait_done(std::unique_lock<std::mutex>& lock, uint64_t ticket) {
  progress_.wait(lock, [&] { return completed_ >= ticket; });
}

void Queue::wait(uint64_t ticket) {
  refuse_in_child();
  std::exception_ptr failure;
  {
    const WithoutGil released;
    std::unique_lock lock(mutex_);
    TORCH_CHECK(
        !capturing_, "the host cannot wait for a stream that captures a graph: nothing runs before the graph is replayed");
    wait_done(lock, ticket);
    std::swap(failure, failure_);
  }
  if (failure) std::rethrow_exception(failure);
}

void Queue::wait_all() {
  wait(last_ticket());
}

void Queue::wait_on_device(uint64_t ticket) {
  refuse_in_child();
  const WithoutGil released;
  std::unique_lock lock(mutex_);
  wait_done(lock, ticket);
}

void Queue::begin_capture(c10::MempoolId_t pool) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!capturing_, "this stream captures a graph already");
  capturing_ = true, pool_ = pool;
  captured_.clear();
}

TaskList Queue::end_capture() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(capturing_, "this stream captures no graph");
  capturing_ = false;
  return std::move(captured_);
}

bool Queue::capturing() const {
  const std::lock_guard lock(mutex_);
  return capturing_;
}

c10::MempoolId_t Queue::capture_pool() const {
  const std::lock_guard lock(mutex_);
  return capturing_ ? pool_ : c10::MempoolId_t{0, 0};
}

Queue& queue_of(c10::Stream stream) {
  refuse_in_child();
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  const auto& queues = on_device(all, stream.device_index());
  TORCH_CHECK_INDEX(
      stream.id() >= 0 && static_cast<size_t>(stream.id()) < queues.size(), "device ",
      static_cast<int>(stream.device_index()), " has no stream ", stream.id(), "; it has ", queues.size());
  return *queues[stream.id()];
}

c10::Stream default_stream(c10::DeviceIndex device) {
  return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::DeviceType::PrivateUse1, device));
}

c10::Stream current_stream(c10::DeviceIndex device) {
  if (device < 0) device = this_device;
  const auto id = static_cast<size_t>(device) < this_streams.size() ? this_streams[device] : c10::StreamId{0};
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id);
}

c10::Stream exchange_stream(c10::Stream stream) {
  queue_of(stream);  // there is one
  const c10::Stream before = current_stream(stream.device_index());
  if (this_streams.size() < static_cast<size_t>(device_count())) this_streams.resize(device_count(), 0);
  this_streams.at(stream.device_index()) = stream.id();
  return before;
}

c10::Stream new_stream(c10::DeviceIndex device) {
  refuse_in_child();
  if (device < 0) device = this_device;
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  auto& queues = on_device(all, device);
  if (queues.size() > kStreams) return queues[1 + all.given++ % kStreams]->stream();
  const c10::Stream stream(
      c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), static_cast<c10::StreamId>(queues.size()));
  queues.push_back(std::make_unique<Queue>(stream));
  return stream;
}

void wait_device(c10::DeviceIndex device) {
  refuse_in_child();
  Streams& all = streams();
  std::vector<Queue*> queues;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& queue : on_device(all, device < 0 ? this_device : device)) queues.push_back(queue.get());
  }
  for (Queue* queue : queues)
    if (queue->last_ticket() > 0) queue->wait_all();
}

c10::DeviceIndex current_device() {
  return this_device;
}

void set_current_device(c10::DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < device_count(), "there is no device ", static_cast<int>(device));
  this_device = device;
}

bool in_bad_fork() {
  return forked;
}

void refuse_in_child() {
  TORCH_CHECK(!forked, "the device cannot be used in a forked process; start processes with the spawn method");
}

bool blocking_launches() {
  static const bool blocking = [] {
    const char* value = std::getenv("SGLANG_EXAMPLE_OOT_BLOCKING");
    return value && *value == '1';
  }();
  return blocking;
}

}  // namespace sglang_example_oot::device
