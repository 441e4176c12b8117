// Activation functions as objects: the usual ones are known at compile time, any other is looked up per
// vector and, where it needs more than exp, computed lane by lane with the C library. Codes are those of
// rnnbridge.h. slope(y) is the derivative in terms of the output, for those that rnb_plan_create lets train.
#pragma once

#include "../../include/rnnbridge.h"
#include "../kernels.h"
#include "elementary.h"

namespace rnb {
namespace RNB_ISA {

struct Sigmoid {
  template <class T>
  RNB_INLINE Vec<T> apply(Vec<T> x) const {
    return sigmoid<T>(x);
  }
  template <class T>
  RNB_INLINE Vec<T> slope(Vec<T> y) const {
    return y - y * y;
  }
};

struct Tanh {
  template <class T>
  RNB_INLINE Vec<T> apply(Vec<T> x) const {
    return tanh<T>(x);
  }
  template <class T>
  RNB_INLINE Vec<T> slope(Vec<T> y) const {
    return T(1) - y * y;
  }
};

struct Relu {
  template <class T>
  RNB_INLINE Vec<T> apply(Vec<T> x) const {
    return at_least<T>(x, T(0));
  }
};

constexpr double kSeluScale = 1.0507009873554804934, kSeluAlpha = 1.6732632423543772848;

// Computed in double for both element types: one rounding for float, and no second set of functions. The
// builtins are calls to the C library, without the inline overloads that <cmath> would bring.
inline double lane(const Activation& a, double x) {
  switch (a.code) {
    case RNB_ACTIVATION_ELU:
      return x < 0 ? a.alpha * __builtin_expm1(x) : x;
    case RNB_ACTIVATION_SELU:
      return kSeluScale * (x < 0 ? kSeluAlpha * __builtin_expm1(x) : x);
    case RNB_ACTIVATION_SOFTSIGN:
      return __builtin_isinf(x) ? __builtin_copysign(1.0, x) : x / (1 + __builtin_fabs(x));
    case RNB_ACTIVATION_SOFTPLUS:
      return (x < 0 ? 0 : x) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
    case RNB_ACTIVATION_EXPONENTIAL:
      return __builtin_exp(x);
    case RNB_ACTIVATION_SILU:
      return x / (1 + __builtin_exp(-x));
    default:
      return 0.5 * x * __builtin_erfc(x * -0.70710678118654752440);  // GELU
  }
}

struct AnyActivation {
  const Activation& a;

  template <class T>
  RNB_NOINLINE Vec<T> apply(Vec<T> x) const {
    const T alpha = T(a.alpha), beta = T(a.beta);
    const Vec<T> zero = Vec<T>{};
    switch (a.code) {
      case RNB_ACTIVATION_SIGMOID:
        return sigmoid<T>(x);
      case RNB_ACTIVATION_TANH:
        return tanh<T>(x);
      case RNB_ACTIVATION_RELU:
        return at_least<T>(x, T(0));
      case RNB_ACTIVATION_HARD_SIGMOID:
        return at_most<T>(at_least<T>(alpha * x + beta, T(0)), T(1));
      case RNB_ACTIVATION_LINEAR:
        return x;
      case RNB_ACTIVATION_AFFINE:
        return alpha * x + beta;
      case RNB_ACTIVATION_LEAKY_RELU:
        return x < zero ? alpha * x : x;
      case RNB_ACTIVATION_THRESHOLDED_RELU:
        return x <= broadcast<T>(alpha) ? zero : x;
      case RNB_ACTIVATION_SCALED_TANH:
        return alpha * tanh<T>(beta * x);
      default:
        for (int i = 0; i < kLanes<T>; ++i) x[i] = T(lane(a, double(x[i])));
        return x;
    }
  }

  template <class T>
  RNB_NOINLINE Vec<T> slope(Vec<T> y) const {
    const T alpha = T(a.alpha), beta = T(a.beta);
    const Vec<T> zero = Vec<T>{}, one = broadcast<T>(1);
    switch (a.code) {
      case RNB_ACTIVATION_SIGMOID:
        return Sigmoid{}.slope<T>(y);
      case RNB_ACTIVATION_TANH:
        return Tanh{}.slope<T>(y);
      case RNB_ACTIVATION_RELU:
        return y <= zero ? zero : one;
      case RNB_ACTIVATION_HARD_SIGMOID:
        return y <= zero ? zero : y >= one ? zero : broadcast<T>(alpha);
      case RNB_ACTIVATION_LINEAR:
        return one;
      case RNB_ACTIVATION_AFFINE:
        return broadcast<T>(alpha);
      case RNB_ACTIVATION_LEAKY_RELU:
        return y < zero ? broadcast<T>(alpha) : one;
      case RNB_ACTIVATION_THRESHOLDED_RELU:
        return y == zero ? zero : one;
      case RNB_ACTIVATION_SCALED_TANH:
        return beta * (alpha - y * y / alpha);
      case RNB_ACTIVATION_ELU:
        return y < zero ? y + alpha : one;
      case RNB_ACTIVATION_SELU:
        return y < zero ? y + T(kSeluScale * kSeluAlpha) : broadcast<T>(T(kSeluScale));
      case RNB_ACTIVATION_SOFTSIGN: {
        const Vec<T> rest = T(1) - (y < zero ? -y : y);
        return rest * rest;
      }
      case RNB_ACTIVATION_SOFTPLUS:
        for (int i = 0; i < kLanes<T>; ++i) y[i] = T(-__builtin_expm1(-double(y[i])));
        return y;
      default:  // EXPONENTIAL
        return y;
    }
  }
};

}  // namespace RNB_ISA
}  // namespace rnb
