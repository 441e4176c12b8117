// sigmoid and tanh of whole vectors, from one polynomial: exp(r) - 1 = r + r^2 p(r) on |r| <= ln(2) / 2, p by
// Remez exchange for the smallest relative error (2^-28.5 in float32, 2^-59 in float64).
#pragma once

#include "simd.h"

namespace rnb {
namespace RNB_ISA {

template <class T>
struct Exp;

template <>
struct Exp<float> {
  static constexpr int kMantissaBits = 23;
  // 1.5 * 2^23 + 127: adding it rounds to an integer and leaves the biased exponent in the low bits.
  static constexpr float kRound = 12583039.0f;
  static constexpr float kLog2E = 1.44269504088896341f;
  // ln 2 in two parts; the first is so short that its product with n is exact.
  static constexpr float kLn2Hi = 0.693359375f;
  static constexpr float kLn2Lo = -2.12194440e-4f;
  // exp(kLowest) vanishes beside 1; 1 / exp(kHighest) is below the smallest normal number, which is to say 0
  // (denormals.h), and 2^n is finite between them.
  static constexpr float kLowest = -87.0f;
  static constexpr float kHighest = 88.0f;
  // tanh(x) rounds to 1 long before 2x gets here.
  static constexpr float kTanhSaturated = 40.0f;
  static RNB_INLINE Vec<float> polynomial(Vec<float> r) {
    Vec<float> p = 1.9913663e-4f * r + 1.39403262e-3f;
    p = p * r + 8.33327416e-3f;
    p = p * r + 4.16663662e-2f;
    p = p * r + 1.66666672e-1f;
    return p * r + 0.5f;
  }
};

template <>
struct Exp<double> {
  static constexpr int kMantissaBits = 52;
  static constexpr double kRound = 6755399441055744.0 + 1023.0;
  static constexpr double kLog2E = 1.44269504088896340736;
  static constexpr double kLn2Hi = 6.93147180369123816490e-01;
  static constexpr double kLn2Lo = 1.90821492927058770002e-10;
  static constexpr double kLowest = -708.0;
  static constexpr double kHighest = 709.0;
  static constexpr double kTanhSaturated = 80.0;
  static RNB_INLINE Vec<double> polynomial(Vec<double> r) {
    Vec<double> p = 2.0924166590421336e-9 * r + 2.5108693630618122e-8;
    p = p * r + 2.7557243812372671e-7;
    p = p * r + 2.7557245280102425e-6;
    p = p * r + 2.4801587359067364e-5;
    p = p * r + 1.9841269884955887e-4;
    p = p * r + 1.3888888888867789e-3;
    p = p * r + 8.3333333333221495e-3;
    p = p * r + 4.1666666666666699e-2;
    p = p * r + 1.6666666666666677e-1;
    return p * r + 0.5;
  }
};

// exp(x) = scale * (1 + fraction); x within [kLowest, kHighest].
template <class T>
struct ExpParts {
  Vec<T> scale;
  Vec<T> fraction;
};

template <class T>
RNB_INLINE ExpParts<T> exp_parts(Vec<T> x) {
  using E = Exp<T>;
  const Vec<T> rounded = x * E::kLog2E + E::kRound;
  const Vec<T> scale = (Vec<T>)((Int<T>)rounded << E::kMantissaBits);
  const Vec<T> n = rounded - E::kRound;
  Vec<T> r = x - n * E::kLn2Hi;
  r = r - n * E::kLn2Lo;
  return {scale, (r * r) * E::polynomial(r) + r};
}

// 1 / (1 + exp(-x)), the sum with one rounding: scale + 1 is exact wherever both of them count.
template <class T>
RNB_INLINE Vec<T> sigmoid(Vec<T> x) {
  using E = Exp<T>;
  const ExpParts<T> e = exp_parts<T>(at_most<T>(at_least<T>(-x, E::kLowest), E::kHighest));
  return T(1) / (e.scale * e.fraction + (e.scale + T(1)));
}

// With m = exp(2|x|) - 1, tanh |x| = m / (m + 2); m keeps its relative accuracy down to the smallest x.
template <class T>
RNB_INLINE Vec<T> tanh(Vec<T> x) {
  const Int<T> sign_bit = (Int<T>)broadcast<T>(T(-0.0));
  const Int<T> sign = (Int<T>)x & sign_bit;
  const Vec<T> magnitude = (Vec<T>)((Int<T>)x & ~sign_bit);
  const ExpParts<T> e = exp_parts<T>(at_most<T>(magnitude + magnitude, Exp<T>::kTanhSaturated));
  const Vec<T> m = e.scale * e.fraction + (e.scale - T(1));
  return (Vec<T>)((Int<T>)(m / (m + T(2))) | sign);
}

}  // namespace RNB_ISA
}  // namespace rnb
