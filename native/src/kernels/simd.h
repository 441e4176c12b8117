// A vector of RNB_VECTOR_BYTES bytes of float or double, in GCC's and Clang's vector extensions.
// Kernel sources are compiled once per instruction set and must include no header with inline functions of
// external linkage: the linker could keep the copy that holds instructions which another machine lacks.
#pragma once

#include <stdint.h>

#if defined(__clang__)
#define RNB_UNROLL(n) _Pragma("clang loop unroll(full)")
#define RNB_UNROLL_BY_2 _Pragma("clang loop unroll_count(2)")
#else
#define RNB_UNROLL(n) _Pragma("GCC unroll 8")
#define RNB_UNROLL_BY_2 _Pragma("GCC unroll 2")
#endif
#define RNB_INLINE inline __attribute__((always_inline))
#define RNB_NOINLINE __attribute__((noinline))

namespace rnb {
namespace RNB_ISA {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  typedef float V __attribute__((vector_size(RNB_VECTOR_BYTES)));
  typedef float Memory __attribute__((vector_size(RNB_VECTOR_BYTES), aligned(4), may_alias));
  typedef int32_t I __attribute__((vector_size(RNB_VECTOR_BYTES)));
};

template <>
struct Simd<double> {
  typedef double V __attribute__((vector_size(RNB_VECTOR_BYTES)));
  typedef double Memory __attribute__((vector_size(RNB_VECTOR_BYTES), aligned(8), may_alias));
  typedef int64_t I __attribute__((vector_size(RNB_VECTOR_BYTES)));
};

template <class T>
using Vec = typename Simd<T>::V;
template <class T>
using Int = typename Simd<T>::I;

template <class T>
constexpr int kLanes = RNB_VECTOR_BYTES / int(sizeof(T));

template <class T>
RNB_INLINE Vec<T> load(const T* p) {
  return *reinterpret_cast<const typename Simd<T>::Memory*>(p);
}

template <class T>
RNB_INLINE void store(T* p, Vec<T> v) {
  *reinterpret_cast<typename Simd<T>::Memory*>(p) = v;
}

// x - 0 keeps every x, -0 too, so that the compiler can drop it; x + 0 would not.
template <class T>
RNB_INLINE Vec<T> broadcast(T x) {
  return x - Vec<T>{};
}

// A NaN in v stays: the comparison is false.
template <class T>
RNB_INLINE Vec<T> at_most(Vec<T> v, T limit) {
  const Vec<T> l = broadcast<T>(limit);
  return l < v ? l : v;
}

template <class T>
RNB_INLINE Vec<T> at_least(Vec<T> v, T limit) {
  const Vec<T> l = broadcast<T>(limit);
  return l > v ? l : v;
}

}  // namespace RNB_ISA
}  // namespace rnb
