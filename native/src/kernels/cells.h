// The equations of the cells: one time step of a block of rows, product and gates together while they are in
// the cache.
#pragma once

#include "activation.h"
#include "product.h"

namespace rnb {
namespace RNB_ISA {

// Rows whose state of H elements, read by every panel, stays in half of an L2 cache.
template <class T>
RNB_INLINE int64_t step_rows(int64_t rows, int64_t hidden_size) {
  const int64_t fit = 262144 / (hidden_size * int64_t(sizeof(T)));
  const int64_t limit = fit < 24 ? 24 : fit;
  const int64_t blocks = (rows + limit - 1) / limit;
  return (rows + blocks - 1) / blocks;
}

// Calls gates(unit block, row, pre-activations of that row) for all rows after the product that completes
// them, in which `panels` panels from weight panel `first_weight` on meet the slots from `first_slot` on. A
// cell with a single panel takes up to four unit blocks at once, for the wide tiles of few rows.
template <class T, class Gates>
RNB_INLINE void step(const StepArgs<T>& s, const T* h, int weight_panels, int first_weight, int panels,
                     int slots, int first_slot, const Gates& gates) {
  const int64_t block = step_rows<T>(s.rows, s.hidden_size), panel_size = s.hidden_size * kPanel<T>;
  const int64_t together = panels == 1 ? 4 : 1;
  const int64_t unit_weights = weight_panels * panel_size, pre_row = slots * kPanel<T>;
  for (int64_t row = 0; row < s.rows; row += block) {
    const int64_t rows = s.rows - row < block ? s.rows - row : block;
    const Strided<T> state{h + row * s.stride, s.stride};
    for (int64_t u = 0; u < s.units; u += together) {
      const int64_t count = s.units - u < together ? s.units - u : together;
      Panels<T> p;
      p.b = s.weights + u * unit_weights + first_weight * panel_size;
      p.b_stride = panels == 1 ? unit_weights : panel_size;
      p.c = s.pre + u * s.unit_stride + row * pre_row + first_slot * kPanel<T>;
      p.c_stride = panels == 1 ? s.unit_stride : kPanel<T>;
      p.row_stride = pre_row;
      p.bias = nullptr;
      p.count = panels == 1 ? int(count) : panels;
      product(state, rows, s.hidden_size, p);
      for (int64_t v = u; v < u + count; ++v)
        for (int64_t r = row; r < row + rows; ++r) gates(v, r, s.pre + v * s.unit_stride + r * pre_row);
    }
  }
}

template <class T>
RNB_INLINE Vec<T> slot(const T* pre, int index, int lane) {
  return load(pre + index * kPanel<T> + lane);
}

// To the slots 0, 1 ... in the order of the vectors.
template <class T, class... Vectors>
RNB_INLINE void store_slots(T* pre, int lane, Vectors... vectors) {
  T* at = pre + lane;
  ((store(at, vectors), at += kPanel<T>), ...);
}

template <bool keep, class T, class F, class G, class Hidden>
RNB_NOINLINE void lstm_step(const StepArgs<T>& s, F f, G g, Hidden hidden) {
  step(s, s.h, 4, 0, 4, 4, 0, [&](int64_t u, int64_t row, T* pre) {
    const int64_t at = row * s.stride + u * kPanel<T>, c_at = row * s.c_stride + u * kPanel<T>;
    for (int j = 0; j < kPanel<T>; j += kLanes<T>) {
      const Vec<T> input = f.template apply<T>(slot(pre, 0, j)),
                   forget = f.template apply<T>(slot(pre, 1, j));
      const Vec<T> candidate = g.template apply<T>(slot(pre, 2, j)),
                   output = f.template apply<T>(slot(pre, 3, j));
      const Vec<T> c = forget * load(s.c + c_at + j) + input * candidate;
      store(s.c_next + c_at + j, c);
      store(s.h_next + at + j, output * hidden.template apply<T>(c));
      if constexpr (keep) store_slots<T>(pre, j, input, forget, candidate, output);
    }
  });
}

template <class T, class F, class G>
RNB_NOINLINE void gru_after_step(const StepArgs<T>& s, F f, G g) {
  step(s, s.h, 3, 0, 3, 4, 1, [&, keep = s.keep](int64_t u, int64_t row, T* pre) {
    const int64_t at = row * s.stride + u * kPanel<T>;
    for (int j = 0; j < kPanel<T>; j += kLanes<T>) {
      const Vec<T> r = f.template apply<T>(slot(pre, 1, j)), z = f.template apply<T>(slot(pre, 2, j));
      const Vec<T> n = g.template apply<T>(slot(pre, 0, j) + r * slot(pre, 3, j));
      store(s.h_next + at + j, (T(1) - z) * n + z * load(s.h + at + j));
      if (keep) store_slots<T>(pre, j, n, r, z);
    }
  });
}

template <class T, class F>
RNB_NOINLINE void gru_before_gates_step(const StepArgs<T>& s, F f) {
  step(s, s.h, 3, 0, 2, 3, 1, [&](int64_t u, int64_t row, T* pre) {
    const int64_t at = row * s.stride + u * kPanel<T>;
    for (int j = 0; j < kPanel<T>; j += kLanes<T>) {
      const Vec<T> r = f.template apply<T>(slot(pre, 1, j));
      store(s.reset_h + at + j, r * load(s.h + at + j));
      store_slots<T>(pre + kPanel<T>, j, r, f.template apply<T>(slot(pre, 2, j)));
    }
  });
}

template <class T, class G>
RNB_NOINLINE void gru_before_update_step(const StepArgs<T>& s, G g) {
  step(s, s.reset_h, 3, 2, 1, 3, 0, [&, keep = s.keep](int64_t u, int64_t row, T* pre) {
    const int64_t at = row * s.stride + u * kPanel<T>;
    for (int j = 0; j < kPanel<T>; j += kLanes<T>) {
      const Vec<T> n = g.template apply<T>(slot(pre, 0, j)), z = slot(pre, 2, j);
      store(s.h_next + at + j, (T(1) - z) * n + z * load(s.h + at + j));
      if (keep) store_slots<T>(pre, j, n);
    }
  });
}

template <class T, class F>
RNB_NOINLINE void rnn_step(const StepArgs<T>& s, F f) {
  step(s, s.h, 1, 0, 1, 1, 0, [&](int64_t u, int64_t row, const T* pre) {
    const int64_t at = row * s.stride + u * kPanel<T>;
    for (int j = 0; j < kPanel<T>; j += kLanes<T>)
      store(s.h_next + at + j, f.template apply<T>(slot(pre, 0, j)));
  });
}

}  // namespace RNB_ISA
}  // namespace rnb
