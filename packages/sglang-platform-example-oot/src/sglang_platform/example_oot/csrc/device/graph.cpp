// A vendor replaces this file: graphs, behind `torch.accelerator.Graph` where torch has it (2.13), and behind the
// operators `_graph_*` on any torch.
#include <torch/library.h>

#include <unordered_map>

#include "memory.h"
#include "stream.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#define SGLANG_EXAMPLE_OOT_HAS_GRAPH_INTERFACE
#endif

namespace sglang_example_oot::device {
namespace {

// The tasks of one capture, which a replay queues as a single task.
class Graph {
 public:
  ~Graph() {
    try {
      reset();
    } catch (...) {  // a destructor has nobody to tell; the stream's next waiter hears of a failed task
    }
  }

  void begin(c10::MempoolId_t pool) {
    reset();
    pool_ = pool.first == 0 && pool.second == 0 ? new_pool() : pool;
    keep_pool(pool_);
    kept_ = true;
    queue_ = &current_queue(current_device());
    queue_->wait_all();
    queue_->begin_capture(pool_);
    capturing_ = true;
  }

  void end() {
    TORCH_CHECK(capturing_, "capture_end() without capture_begin()");
    capturing_ = false;
    tasks_ = std::make_shared<TaskList>(queue_->end_capture());
  }

  void replay() {
    TORCH_CHECK(tasks_, "this graph was not captured");
    last_ = &current_queue(current_device());
    last_->push([tasks = tasks_] {
      for (const Task& task : *tasks) task();
    });
  }

  void reset() {
    if (in_bad_fork()) return;  // the parent's memory, and no thread to wait for
    if (capturing_) end();      // given up: the stream serves again
    if (last_) last_->wait_on_device(last_->last_ticket());
    last_ = nullptr, queue_ = nullptr;
    tasks_.reset();
    if (kept_) release_pool(pool_);
    kept_ = false;
  }

  c10::MempoolId_t pool() const {
    return pool_;
  }
  size_t size() const {
    return tasks_ ? tasks_->size() : 0;
  }

 private:
  c10::MempoolId_t pool_ = {0, 0};
  bool kept_ = false, capturing_ = false;
  Queue* queue_ = nullptr;
  Queue* last_ = nullptr;
  std::shared_ptr<TaskList> tasks_;
};

#ifdef SGLANG_EXAMPLE_OOT_HAS_GRAPH_INTERFACE
struct GraphImpl final : at::GraphImplInterface {
  explicit GraphImpl(const at::GraphImplArgs&) {}
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override {
    graph_.begin(pool);
  }
  void capture_end() override {
    graph_.end();
  }
  void instantiate() override {}
  void replay() override {
    graph_.replay();
  }
  void reset() override {
    graph_.reset();
  }
  c10::MempoolId_t pool() const override {
    return graph_.pool();
  }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "this device writes no graph to ", path, "; it holds ", graph_.size(), " tasks");
  }

 private:
  Graph graph_;
};
#endif

// Graphs by number; torch calls operators without Python's lock.
class Graphs {
 public:
  int64_t add(std::shared_ptr<Graph> graph) {
    const std::lock_guard lock(mutex_);
    graphs_[++last_] = std::move(graph);
    return last_;
  }
  std::shared_ptr<Graph> at(int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = graphs_.find(number);
    TORCH_CHECK_INDEX(found != graphs_.end(), "there is no graph ", number);
    return found->second;
  }
  std::shared_ptr<Graph> take(int64_t number) {
    const std::lock_guard lock(mutex_);
    auto node = graphs_.extract(number);
    return node ? node.mapped() : nullptr;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<Graph>> graphs_;
  int64_t last_ = 0;
};

Graphs& graphs() {
  static auto* all = new Graphs;  // a graph may outlive static objects
  return *all;
}

int64_t graph_begin(int64_t pool_of) {
  auto graph = std::make_shared<Graph>();
  graph->begin(pool_of == 0 ? c10::MempoolId_t{0, 0} : graphs().at(pool_of)->pool());
  return graphs().add(std::move(graph));
}

}  // namespace
}  // namespace sglang_example_oot::device

#ifdef SGLANG_EXAMPLE_OOT_HAS_GRAPH_INTERFACE
namespace at {
// The key is the device type's name in capitals.
C10_REGISTER_CLASS(GraphImplRegistry, EXAMPLE_OOT, sglang_example_oot::device::GraphImpl)
}  // namespace at
#endif

TORCH_LIBRARY_FRAGMENT(sglang_example_oot, m) {
  using namespace sglang_example_oot::device;
  m.def("_graph_begin(int pool_of) -> int", graph_begin);
  m.def("_graph_end(int graph) -> int", [](int64_t graph) {
    const auto ended = graphs().at(graph);
    ended->end();
    return static_cast<int64_t>(ended->size());
  });
  m.def("_graph_replay(int graph) -> ()", [](int64_t graph) { graphs().at(graph)->replay(); });
  m.def("_graph_drop(int graph) -> ()", [](int64_t graph) { graphs().take(graph); });
}
