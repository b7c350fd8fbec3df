// A vendor replaces this file by its communication library: collectives as tasks of the stream, in host memory, by gloo.
//
// Being operators, they are queued and captured into graphs like any other; all ranks queue them in the same order.
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace sglang_example_oot::device {
namespace {

// Messages on their way. A stream does not stand still until the peer receives: two stages of a pipeline each send
// before they receive. A message that failed is told by the next send.
class Outbox {
 public:
  void post(const c10::intrusive_ptr<c10d::Backend>& backend, const at::Tensor& tensor, int peer) {
    std::exception_ptr failure;
    {
      const std::lock_guard lock(mutex_);
      std::swap(failure, failure_);
    }
    if (failure) std::rethrow_exception(failure);
    std::vector<at::Tensor> message{tensor.clone()};  // the stream may write to the tensor while it is on its way
    auto work = backend->send(message, peer, 0);
    const std::lock_guard lock(mutex_);
    messages_.push_back({std::move(message[0]), std::move(work)});
    if (!started_) std::thread([this] { run(); }).detach();
    started_ = true;
    posted_.notify_one();
  }

 private:
  struct Message {
    at::Tensor tensor;
    c10::intrusive_ptr<c10d::Work> work;
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      posted_.wait(lock, [this] { return !messages_.empty(); });
      Message message = std::move(messages_.front());
      messages_.pop_front();
      lock.unlock();
      std::exception_ptr failure;
      try {
        message.work->wait();
      } catch (...) {
        failure = std::current_exception();
      }
      message = {};
      lock.lock();
      if (failure && !failure_) failure_ = failure;
    }
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Message> messages_;
  std::exception_ptr failure_;
  bool started_ = false;
};

Outbox& outbox() {
  static auto* one = new Outbox;  // never destroyed: its thread may outlive static objects
  return *one;
}

// One collective of the group registered as `group`. `argument`: the reduction for all_reduce and reduce_scatter, the
// root of broadcast, the peer of send and recv.
void collective(
    std::string kind, std::string group, at::TensorList outputs, at::TensorList inputs, int64_t argument) {
  const auto backend = c10d::resolve_process_group(group)->getBackend(c10::DeviceType::CPU);
  std::vector<at::Tensor> out = outputs.vec(), in = inputs.vec();
  const auto rank = backend->getRank();
  c10d::AllreduceOptions reduce;
  reduce.reduceOp = static_cast<c10d::ReduceOp::RedOpType>(argument);
  if (kind == "all_reduce") {
    backend->allreduce(out, reduce)->wait();
  } else if (kind == "broadcast") {
    c10d::BroadcastOptions options;
    options.rootRank = argument;
    backend->broadcast(out, options)->wait();
  } else if (kind == "all_gather") {
    std::vector<std::vector<at::Tensor>> lists{out};
    backend->allgather(lists, in)->wait();
  } else if (kind == "all_gather_single") {
    backend->_allgather_base(out[0], in[0])->wait();
  } else if (kind == "reduce_scatter") {  // each rank's part of the sum of all
    std::vector<at::Tensor> total{in[0].clone()};
    backend->allreduce(total, reduce)->wait();
    const auto rows = out[0].numel();
    out[0].view(-1).copy_(total[0].view(-1).narrow(0, rank * rows, rows));
  } else if (kind == "all_to_all_single") {
    std::vector<int64_t> equal;
    backend->alltoall_base(out[0], in[0], equal, equal)->wait();
  } else if (kind == "send") {
    outbox().post(backend, in[0], static_cast<int>(argument));
  } else if (kind == "recv") {
    backend->recv(out, static_cast<int>(argument), 0)->wait();
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "the device has no collective ", kind);
  }
}

}  // namespace
}  // namespace sglang_example_oot::device

TORCH_LIBRARY_FRAGMENT(sglang_example_oot, m) {
  m.def("collective(str kind, str group, Tensor(a!)[] outputs, Tensor[] inputs, int argument=0) -> ()");
}

TORCH_LIBRARY_IMPL(sglang_example_oot, CPU, m) {
  m.impl("collective", sglang_example_oot::device::collective);
}
