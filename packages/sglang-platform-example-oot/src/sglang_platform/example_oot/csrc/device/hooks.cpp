// A vendor replaces this file: generators, and the registration that makes all of it torch's device.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>
#include <torch/library.h>

#include <cstring>
#include <limits>

#include "generator.h"
#include "memory.h"
#include "pinned.h"
#include "stream.h"

namespace sglang_example_oot::device {
namespace {

// Seeds and state of a CPU generator, under the device's name. Its state says where it is; an offset into the stream
// from the seed, as counting generators have, is refused.
class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  GeneratorImpl(c10::DeviceIndex device, at::Generator inner)
      : c10::GeneratorImpl(
            c10::Device(c10::DeviceType::PrivateUse1, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        inner_(std::move(inner)) {}

  void set_current_seed(uint64_t seed) override {
    wait();
    inner_.set_current_seed(seed);
  }
  void set_offset(uint64_t) override {
    refuse_offset();
  }
  uint64_t get_offset() const override {
    refuse_offset();
  }
  uint64_t current_seed() const override {
    return inner_.current_seed();
  }
  uint64_t seed() override {
    wait();
    return inner_.seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    wait();
    inner_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    wait();
    return inner_.unsafeGetGeneratorImpl()->get_state();
  }
  // Two generators with one state from now on; what is queued or captured keeps the state that it has.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    const auto* own = dynamic_cast<const GeneratorImpl*>(other.get());
    TORCH_CHECK(
        own && own->device() == device(), "Expected a '", device(), "' generator to share the state of, but found '",
        other->device(), "'");
    inner_ = own->inner_;
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<GeneratorImpl>(device().index(), inner_);
  }
  const at::Generator& inner() const {
    return inner_;
  }

 private:
  GeneratorImpl* clone_impl() const override {
    wait();
    return new GeneratorImpl(device().index(), inner_.clone());
  }
  [[noreturn]] void refuse_offset() const {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "a generator of ", device(), " has no offset: get_state() and set_state() say where it is in its stream");
  }
  // Queued tasks draw from the state.
  void wait() const {
    wait_device(device().index());
  }

  at::Generator inner_;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return deviceCount() > 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return in_bad_fork() ? 0 : device_count();
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    set_current_device(device);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = current_device();
    set_current_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return new_generator(device);
  }
  at::Device getDeviceFromPtr(void* data) const override {
    const c10::DeviceIndex device = device_of_address(data);
    TORCH_CHECK(device >= 0, "the pointer names no memory of the device");
    return {c10::DeviceType::PrivateUse1, device};
  }
  bool isPinnedPtr(const void* data) const override {
    return is_pinned(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return pinned_allocator();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    TORCH_CHECK(storage.resizable(), "memory that is another's cannot be resized");
    const c10::DeviceGuard guard(storage.device());
    c10::DataPtr grown = allocator().allocate(bytes);
    const size_t kept = std::min(bytes, storage.nbytes());
    if (kept > 0) {
      Queue& queue = current_queue(storage.device().index());
      queue.push([from = kernel_address(storage.data()), to = kernel_address(grown.get()), kept] {
        std::memcpy(to, from, kept);
      });
      allocator().recordStream(storage.data_ptr(), queue.stream());
    }
    storage.set_data_ptr_noswap(std::move(grown));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

void open_device(int64_t devices, int64_t bytes_per_device, int64_t cores) {
  TORCH_CHECK(
      devices > 0 && devices <= std::numeric_limits<c10::DeviceIndex>::max() && bytes_per_device > 0 && cores > 0,
      "cannot open ", devices, " devices of ", bytes_per_device, " bytes on ", cores, " cores");
  open_memory(static_cast<c10::DeviceIndex>(devices), static_cast<size_t>(bytes_per_device));
  set_cores(cores);
  pinned_allocator();
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto* generators = [] {
    auto* made = new std::vector<at::Generator>;
    for (c10::DeviceIndex d = 0; d < device_count(); ++d) made->push_back(new_generator(d));
    return made;
  }();
  return generators->at(device < 0 ? current_device() : device);
}

at::Generator new_generator(c10::DeviceIndex device) {
  TORCH_CHECK_INDEX(device < device_count(), "there is no device ", static_cast<int>(device));
  return at::Generator(
      c10::make_intrusive<GeneratorImpl>(device < 0 ? current_device() : device, at::detail::createCPUGenerator()));
}

at::Generator kernel_generator(const at::Generator& generator) {
  const auto* own = dynamic_cast<const GeneratorImpl*>(generator.unsafeGetGeneratorImpl());
  TORCH_CHECK(
      own, "Expected a '", c10::DeviceTypeName(c10::DeviceType::PrivateUse1, true),
      "' device type for generator but found '", generator.device().type(), "'");
  return own->inner();
}

}  // namespace sglang_example_oot::device

TORCH_LIBRARY_FRAGMENT(sglang_example_oot, m) {
  using namespace sglang_example_oot::device;
  m.def("_open_device(int devices, int bytes_per_device, int cores) -> ()", open_device);
  m.def("_default_generator(int device) -> Generator?", [](int64_t device) {
    TORCH_CHECK_INDEX(device >= -1 && device < device_count(), "there is no device ", device);
    return default_generator(static_cast<c10::DeviceIndex>(device));
  });
  m.def("_device_count() -> int", [] { return static_cast<int64_t>(in_bad_fork() ? 0 : device_count()); });
  m.def("_in_bad_fork() -> bool", [] { return in_bad_fork(); });
  m.def("_is_current_stream_capturing() -> bool", [] { return current_queue(current_device()).capturing(); });
}
