// How fast this core multiplies and adds, and reads memory: what a benchmark holds a kernel against. Knows no
// layer.
#pragma once

#include "simd.h"

namespace rnb {
namespace RNB_ISA {

// Enough independent chains to cover the latency of every unit, few enough to stay in registers.
#if defined(__aarch64__) || defined(__AVX512F__)
constexpr int kChains = 20;
#else
constexpr int kChains = RNB_VECTOR_BYTES == 64 ? 5 : 12;  // 64 bytes are two registers of AVX2
#endif

#if defined(__clang__)
#define RNB_UNROLL_CHAINS _Pragma("clang loop unroll(full)")
#else
#define RNB_UNROLL_CHAINS _Pragma("GCC unroll 20")
#endif

// So that the compiler does not leave out what nobody asks for.
template <class T>
RNB_INLINE void use(const Vec<T>& v) {
  static_cast<void>(*reinterpret_cast<const volatile T*>(&v));
}

// One multiply-add in each chain, `rounds` times; the values go to b / (1 - a). Returns the operations of a
// round.
template <class T>
int64_t multiply_add(int64_t rounds, T a, T b) {
  const Vec<T> factor = broadcast(a), summand = broadcast(b);
  Vec<T> chains[kChains];
  RNB_UNROLL_CHAINS
  for (int i = 0; i < kChains; ++i) chains[i] = broadcast(T(i));
  for (int64_t round = 0; round < rounds; ++round) {
    RNB_UNROLL_CHAINS
    for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * factor + summand;
  }
  RNB_UNROLL_CHAINS
  for (int i = 0; i < kChains; ++i) use<T>(chains[i]);
  return 2 * kChains * kLanes<T>;
}

// Reads `size` elements, whole rows of 8 vectors of them, `times` times.
template <class T>
void read(const T* data, int64_t size, int64_t times) {
  constexpr int64_t row = 8 * kLanes<T>;
  Vec<T> sums[8] = {};
  for (int64_t time = 0; time < times; ++time) {
    for (int64_t i = 0; i + row <= size; i += row) {
      RNB_UNROLL(8)
      for (int j = 0; j < 8; ++j) sums[j] += load(data + i + j * kLanes<T>);
    }
  }
  RNB_UNROLL(8)
  for (int j = 0; j < 8; ++j) use<T>(sums[j]);
}

}  // namespace RNB_ISA
}  // namespace rnb
