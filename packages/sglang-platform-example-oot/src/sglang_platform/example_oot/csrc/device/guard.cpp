// A vendor replaces this file: what torch calls to switch devices and streams, and for events.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#if __has_include(<c10/core/DeviceCapability.h>)  // torch 2.12 or later
#include <c10/core/DeviceCapability.h>
#endif

#include <chrono>

#include "memory.h"
#include "stream.h"

namespace sglang_example_oot::device {
namespace {

using Clock = std::chrono::steady_clock;

// An event is the ticket of the last task queued before it.
struct Event {
  Queue* queue = nullptr;
  uint64_t ticket = 0;
  std::shared_ptr<Clock::time_point> when;  // with timing: written by the stream's thread

  bool done() const {
    return !queue || queue->done(ticket);
  }
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return c10::DeviceType::PrivateUse1;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {c10::DeviceType::PrivateUse1, current_device()};
  }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index() && device.index() < device_count()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return in_bad_fork() ? 0 : device_count();
  }

#if __has_include(<c10/core/DeviceCapability.h>)
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability can;
    auto& types = can.capability_data.supported_scalar_types;
    types.has_QInt8 = types.has_QUInt8 = types.has_QInt32 = types.has_QUInt4x2 = types.has_QUInt2x4 = 0;
    return can;
  }
#endif

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(device.has_index() ? device.index() : current_device());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return new_stream(device.index());
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return new_stream(device.index());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return exchange_stream(stream);
  }
  bool queryStream(const c10::Stream& stream) const override {
    const Queue& queue = queue_of(stream);
    return queue.done(queue.last_ticket());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    queue_of(stream).wait_all();
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    wait_device(device);
  }
  bool isStreamCapturing(const c10::Stream& stream) const override {
    return queue_of(stream).capturing();
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag flag) const override {
    if (*event == nullptr) *event = new Event;
    auto* e = static_cast<Event*>(*event);
    e->queue = &queue_of(stream);
    if (flag == c10::EventFlag::BACKEND_DEFAULT) {
      e->when = std::make_shared<Clock::time_point>();
      e->ticket = e->queue->push([when = e->when] { *when = Clock::now(); });
    } else {
      e->ticket = e->queue->last_ticket();
    }
  }
  void block(void* event, const c10::Stream& stream) const override {
    const auto* e = static_cast<Event*>(event);
    Queue& queue = queue_of(stream);
    if (!e || e->queue == &queue || e->done()) return;
    queue.push([other = e->queue, ticket = e->ticket] { other->wait_on_device(ticket); });
  }
  bool queryEvent(void* event) const override {
    return !event || static_cast<Event*>(event)->done();
  }
  void synchronizeEvent(void* event) const override {
    const auto* e = static_cast<Event*>(event);
    if (e && e->queue) e->queue->wait(e->ticket);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* begin, void* end, c10::DeviceIndex) const override {
    const auto *a = static_cast<Event*>(begin), *b = static_cast<Event*>(end);
    TORCH_CHECK(a && b && a->when && b->when, "both events must be recorded, and made with enable_timing=True");
    TORCH_CHECK(a->done() && b->done(), "both events must be over before the time between them is asked for");
    return std::chrono::duration<double, std::milli>(*b->when - *a->when).count();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    allocator().recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace sglang_example_oot::device
