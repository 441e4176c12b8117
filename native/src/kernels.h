// What a set of kernels offers: one table per instruction set and element type. Everything above this file is
// compiled for the baseline and knows no instruction set; everything below knows no layer, direction, length
// or thread.
#pragma once

#include <stdint.h>

namespace rnb {

// Bytes in one row of a packed panel, on every instruction set: packed weights and sizes do not depend on it.
constexpr int64_t kPanelBytes = 64;

template <class T>
constexpr int64_t kPanel = kPanelBytes / int64_t(sizeof(T));

// Rows that one `input` call may have: with K = 256 they fill a fifth of an L2 cache.
constexpr int64_t kInputRows = 96;

struct Activation {
  int32_t code;
  double alpha;
  double beta;
};

// Layouts, with u a block of kPanel hidden units, j a unit in it:
//   weights          [u][panel][K][j]
//   bias             [u][slot][j]
//   pre-activations  [u][row][slot][j], u apart by unit_stride
// Slots:  LSTM i f g o   GRU after n r z q   GRU before n r z   RNN n.  q = U_n h + b_hn.

// pre = bias + W x for `rows` rows of x. The first `panels` slots get W x, the others the bias alone.
template <class T>
struct InputArgs {
  const T* const* x;
  int64_t rows;
  int64_t size;
  const T* weights;
  const T* bias;
  T* pre;
  int64_t unit_stride;
  int64_t units;
  int panels;
  int slots;
};

// One time step of `rows` rows. State rows are `stride` elements apart and hold whole panels: their tails are
// written and never read by a product. h_next must not be h; c is updated in place.
template <class T>
struct StepArgs {
  const T* h;
  T* h_next;
  T* c;        // LSTM
  T* reset_h;  // GRU before: r * h
  int64_t stride;
  int64_t rows;
  int64_t hidden_size;
  const T* weights;  // panels: LSTM i f g o, GRU r z n, RNN n
  T* pre;
  int64_t unit_stride;
  int64_t units;
  const Activation* activations;
};

template <class T>
struct Kernels {
  void (*input)(const InputArgs<T>&);
  void (*lstm)(const StepArgs<T>&);
  void (*gru_after)(const StepArgs<T>&);
  void (*gru_before_gates)(const StepArgs<T>&);   // phase 1: r, z and r * h
  void (*gru_before_update)(const StepArgs<T>&);  // phase 2, when all of r * h is there: n and h'
  void (*rnn)(const StepArgs<T>&);
};

struct KernelSet {
  const char* name;
  Kernels<float> f32;
  Kernels<double> f64;
};

template <class T>
const Kernels<T>& kernels_of(const KernelSet& set);
template <>
inline const Kernels<float>& kernels_of<float>(const KernelSet& set) {
  return set.f32;
}
template <>
inline const Kernels<double>& kernels_of<double>(const KernelSet& set) {
  return set.f64;
}

}  // namespace rnb
