// The micro-kernel: C[M, panels] += A[M, K] * packed panels[K]. Rows of A, and the places of C that they give,
// are found through an accessor, so that they may lie anywhere.
//
// Every element of C is one chain of multiply-adds in ascending k that starts from what C (or the bias)
// holds. No tile height, tile width, K block or split into calls changes it, which is what makes results
// independent of them.
#pragma once

#include "../kernels.h"
#include "simd.h"

namespace rnb {
namespace RNB_ISA {

constexpr int kTileRows = 6;      // 6 rows x 2 vectors = 12 accumulators of 16 registers
constexpr int64_t kBlockK = 256;  // a panel block of 16 KB stays in half of an L1 cache
constexpr int kPanelVectors = int(kPanelBytes) / RNB_VECTOR_BYTES;

template <class T>
struct Strided {
  const T* base;
  int64_t stride;
  RNB_INLINE const T* operator()(int64_t row) const { return base + row * stride; }
  RNB_INLINE int64_t place(int64_t row) const { return row; }
};

template <class T>
struct Gathered {
  const T* const* pointers;
  const int64_t* places;
  RNB_INLINE const T* operator()(int64_t row) const { return pointers[row]; }
  RNB_INLINE int64_t place(int64_t row) const { return places[row]; }
};

// Neighbouring panels: weights are `b_stride` elements apart, the columns of C `c_stride`; rows of C
// `row_stride`. A bias is contiguous over panels and replaces C's first contents; NULL keeps them.
template <class T>
struct Panels {
  const T* b;
  int64_t b_stride;
  T* c;
  int64_t c_stride;
  int64_t row_stride;
  const T* bias;
  int count;
};

// MR rows by NV vectors, from vector `first` of the panels on; within one panel or over whole ones.
template <int MR, int NV, class T, class Rows>
RNB_NOINLINE void tile(const Rows& rows, int64_t row, int64_t k0, int64_t k1, const Panels<T>& p, int first) {
  constexpr int L = kLanes<T>;
  const int panel = first / kPanelVectors, column = first % kPanelVectors * L;
  const T* a[MR];
  RNB_UNROLL(8)
  for (int i = 0; i < MR; ++i) a[i] = rows(row + i);
  const T* b = p.b + panel * p.b_stride + column;
  T* c[MR];
  RNB_UNROLL(8)
  for (int i = 0; i < MR; ++i) c[i] = p.c + rows.place(row + i) * p.row_stride + panel * p.c_stride + column;
  const T* bias = p.bias && k0 == 0 ? p.bias + panel * kPanel<T> + column : nullptr;
  const int64_t init_panel = bias ? kPanel<T> : p.c_stride;

  Vec<T> acc[MR][NV];
  RNB_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    RNB_UNROLL(8)
    for (int j = 0; j < NV; ++j)
      acc[i][j] = load((bias ? bias : c[i]) + j / kPanelVectors * init_panel + j % kPanelVectors * L);
  }
  constexpr int kPanelsTaken = (NV + kPanelVectors - 1) / kPanelVectors;
  const T* b_of[kPanelsTaken];
  RNB_UNROLL(8)
  for (int j = 0; j < NV; j += kPanelVectors) b_of[j / kPanelVectors] = b + j / kPanelVectors * p.b_stride;
  RNB_UNROLL_BY_2
  for (int64_t k = k0; k < k1; ++k) {
    Vec<T> bv[NV];
    RNB_UNROLL(8)
    for (int j = 0; j < NV; ++j)
      bv[j] = load(b_of[j / kPanelVectors] + k * kPanel<T> + j % kPanelVectors * L);
    if constexpr (
        MR > 3) {  // the next panel, on its way while this one is used: 3 to 10 % where weights are in L3
      RNB_UNROLL(8)
      for (int j = 0; j < NV; j += kPanelVectors)
        __builtin_prefetch(b_of[j / kPanelVectors] + kPanelsTaken * p.b_stride + k * kPanel<T>);
    }
    RNB_UNROLL(8)
    for (int i = 0; i < MR; ++i) {
      const Vec<T> av = broadcast<T>(a[i][k]);
      RNB_UNROLL(8)
      for (int j = 0; j < NV; ++j) acc[i][j] += av * bv[j];
    }
  }
  RNB_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    RNB_UNROLL(8)
    for (int j = 0; j < NV; ++j)
      store(c[i] + j / kPanelVectors * p.c_stride + j % kPanelVectors * L, acc[i][j]);
  }
}

template <int N>
struct Width {
  static constexpr int value = N;
};

// One to three rows: wide tiles, so that enough independent chains hide the latency of a multiply-add.
template <int MR, class T, class Rows>
RNB_INLINE void strip(const Rows& rows, int64_t k0, int64_t k1, const Panels<T>& p) {
  constexpr int kWidest = MR == 1 ? 8 : MR == 2 ? 6 : 4;
  const int vectors = p.count * kPanelVectors;
  int v = 0;
  const auto take = [&](auto width) {
    constexpr int NV = decltype(width)::value;
    if constexpr (NV <= kWidest && (NV % kPanelVectors == 0 || kPanelVectors % NV == 0)) {
      for (; v + NV <= vectors; v += NV) tile<MR, NV>(rows, 0, k0, k1, p, v);
    }
  };
  take(Width<8>{});
  take(Width<6>{});
  take(Width<4>{});
  take(Width<2>{});
  take(Width<1>{});
}

// Balanced tiles: no tile of fewer than 4 rows except where 7 rows leave no other way.
template <int NV, class T, class Rows>
RNB_INLINE void column(const Rows& rows, int64_t m, int64_t k0, int64_t k1, const Panels<T>& p, int first) {
  const int64_t tiles = (m + kTileRows - 1) / kTileRows, height = m / tiles, taller = m % tiles;
  int64_t row = 0;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t h = height + (i < taller);
    switch (h) {
      case 3:
        tile<3, NV>(rows, row, k0, k1, p, first);
        break;
      case 4:
        tile<4, NV>(rows, row, k0, k1, p, first);
        break;
      case 5:
        tile<5, NV>(rows, row, k0, k1, p, first);
        break;
      default:
        tile<6, NV>(rows, row, k0, k1, p, first);
        break;
    }
    row += h;
  }
}

template <class T, class Rows>
RNB_INLINE void product(const Rows& rows, int64_t m, int64_t k, const Panels<T>& p) {
  for (int64_t k0 = 0; k0 < k; k0 += kBlockK) {
    const int64_t k1 = k - k0 < kBlockK ? k : k0 + kBlockK;
    if (m == 1) {
      strip<1>(rows, k0, k1, p);
    } else if (m == 2) {
      strip<2>(rows, k0, k1, p);
    } else if (m == 3) {
      strip<3>(rows, k0, k1, p);
    } else {
      const int vectors = p.count * kPanelVectors;
      int v = 0;
      for (; v + 2 <= vectors; v += 2) column<2>(rows, m, k0, k1, p, v);
      if constexpr (kPanelVectors == 1) {
        if (v < vectors) column<1>(rows, m, k0, k1, p, v);
      }
    }
  }
}

}  // namespace RNB_ISA
}  // namespace rnb
