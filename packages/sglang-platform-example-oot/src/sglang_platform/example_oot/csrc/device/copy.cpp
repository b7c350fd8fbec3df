// A vendor replaces this file: copies between the device, the host and other devices.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_copy_from_and_resize_native.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "alias.h"
#include "memory.h"
#include "stream.h"

namespace sglang_example_oot::device {
namespace {

constexpr size_t kStagedBytes = size_t{1} << 20;

at::Tensor from_host(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  Queue& queue = current_queue(dst.device().index());
  at::Tensor source = self;
  bool wait = false;
  // The host may change ordinary memory once the call is over; pinned memory it leaves alone until it has waited.
  if (!(non_blocking && self.is_pinned())) {
    if (queue.capturing() || self.nbytes() <= kStagedBytes) source = self.clone();
    else wait = true;
  }
  const uint64_t ticket = queue.push([to = kernel_view(dst), source] { to.copy_(source); });
  if (wait) queue.wait(ticket);
  return dst;
}

at::Tensor to_host(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  Queue& queue = current_queue(self.device().index());
  const uint64_t ticket = queue.push([to = dst, from = kernel_view(self)] { to.copy_(from); });
  if (!(non_blocking && dst.is_pinned())) queue.wait(ticket);
  return dst;
}

at::Tensor between_devices(const at::Tensor& self, const at::Tensor& dst) {
  Queue& queue = current_queue(dst.device().index());
  at::assert_no_partial_overlap(dst, self);
  const bool two = self.device() != dst.device();
  if (two) wait_device(self.device().index());
  const uint64_t ticket = queue.push([to = kernel_view(dst), from = kernel_view(self)] { to.copy_(from); });
  // What the source's stream does next may write over the source.
  if (two) current_queue(self.device().index()).push([&queue, ticket] { queue.wait_on_device(ticket); });
  return dst;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  const at::Tensor source = self.sizes() == dst.sizes() ? self : self.expand_as(dst);
  if (dst.numel() == 0) return dst;
  if (!on_device(source)) return from_host(source, dst, non_blocking);
  if (!on_device(dst)) return to_host(source, dst, non_blocking);
  return between_devices(source, dst);
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

}  // namespace
}  // namespace sglang_example_oot::device

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", sglang_example_oot::device::copy_from);
  m.impl("_copy_from_and_resize", sglang_example_oot::device::copy_from_and_resize);
}

// What is still to be conjugated or negated is so by the copy. Torch would do it first, into a copy, and again come here.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
