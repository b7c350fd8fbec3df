// A vendor replaces this file: it is written for the instructions of a processor.
// Short causal convolutions over the tokens of each request, channels side by side.
#include <algorithm>
#include <cmath>
#include <vector>

#include "dispatch.h"
#include "kernels.h"

namespace sglang_example_oot {
namespace {

constexpr int64_t kChannels = 64;  // of a work item

template <typename T, typename State>
void convolve(const ShortConv& b, int64_t request, int64_t channel, int64_t count, float* inputs) {
  const int64_t slot = b.slots[request], begin = b.starts[request], tokens = b.starts[request + 1] - begin;
  const int64_t kept = b.width - 1;
  if (slot < 0 || tokens == 0) return;
  const auto state = [&](int64_t c) { return b.states.at<State>(slot, channel + c) + b.state_length - kept; };
  // [kept + tokens][kChannels]: what came before, then the tokens
  for (int64_t c = 0; c < count; ++c)
    for (int64_t j = 0; j < kept; ++j)
      inputs[j * kChannels + c] = b.resumes[request] ? static_cast<float>(state(c)[j]) : 0.0f;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t c = 0; c < count; ++c)
      inputs[(kept + t) * kChannels + c] = static_cast<float>(b.x.at<const T>(begin + t, 0)[channel + c]);

  const T* bias = static_cast<const T*>(b.bias);
  for (int64_t t = 0; t < tokens; ++t) {
    float sum[kChannels];
    for (int64_t c = 0; c < count; ++c) sum[c] = bias ? static_cast<float>(bias[channel + c]) : 0.0f;
    for (int64_t j = 0; j < b.width; ++j)
      for (int64_t c = 0; c < count; ++c)
        sum[c] += static_cast<float>(b.weight.at<const T>(channel + c, 0)[j]) * inputs[(t + j) * kChannels + c];
    T* out = b.out.at<T>(begin + t, 0) + channel;
    for (int64_t c = 0; c < count; ++c)
      out[c] = static_cast<T>(b.silu ? sum[c] / (1.0f + std::exp(-sum[c])) : sum[c]);
  }
  for (int64_t c = 0; c < count; ++c)
    for (int64_t j = 0; j < kept; ++j) state(c)[j] = static_cast<State>(inputs[(tokens + j) * kChannels + c]);
}

}  // namespace

void short_conv(const ShortConv& b) {
  const int64_t requests = static_cast<int64_t>(b.slots.size()), blocks = (b.channels + kChannels - 1) / kChannels;
  if (requests == 0) return;
  int64_t longest = 0;
  for (int64_t r = 0; r < requests; ++r) longest = std::max(longest, b.starts[r + 1] - b.starts[r]);
  const int64_t cost = (b.starts[requests] - b.starts[0]) * kChannels * b.width;
  const auto run = [&](auto* type, auto* state_type) {
    using T = std::remove_pointer_t<decltype(type)>;
    using State = std::remove_pointer_t<decltype(state_type)>;
    // Shared by channels: rows that name one slot, as padding does, then take turns.
    parallel_for(0, blocks, grain(cost), [&](int64_t begin, int64_t end) {
      float* inputs = static_cast<float*>(scratch((b.width + longest) * kChannels * sizeof(float)));
      for (int64_t i = begin; i < end; ++i)
        for (int64_t r = 0; r < requests; ++r)
          convolve<T, State>(b, r, i * kChannels, std::min(kChannels, b.channels - i * kChannels), inputs);
    });
  };
  with_type(b.x.type, [&](auto* type) {
    with_type(b.states.type, [&](auto* state_type) { run(type, state_type); });
  });
}

}  // namespace sglang_example_oot
