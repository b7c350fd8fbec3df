// A vendor replaces this file: it is written for the instructions of a processor.
// The exponential of a vector, and what is made of it.
#pragma once

#include "vec.h"

namespace sglang_example_oot {

// y * 2^n for integral n; 0 and infinity where that leaves the range.
inline VecF scale_by_power(VecF y, VecF n) {
#if defined(__AVX512F__)
  return bits<VecF>(_mm512_scalef_ps(bits<__m512>(y), bits<__m512>(n)));
#else
  const VecI exponent = __builtin_convertvector(n, VecI);
  const VecF scaled = y * bits<VecF>((exponent + 127) << 23);
  return exponent < -126 ? VecF{} : (exponent > 127 ? splat(kInf) : scaled);
#endif
}

constexpr float kLog2E = 1.44269504f;

inline VecF round_to_integer(VecF x) {
  const VecF magic = splat(12582912.0f);  // 1.5 * 2^23 leaves no bits for a fraction
  return (x + magic) - magic;
}

// 2^r for |r| <= 1/2, the minimax polynomial in the relative error: 7.5e-8 for degree 5, 7.5e-5 for degree 3.
template <int Degree>
inline VecF power_of_two(VecF r) {
  static_assert(Degree == 3 || Degree == 5);
  if constexpr (Degree == 3) {
    return ((0.0551716691f * r + 0.242611122f) * r + 0.693260985f) * r + 0.999928074f;
  } else {
    const VecF high = (0.0013276472f * r + 0.00967554133f) * r + 0.0555071327f;
    return ((high * r + 0.240221197f) * r + 0.693146967f) * r + 1.00000007f;
  }
}

// 2^x; exactly 0 far below the range of float (so for -inf).
template <int Degree>
inline VecF exp2(VecF x) {
  x = max(splat(-300.0f), x);
  const VecF n = round_to_integer(x);
  return scale_by_power(power_of_two<Degree>(x - n), n);
}

// e^x within 2 ulp, exactly 0 far below the range of float (so for -inf).
inline VecF exp(VecF x) {
  x = min(splat(200.0f), max(splat(-200.0f), x));
  const VecF n = round_to_integer(x * kLog2E);
  const VecF r = (x * kLog2E - n) + x * 1.92596299e-8f;  // log2(e) in two parts
  return scale_by_power(power_of_two<5>(r), n);
}

inline VecF soft_cap(VecF x, float cap) {
  const VecF e = exp(x * (2.0f / cap));
  return cap - (2.0f * cap) / (e + 1.0f);
}

inline VecF silu(VecF x) {
  return x / (1.0f + exp(-x));
}

}  // namespace sglang_example_oot
