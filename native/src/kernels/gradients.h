// The slopes of the cells: from a step's kept gates and dh to the gradients of its pre-activations, and the
// transposition that products over time need.
#pragma once

#include "activation.h"

namespace rnb {
namespace RNB_ISA {

constexpr int kPanelSteps = int(kPanelBytes) / RNB_VECTOR_BYTES;

// Calls body(row, unit, where the row's gates of these units are, write), with write(slot, gradient) what stores
// a gradient in both layouts. Zeros go to the units that are only padding, so that
// whatever their arithmetic gave meets no weight.
template <class T, int kSlots, class Body>
RNB_INLINE void each_vector(const GradientArgs<T>& g, const Body& body) {
  const int64_t padded = g.units * kPanel<T>;
  for (int64_t u = 0; u < g.units; ++u) {
    Int<T> valid[kPanelSteps];
    for (int step = 0; step < kPanelSteps; ++step)
      for (int i = 0; i < kLanes<T>; ++i)
        valid[step][i] = u * kPanel<T> + step * kLanes<T> + i < g.hidden_size ? -1 : 0;
    for (int64_t row = 0; row < g.rows; ++row) {
      const int64_t gates_at = u * g.unit_stride + row * kSlots * kPanel<T>;
      T* gradients = g.gradients + row * g.gradient_stride + u * kPanel<T>;
      T* panels = g.panels + u * kSlots * g.panel_stride + row * kPanel<T>;
      RNB_UNROLL(4)
      for (int step = 0; step < kPanelSteps; ++step) {
        const int j = step * kLanes<T>;
        body(row, u * kPanel<T> + j, gates_at + j, [&](int slot, Vec<T> gradient) {
          const Vec<T> masked = (Vec<T>)((Int<T>)gradient & valid[step]);
          store(gradients + slot * padded + j, masked);
          store(panels + slot * g.panel_stride + j, masked);
        });
      }
    }
  }
}

template <class T>
RNB_INLINE Vec<T> gate(const T* gates, int slot) {
  return load(gates + slot * kPanel<T>);
}

template <class T, class F, class G, class Hidden>
RNB_NOINLINE void lstm_slopes(const GradientArgs<T>& g, F f, G c_in, Hidden hidden) {
  each_vector<T, 4>(g, [&](int64_t row, int64_t unit, int64_t gates_at, const auto& write) {
    const T* gates = g.gates + gates_at;
    const int64_t at = row * g.stride + unit;
    const Vec<T> input = gate(gates, 0), forget = gate(gates, 1), candidate = gate(gates, 2),
                 output = gate(gates, 3);
    const Vec<T> squashed = hidden.template apply<T>(load(g.c + row * g.c_stride + unit));
    const Vec<T> dh = load(g.dh + at);
    const Vec<T> dc = load(g.dc + at) + dh * output * hidden.template slope<T>(squashed);
    const Vec<T> previous = load(g.c_previous + row * g.c_stride + unit);
    write(0, dc * candidate * f.template slope<T>(input));
    write(1, dc * previous * f.template slope<T>(forget));
    write(2, dc * input * c_in.template slope<T>(candidate));
    write(3, dh * squashed * f.template slope<T>(output));
    store(g.dc + at, dc * forget);
    store(g.dh + at, Vec<T>{});
  });
}

template <class T, class F, class G>
RNB_NOINLINE void gru_after_slopes(const GradientArgs<T>& g, F f, G candidate) {
  each_vector<T, 4>(g, [&](int64_t row, int64_t unit, int64_t gates_at, const auto& write) {
    const T* gates = g.gates + gates_at;
    const int64_t at = row * g.stride + unit;
    const Vec<T> n = gate(gates, 0), r = gate(gates, 1), z = gate(gates, 2), q = gate(gates, 3);
    const Vec<T> dh = load(g.dh + at);
    const Vec<T> dn = dh * (T(1) - z) * candidate.template slope<T>(n);
    write(0, dn);
    write(1, dn * q * f.template slope<T>(r));
    write(2, dh * (load(g.h + at) - n) * f.template slope<T>(z));
    write(3, dn * r);
    store(g.dh + at, dh * z);
  });
}

template <class T, class F, class G>
RNB_NOINLINE void gru_before_update_slopes(const GradientArgs<T>& g, F f, G candidate) {
  each_vector<T, 3>(g, [&](int64_t row, int64_t unit, int64_t gates_at, const auto& write) {
    const T* gates = g.gates + gates_at;
    const int64_t at = row * g.stride + unit;
    const Vec<T> n = gate(gates, 0), r = gate(gates, 1), z = gate(gates, 2);
    const Vec<T> dh = load(g.dh + at), h = load(g.h + at);
    write(0, dh * (T(1) - z) * candidate.template slope<T>(n));
    write(2, dh * (h - n) * f.template slope<T>(z));
    store(g.reset_h + row * g.reset_stride + unit, r * h);
    store(g.d_reset_h + at, Vec<T>{});
    store(g.dh + at, dh * z);
  });
}

template <class T, class F>
RNB_NOINLINE void gru_before_reset_slopes(const GradientArgs<T>& g, F f) {
  each_vector<T, 3>(g, [&](int64_t row, int64_t unit, int64_t gates_at, const auto& write) {
    const T* gates = g.gates + gates_at;
    const int64_t at = row * g.stride + unit;
    const Vec<T> r = gate(gates, 1), d = load(g.d_reset_h + at);
    write(1, d * load(g.h + at) * f.template slope<T>(r));
    store(g.dh + at, load(g.dh + at) + d * r);
  });
}

// Its only gate is h itself, so that nothing else is kept.
template <class T, class F>
RNB_NOINLINE void rnn_slopes(const GradientArgs<T>& g, F f) {
  each_vector<T, 1>(g, [&](int64_t row, int64_t unit, int64_t, const auto& write) {
    const int64_t at = row * g.stride + unit;
    write(0, load(g.dh + at) * f.template slope<T>(load(g.h + at)));
    store(g.dh + at, Vec<T>{});
  });
}

// Up to a panel's width of rows, none of them NULL: a cache line of each becomes one of each row of `out`.
template <class T>
RNB_INLINE void transpose_lines(const T* const* rows, int64_t first, int64_t last, T* out,
                                int64_t out_stride) {
  const T* row[kPanel<T>];
  for (int k = 0; k < kPanel<T>; ++k) row[k] = rows[k];
  for (int64_t i = first; i < last; ++i) {
    RNB_UNROLL(4)
    for (int step = 0; step < kPanelSteps; ++step) {
      Vec<T> column;
      RNB_UNROLL(16)
      for (int lane = 0; lane < kLanes<T>; ++lane) column[lane] = row[step * kLanes<T> + lane][i];
      store(out + i * out_stride + step * kLanes<T>, column);
    }
  }
}

template <class T>
void transpose(const TransposeArgs<T>& a) {
  for (int64_t k = 0; k < a.count; k += kPanel<T>) {
    const int64_t count = a.count - k < kPanel<T> ? a.count - k : kPanel<T>;
    bool whole = count == kPanel<T>;
    for (int64_t row = k; row < k + count; ++row) whole = whole && a.rows[row];
    for (int64_t first = 0; first < a.size; first += kPanel<T>) {
      const int64_t last = a.size - first < kPanel<T> ? a.size : first + kPanel<T>;
      if (whole) {
        // The rows are too short and too many for the hardware to foresee.
        for (int64_t row = k; row < k + count && last < a.size; ++row) __builtin_prefetch(a.rows[row] + last);
        transpose_lines(a.rows + k, first, last, a.out + k, a.out_stride);
      } else {
        for (int64_t row = k; row < k + count; ++row)
          for (int64_t i = first; i < last; ++i)
            a.out[i * a.out_stride + row] = a.rows[row] ? a.rows[row][i] : T(0);
      }
    }
  }
}

}  // namespace RNB_ISA
}  // namespace rnb
