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

// pre = bias + W x for `rows` rows of x, row i of which becomes row places[i] of pre. The first `panels`
// slots get W x, the others the bias alone.
template <class T>
struct InputArgs {
  const T* const* x;
  const int64_t* places;
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
// written and never read by a product. h_next must not be h; c_next may be c. `keep` leaves the gates in
// place of their pre-activations, q as it is.
template <class T>
struct StepArgs {
  const T* h;
  T* h_next;
  const T* c;  // LSTM, rows c_stride apart, as are c_next's
  T* c_next;
  T* reset_h;  // GRU before: r * h
  int64_t stride;
  int64_t c_stride;
  bool keep;
  int64_t rows;
  int64_t hidden_size;
  const T* weights;  // panels: LSTM i f g o, GRU r z n, RNN n
  T* pre;
  int64_t unit_stride;
  int64_t units;
  const Activation* activations;
};

// The gradients of one step's pre-activations, of `rows` rows whose dh is complete, and what of dh and dc
// goes on to the step before without passing a weight. Gradients of units beyond hidden_size are exactly
// zero.
template <class T>
struct GradientArgs {
  const T* gates;  // as `keep` left them
  int64_t unit_stride;
  const T* c;  // LSTM: rows c_stride apart
  int64_t c_stride;
  const T* c_previous;  // the same
  const T* h;    // rows `stride` apart, as are those of dh, dc and d_reset_h: GRU h of the step before, RNN h
  T* dh;         // in and out
  T* dc;         // LSTM, in and out
  T* d_reset_h;  // GRU before: gradient of r * h
  int64_t stride;
  T* reset_h;  // GRU before: r * h, rows reset_stride apart
  int64_t reset_stride;
  T* gradients;  // [row][slot][H'], rows gradient_stride apart; slot q has r * dn
  int64_t gradient_stride;
  T* panels;  // the same numbers, [u][slot][row][j], slots panel_stride apart
  int64_t panel_stride;
  int64_t rows;
  int64_t hidden_size;
  int64_t units;
  const Activation* activations;
};

// C[rows, panels] += A[rows, k] B[panels][k][j], every element one chain in ascending k.
template <class T>
struct ProductArgs {
  const T* a;
  int64_t a_stride;
  int64_t rows;
  int64_t k;
  const T* b;
  int64_t b_stride;
  T* c;
  int64_t c_stride;    // between panels
  int64_t row_stride;  // between rows
  int64_t panels;
};

// out[i][k] = rows[k][i], or 0 where rows[k] is NULL.
template <class T>
struct TransposeArgs {
  const T* const* rows;
  int64_t count;
  int64_t size;
  T* out;
  int64_t out_stride;
};

template <class T>
struct Kernels {
  void (*input)(const InputArgs<T>&);
  void (*lstm)(const StepArgs<T>&);
  void (*gru_after)(const StepArgs<T>&);
  void (*gru_before_gates)(const StepArgs<T>&);   // phase 1: r, z and r * h
  void (*gru_before_update)(const StepArgs<T>&);  // phase 2, when all of r * h is there: n and h'
  void (*rnn)(const StepArgs<T>&);
  void (*lstm_gradients)(const GradientArgs<T>&);
  void (*gru_after_gradients)(const GradientArgs<T>&);
  void (*gru_before_update_gradients)(const GradientArgs<T>&);  // phase 1: n, z and r * h
  void (*gru_before_reset_gradients)(const GradientArgs<T>&);   // phase 2, when d_reset_h is there: r
  void (*rnn_gradients)(const GradientArgs<T>&);
  void (*product)(const ProductArgs<T>&);
  void (*transpose)(const TransposeArgs<T>&);
  // For benchmarks. Rounds of independent multiply-adds; returns the operations of a round.
  int64_t (*multiply_add)(int64_t rounds, T a, T b);
  void (*read)(const T* data, int64_t size, int64_t times);
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
