// A vendor replaces this file by kernels of its own, operator by operator: every operator that the device has no kernel
// for becomes a task that runs the CPU's kernel on the device's memory.
//
// The host needs the results' shapes at once. It has them where the operator writes into tensors it is given (most do:
// torch turns `a + b` into `add.out` for a backend), else from the operator's meta kernel; where there is none, or it
// needs values, as for `nonzero`, the host waits for the stream and computes at once.
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/flat_hash_map.h>
#include <torch/library.h>

#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "alias.h"
#include "fallback.h"
#include "generator.h"
#include "memory.h"
#include "stream.h"

namespace sglang_example_oot::device {
namespace {

using c10::IValue;
using Stack = torch::jit::Stack;
using Convert = std::function<at::Tensor(const at::Tensor&)>;

// What is known of an operator from its schema, found out once.
struct Traits {
  bool writes = false;      // into an argument
  bool returns_new = false;  // a tensor that is no argument
  bool views = false;
  bool plain_returns = true;  // nothing but tensors
  bool mixes_devices = false;  // takes indices from the host
  bool into_new = false;       // its results' memory is its own
  bool has_meta = false;
  int generator = -1;
  std::optional<c10::OperatorHandle> out;  // the overload that writes into given tensors
};

bool is_tensor_type(const c10::TypePtr& type) {
  return type->isSubtypeOf(*c10::TensorType::get());
}

// True for kernels that misuse the memory they are given for a result: the losses compute in it what is larger, the
// norms take the mean of a tensor that is not contiguous from what lay there.
bool only_into_new(const c10::FunctionSchema& schema) {
  static const std::unordered_set<std::string> names = {
      "aten::binary_cross_entropy", "aten::huber_loss", "aten::native_batch_norm", "aten::_native_batch_norm_legit"};
  return names.count(schema.name()) > 0;
}

// The overload of `op` with the same arguments and one out tensor per result.
std::optional<c10::OperatorHandle> find_out(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  if (only_into_new(schema)) return std::nullopt;
  for (const char* suffix : {"out", "_out"}) {
    const std::string own = schema.overload_name();
    const std::string name = suffix[0] == 'o' ? (own.empty() ? "out" : own + "_out") : own + suffix;
    const auto found = c10::Dispatcher::singleton().findSchema({schema.name(), name});
    if (!found || !found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    const auto& arguments = found->schema().arguments();
    if (arguments.size() != schema.arguments().size() + schema.returns().size()) continue;
    bool same = true;
    for (size_t i = 0; i < schema.arguments().size(); ++i)
      same = same && arguments[i].name() == schema.arguments()[i].name() && !arguments[i].is_out();
    for (size_t i = schema.arguments().size(); i < arguments.size(); ++i) same = same && arguments[i].is_out();
    if (same) return found;
  }
  return std::nullopt;
}

// Meta kernels that say nothing of what the CPU does. Of a rounded tensor torch computes 10 ** decimals in Python,
// however many decimals there are; of bags and batches the CPU leaves out tensors that others have; of one row's losses
// it makes a number.
bool misleads_about_shapes(const c10::FunctionSchema& schema) {
  static const std::unordered_set<std::string> names = {
      "aten::_embedding_bag", "aten::_embedding_bag_forward_only", "aten::multilabel_margin_loss_forward",
      "aten::native_batch_norm", "aten::_native_batch_norm_legit"};
  return names.count(schema.name()) > 0 ||
      (schema.name() == "aten::round" && schema.overload_name().find("decimals") == 0);
}

// Fill an out tensor of as many elements as it is, where others would give it a shape of one dimension.
bool counts_up(const c10::FunctionSchema& schema) {
  return schema.name() == "aten::arange" || schema.name() == "aten::linspace" || schema.name() == "aten::logspace";
}

Traits examine(const c10::OperatorHandle& op) {
  Traits traits;
  const auto& schema = op.schema();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    if (argument.alias_info() && argument.alias_info()->isWrite()) traits.writes = true;
    if (argument.name() == "generator") traits.generator = static_cast<int>(i);
  }
  for (const auto& value : schema.returns()) {
    if (!is_tensor_type(value.type())) traits.plain_returns = false;
    else if (!value.alias_info()) traits.returns_new = true;
    else if (!value.alias_info()->isWrite()) traits.views = true;
  }
  static const std::unordered_set<std::string> takes_host_indices = {
      "aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"};
  traits.mixes_devices = takes_host_indices.count(schema.name()) > 0;
  traits.into_new = only_into_new(schema);
  traits.has_meta = op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta) && !misleads_about_shapes(schema);
  if (traits.returns_new && !traits.writes && traits.plain_returns) traits.out = find_out(op);
  return traits;
}

const Traits& traits_of(const c10::OperatorHandle& op) {
  static std::shared_mutex mutex;
  static auto* known = new std::unordered_map<c10::OperatorName, std::unique_ptr<Traits>>;
  {
    const std::shared_lock lock(mutex);
    const auto found = known->find(op.operator_name());
    if (found != known->end()) return *found->second;
  }
  auto made = std::make_unique<Traits>(examine(op));
  const std::unique_lock lock(mutex);
  return *known->emplace(op.operator_name(), std::move(made)).first->second;
}

// Whether Python holds the tensor. Torch named the question anew in 2.10.
template <typename Slot>
auto known_to_python(const Slot& slot) -> decltype(slot.load_pyobj() != nullptr) {
  return slot.load_pyobj() != nullptr;
}
template <typename Slot>
auto known_to_python(const Slot& slot) -> decltype(slot.check_pyobj().has_value()) {
  return slot.check_pyobj().has_value();
}

// `value` with every tensor converted; devices become `device`.
IValue converted(const IValue& value, const Convert& convert, c10::DeviceType device) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(convert(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(t.defined() ? convert(t) : t);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      list.push_back(t && t->defined() ? std::optional<at::Tensor>(convert(*t)) : t);
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) return c10::Device(device);
  if (value.isGenerator()) return kernel_generator(value.toGenerator());
  return value;
}

// `t`, laid out as it is, in other memory.
at::Tensor in_own_memory(const at::Tensor& t) {
  const size_t bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.dtype().itemsize());
  const auto all = t.as_strided({static_cast<int64_t>(bytes / t.dtype().itemsize())}, {1}, t.storage_offset());
  return all.clone().as_strided(t.sizes(), t.strides(), 0);
}

// The device of the call: that of its tensors, which must be one, else the one it names, else its generator's, else the
// current one. Its generator must be of that device: torch calls the device for CPU tensors with the device's generator.
c10::DeviceIndex device_of_call(
    const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments, int generator_argument) {
  std::optional<c10::DeviceIndex> found;
  std::optional<c10::DeviceType> elsewhere;
  const auto note = [&](c10::Device device) {
    if (device.type() != c10::DeviceType::PrivateUse1) {
      elsewhere = device.type();
      return;
    }
    TORCH_CHECK(
        !found || *found == device.index(), "operator ", op.operator_name(),
        ": expected all tensors on one device, but found them on devices ", static_cast<int>(found.value_or(0)), " and ",
        static_cast<int>(device.index()));
    found = device.index();
  };
  const Convert look = [&](const at::Tensor& t) {
    note(t.device());
    return t;
  };
  for (const IValue& value : arguments)
    if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList())
      converted(value, look, c10::DeviceType::PrivateUse1);
  for (const IValue& value : arguments)
    if (!found && value.isDevice() && value.toDevice().has_index()) note(value.toDevice());
  if (generator_argument < 0 || !arguments[generator_argument].isGenerator()) return found.value_or(current_device());
  const c10::Device given = arguments[generator_argument].toGenerator().device();
  const auto expected = !found && elsewhere ? *elsewhere : c10::DeviceType::PrivateUse1;
  TORCH_CHECK(
      given.type() == expected, "Expected a '", expected, "' device type for generator but found '", given.type(), "'");
  TORCH_CHECK(
      !found || *found == given.index(), "operator ", op.operator_name(), ": expected a generator of device ",
      static_cast<int>(found.value_or(0)), " but found one of device ", static_cast<int>(given.index()));
  return given.index();
}

class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack* stack)
      : op_(op),
        traits_(traits_of(op)),
        stack_(*stack),
        count_(op.schema().arguments().size()),
        arguments_(stack->end() - static_cast<std::ptrdiff_t>(count_), stack->end()),
        device_(device_of_call(op, arguments_, traits_.generator)),
        queue_(current_queue(device_)) {}

  void run() {
    TORCH_CHECK_NOT_IMPLEMENTED(
        op_.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "operator ", op_.operator_name(),
        " has a kernel neither for this device nor for the CPU, on which the device falls back");
    check_written();
    if (traits_.views && !traits_.returns_new) return make_view();
    const bool into_given = traits_.writes && !traits_.returns_new && traits_.plain_returns && !traits_.into_new;
    if (into_given && given_have_shapes()) return write_into_given();
    if (!traits_.writes && !traits_.views && traits_.plain_returns && write_into_new()) return;
    compute_now();
  }

 private:
  // What is written is the device's: of a number on the host a kernel would get a copy.
  void check_written() const {
    for (size_t i = 0; i < count_; ++i) {
      const auto* alias = op_.schema().arguments()[i].alias_info();
      if (!alias || !alias->isWrite() || !arguments_[i].isTensor() || !arguments_[i].toTensor().defined()) continue;
      TORCH_CHECK(
          on_device(arguments_[i].toTensor()), "operator ", op_.operator_name(), ": its argument ",
          op_.schema().arguments()[i].name(), " is written, and is on ", arguments_[i].toTensor().device(),
          ", not on the device");
    }
  }

  // For a task that runs later: views of device tensors, copies of what the host may change.
  at::Tensor for_kernel(const at::Tensor& t) const {
    if (on_device(t)) return view_of(t);
    const bool number = t.dim() == 0;
    TORCH_CHECK(
        number || traits_.mixes_devices, "operator ", op_.operator_name(),
        ": expected all tensors on the device, but one of shape ", t.sizes(), " is on ", t.device());
    return number && t.unsafeGetTensorImpl()->is_wrapped_number() ? t : t.clone();
  }

  // One view for one tensor, and one memory for all that share it: kernels refuse results that overlap what they read.
  // Looked up, not searched: of a list of thousands of tensors the time of a search grows with the square.
  at::Tensor view_of(const at::Tensor& t) const {
    at::Tensor& view = views_[t.unsafeGetTensorImpl()];
    if (!view.defined()) {
      const auto [memory, first] = memories_.emplace(t.storage().unsafeGetStorageImpl(), c10::Storage());
      view = kernel_view(t, first ? nullptr : &memory->second);
      if (first) memory->second = view.storage();
    }
    return view;
  }

  Stack kernel_arguments() const {
    Stack made;
    made.reserve(count_ + 1);
    for (const IValue& value : arguments_)
      made.push_back(converted(value, [this](const at::Tensor& t) { return for_kernel(t); }, c10::DeviceType::CPU));
    if (traits_.generator >= 0 && made[traits_.generator].isNone())
      made[traits_.generator] = kernel_generator(default_generator(device_));
    return made;
  }

  void write_into_given() {
    queue_.push([op = op_, arguments = kernel_arguments(), outs = outs()] {
      Stack stack = arguments;
      op.callBoxed(stack);
      for (const auto& [i, shape] : outs)
        TORCH_CHECK(
            arguments[i].toTensor().sizes() == c10::IntArrayRef(shape), "operator ", op.operator_name(),
            " gives a result of shape ", arguments[i].toTensor().sizes(), ", and had memory for ", c10::IntArrayRef(shape));
    });
    finish({});
  }

  // False where the shapes cannot be known before the values are.
  bool write_into_new() {
    std::vector<at::Tensor> results;
    if (!infer(results)) return false;
    Stack arguments = kernel_arguments();
    std::vector<at::Tensor> views;
    for (const at::Tensor& t : results) views.push_back(kernel_view(t));
    if (traits_.out) {
      for (const at::Tensor& t : views) arguments.emplace_back(t);
      std::vector<c10::DimVector> strides;
      for (const at::Tensor& t : views) strides.emplace_back(t.strides());
      queue_.push([op = *traits_.out, arguments = std::move(arguments), views = std::move(views),
                   strides = std::move(strides)] {
        Stack stack = arguments;
        op.callBoxed(stack);
        // A kernel may have laid its result out anew, in the same memory.
        for (size_t i = 0; i < views.size(); ++i)
          if (views[i].strides() != c10::IntArrayRef(strides[i])) {
            const at::Tensor result = views[i].clone();
            views[i].unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), strides[i]);
            views[i].copy_(result);
          }
      });
    } else {
      queue_.push([op = op_, arguments = std::move(arguments), views = std::move(views)] {
        Stack stack = arguments;
        op.callBoxed(stack);
        for (size_t i = 0; i < views.size(); ++i) views[i].copy_(stack[i].toTensor());
      });
    }
    finish(results);
    return true;
  }

  // The arguments as shapes without values.
  Stack shapes() const {
    Stack made;
    for (const IValue& value : arguments_)
      made.push_back(converted(
          value,
          [](const at::Tensor& t) {
            return t.dim() == 0 && !on_device(t)
                ? t
                : at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::DeviceType::Meta));
          },
          c10::DeviceType::Meta));
    return made;
  }

  // False where the results' shapes depend on values, or for a wrong call: computing it says which.
  bool run_on_shapes(Stack& stack) const {
    if (!traits_.has_meta) return false;
    try {
      op_.callBoxed(stack);
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }

  bool infer(std::vector<at::Tensor>& results) const {
    Stack stack = shapes();
    if (!run_on_shapes(stack)) return false;
    for (const IValue& value : stack) {
      if (!value.isTensor() || !value.toTensor().defined() || !is_plain(value.toTensor())) return false;
      results.push_back(empty_like_result(value.toTensor()));
    }
    return true;
  }

  static bool is_plain(const at::Tensor& t) {
    return t.layout() == at::kStrided && !t.is_quantized();
  }

  // Memory for a result. One that repeats an argument's elements, as of an expanded one, gets each of its own.
  at::Tensor empty_like_result(const at::Tensor& t) const {
    TORCH_CHECK_NOT_IMPLEMENTED(
        is_plain(t), "operator ", op_.operator_name(), " gives a tensor of layout ", t.layout(), " and type ",
        t.scalar_type(), "; the device has dense tensors of plain types only");
    if (at::has_internal_overlap(t) == at::MemOverlap::Yes) return at::empty(t.sizes(), device_options(t));
    return at::empty_strided(t.sizes(), t.strides(), device_options(t));
  }

  at::TensorOptions device_options(const at::Tensor& like) const {
    return like.options().device(c10::Device(c10::DeviceType::PrivateUse1, device_)).pinned_memory(false);
  }

  // Where the out tensors stand, and their shapes before the kernel runs.
  std::vector<std::pair<size_t, c10::DimVector>> outs() const {
    std::vector<std::pair<size_t, c10::DimVector>> found;
    for (size_t i = 0; i < count_; ++i)
      if (is_out(i)) found.emplace_back(i, arguments_[i].toTensor().sizes());
    return found;
  }

  bool is_out(size_t i) const {
    return op_.schema().arguments()[i].is_out() && arguments_[i].isTensor() && arguments_[i].toTensor().defined();
  }

  // True for an out tensor in the memory of another argument.
  bool shares_memory(size_t i) const {
    const at::Tensor& given = arguments_[i].toTensor();
    for (size_t j = 0; j < count_; ++j)
      if (j != i && arguments_[j].isTensor() && on_device(arguments_[j].toTensor()) && given.nbytes() > 0 &&
          arguments_[j].toTensor().storage().is_alias_of(given.storage()))
        return true;
    return false;
  }

  // True for an out tensor that may have another shape than the result: one without elements, and one that Python gave
  // for nothing but the result. What torch made for the result has its shape.
  bool takes_its_shape(size_t i) const {
    if (!is_out(i)) return false;
    const at::Tensor& given = arguments_[i].toTensor();
    if (given.numel() == 0) return true;
    if (!known_to_python(*given.unsafeGetTensorImpl()->pyobj_slot())) return false;
    for (size_t j = 0; j < count_; ++j)
      if (j != i && arguments_[j].isTensor() && arguments_[j].toTensor().is_same(given)) return false;
    return true;
  }

  // Gives out tensors the result's shape. False where only computing tells it.
  bool given_have_shapes() const {
    std::vector<size_t> open;
    bool empty = false;
    for (size_t i = 0; i < count_; ++i) {
      if (!takes_its_shape(i)) continue;
      open.push_back(i);
      empty = empty || arguments_[i].toTensor().numel() == 0;
    }
    if (open.empty()) return true;
    const Stack arguments = shapes();
    Stack stack = arguments;
    if (!run_on_shapes(stack)) return !empty && queue_.capturing();  // a capture cannot compute: trust the caller
    for (const size_t i : open) {
      const at::Tensor &given = arguments_[i].toTensor(), &shaped = arguments[i].toTensor();
      if (given.sizes() == shaped.sizes() || (counts_up(op_.schema()) && given.numel() == shaped.numel())) continue;
      at::assert_no_internal_overlap(given);
      given.resize_(shaped.sizes());
    }
    return true;
  }

  void make_view() {
    Stack stack;
    std::optional<at::Tensor> base;
    for (const IValue& value : arguments_) {
      if (value.isTensor() && !base) base = value.toTensor();
      stack.push_back(converted(value, [](const at::Tensor& t) { return kernel_view(t); }, c10::DeviceType::CPU));
    }
    op_.callBoxed(stack);
    const Convert on_base = [&](const at::Tensor& view) {
      auto made = at::detail::make_tensor<c10::TensorImpl>(
          c10::TensorImpl::VIEW, c10::Storage(base->storage()), base->key_set(), view.dtype());
      made.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes(), view.strides(), view.storage_offset());
      keep_pending(made, view);
      return made;
    };
    torch::jit::drop(stack_, count_);
    for (const IValue& value : stack) stack_.push_back(converted(value, on_base, c10::DeviceType::PrivateUse1));
  }

  // The host waits and runs the CPU's kernel itself.
  void compute_now() {
    queue_.wait_all();
    Stack stack = kernel_arguments();
    std::vector<std::pair<at::Tensor, at::Tensor>> resized;  // out tensors of the device, and what stands for them
    for (size_t i = 0; i < count_; ++i) {
      if (!is_out(i)) continue;
      const at::Tensor& given = arguments_[i].toTensor();
      if (shares_memory(i)) {  // the kernel must see that
        resized.emplace_back(given, stack[i].toTensor());
        continue;
      }
      stack[i] = in_own_memory(stack[i].toTensor());  // with its elements: some kernels add to what is there
      resized.emplace_back(given, stack[i].toTensor());
    }
    op_.callBoxed(stack);
    for (auto& [given, made] : resized) {
      const bool apart = made.const_data_ptr() != kernel_address(given.const_data_ptr());
      given.resize_(made.sizes());
      if (apart) given.copy_(made);
    }
    std::vector<IValue> fresh;
    for (size_t i = 0; i < stack.size(); ++i) {
      if (op_.schema().returns()[i].alias_info()) continue;
      fresh.push_back(converted(
          stack[i],
          [this](const at::Tensor& t) {
            return empty_like_result(t).copy_(t);
          },
          c10::DeviceType::PrivateUse1));
    }
    finish_values(std::move(fresh));
  }

  void finish(const std::vector<at::Tensor>& fresh) {
    finish_values(std::vector<IValue>(fresh.begin(), fresh.end()));
  }

  // Replaces the arguments on the stack by the results: arguments that were written, and what is fresh, in order.
  void finish_values(std::vector<IValue> fresh) {
    size_t next = 0;
    std::vector<IValue> results;
    for (const auto& value : op_.schema().returns()) {
      if (!value.alias_info()) {
        results.push_back(std::move(fresh.at(next++)));
        continue;
      }
      for (size_t i = 0; i < count_; ++i) {
        const auto* alias = op_.schema().arguments()[i].alias_info();
        if (alias && alias->beforeSets() == value.alias_info()->beforeSets()) {
          results.push_back(arguments_[i]);
          break;
        }
      }
    }
    torch::jit::drop(stack_, count_);
    for (IValue& value : results) stack_.push_back(std::move(value));
  }

  const c10::OperatorHandle& op_;
  const Traits& traits_;
  Stack& stack_;
  const size_t count_;
  const std::vector<IValue> arguments_;
  const c10::DeviceIndex device_;
  Queue& queue_;
  mutable ska::flat_hash_map<const at::TensorImpl*, at::Tensor> views_;
  mutable ska::flat_hash_map<const c10::StorageImpl*, c10::Storage> memories_;
};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  Call(op, stack).run();
}

}  // namespace

std::vector<c10::IValue> fall_back(const char* name, std::vector<c10::IValue> arguments, const char* overload) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  Call(op, &arguments).run();
  return arguments;
}

}  // namespace sglang_example_oot::device

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&sglang_example_oot::device::fallback>());
}

// Torch has functions of its own for these, for every device, in which it looks for kernels of devices that it knows, or
// reads and writes the memory as if it were the host's, or gives a result memory of another shape.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name :
       {"kaiser_window", "kaiser_window.periodic", "kaiser_window.beta", "mode", "mode.values", "range.out_",
        "_rowwise_prune", "softmax.int_out", "log_softmax.int_out"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&sglang_example_oot::device::fallback>());
}
