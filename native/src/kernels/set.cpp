// One set of kernels. Compiled once per instruction set, with RNB_ISA (its name) and RNB_VECTOR_BYTES defined
// and the compiler's flags set accordingly.

#include "cells.h"
#include "gradients.h"
#include "limits.h"

namespace rnb {
namespace RNB_ISA {
namespace {

template <class T>
void input(const InputArgs<T>& a) {
  const Gathered<T> rows{a.x, a.places};
  const int64_t panel_size = a.size * kPanel<T>, pre_row = a.slots * kPanel<T>;
  const bool single = a.slots == 1;  // then neighbouring unit blocks are neighbouring panels
  const int64_t together = single ? 4 : 1;
  for (int64_t u = 0; u < a.units; u += together) {
    const int64_t count = a.units - u < together ? a.units - u : together;
    Panels<T> p;
    p.b = a.weights + u * a.panels * panel_size;
    p.b_stride = panel_size;
    p.c = a.pre + u * a.unit_stride;
    p.c_stride = single ? a.unit_stride : kPanel<T>;
    p.row_stride = pre_row;
    p.bias = a.bias + u * pre_row;
    p.count = single ? int(count) : a.panels;
    product(rows, a.rows, a.size, p);
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t j = a.panels * kPanel<T>; j < pre_row; ++j) p.c[a.places[r] * pre_row + j] = p.bias[j];
  }
}

bool is(const Activation& a, int32_t code) { return a.code == code; }

// Two functions, so that the one that keeps nothing need not hold its gates in registers.
template <bool keep, class T>
void lstm_of(const StepArgs<T>& s) {
  const Activation* a = s.activations;
  if (is(a[0], RNB_ACTIVATION_SIGMOID) && is(a[1], RNB_ACTIVATION_TANH) && is(a[2], RNB_ACTIVATION_TANH))
    lstm_step<keep>(s, Sigmoid{}, Tanh{}, Tanh{});
  else
    lstm_step<keep>(s, AnyActivation{a[0]}, AnyActivation{a[1]}, AnyActivation{a[2]});
}

template <class T>
void lstm(const StepArgs<T>& s) {
  s.keep ? lstm_of<true>(s) : lstm_of<false>(s);
}

template <class T>
void gru_after(const StepArgs<T>& s) {
  const Activation* a = s.activations;
  if (is(a[0], RNB_ACTIVATION_SIGMOID) && is(a[1], RNB_ACTIVATION_TANH))
    gru_after_step(s, Sigmoid{}, Tanh{});
  else
    gru_after_step(s, AnyActivation{a[0]}, AnyActivation{a[1]});
}

template <class T>
void gru_before_gates(const StepArgs<T>& s) {
  if (is(s.activations[0], RNB_ACTIVATION_SIGMOID))
    gru_before_gates_step(s, Sigmoid{});
  else
    gru_before_gates_step(s, AnyActivation{s.activations[0]});
}

template <class T>
void gru_before_update(const StepArgs<T>& s) {
  if (is(s.activations[1], RNB_ACTIVATION_TANH))
    gru_before_update_step(s, Tanh{});
  else
    gru_before_update_step(s, AnyActivation{s.activations[1]});
}

template <class T>
void rnn(const StepArgs<T>& s) {
  if (is(s.activations[0], RNB_ACTIVATION_TANH))
    rnn_step(s, Tanh{});
  else if (is(s.activations[0], RNB_ACTIVATION_RELU))
    rnn_step(s, Relu{});
  else
    rnn_step(s, AnyActivation{s.activations[0]});
}

template <class T>
void lstm_gradients(const GradientArgs<T>& g) {
  const Activation* a = g.activations;
  if (is(a[0], RNB_ACTIVATION_SIGMOID) && is(a[1], RNB_ACTIVATION_TANH) && is(a[2], RNB_ACTIVATION_TANH))
    lstm_slopes(g, Sigmoid{}, Tanh{}, Tanh{});
  else
    lstm_slopes(g, AnyActivation{a[0]}, AnyActivation{a[1]}, AnyActivation{a[2]});
}

template <class T>
void gru_after_gradients(const GradientArgs<T>& g) {
  const Activation* a = g.activations;
  if (is(a[0], RNB_ACTIVATION_SIGMOID) && is(a[1], RNB_ACTIVATION_TANH))
    gru_after_slopes(g, Sigmoid{}, Tanh{});
  else
    gru_after_slopes(g, AnyActivation{a[0]}, AnyActivation{a[1]});
}

template <class T>
void gru_before_update_gradients(const GradientArgs<T>& g) {
  const Activation* a = g.activations;
  if (is(a[0], RNB_ACTIVATION_SIGMOID) && is(a[1], RNB_ACTIVATION_TANH))
    gru_before_update_slopes(g, Sigmoid{}, Tanh{});
  else
    gru_before_update_slopes(g, AnyActivation{a[0]}, AnyActivation{a[1]});
}

template <class T>
void gru_before_reset_gradients(const GradientArgs<T>& g) {
  if (is(g.activations[0], RNB_ACTIVATION_SIGMOID))
    gru_before_reset_slopes(g, Sigmoid{});
  else
    gru_before_reset_slopes(g, AnyActivation{g.activations[0]});
}

template <class T>
void rnn_gradients(const GradientArgs<T>& g) {
  if (is(g.activations[0], RNB_ACTIVATION_TANH))
    rnn_slopes(g, Tanh{});
  else
    rnn_slopes(g, AnyActivation{g.activations[0]});
}

// Blocks of rows whose kBlockK columns of A stay in about half of an L2 cache.
template <class T>
void product(const ProductArgs<T>& a) {
  constexpr int64_t kLimit = 262144 / (kBlockK * int64_t(sizeof(T)));
  const int64_t blocks = (a.rows + kLimit - 1) / kLimit, block = blocks ? (a.rows + blocks - 1) / blocks : 0;
  for (int64_t row = 0; row < a.rows; row += block) {
    Panels<T> p;
    p.b = a.b;
    p.b_stride = a.b_stride;
    p.c = a.c + row * a.row_stride;
    p.c_stride = a.c_stride;
    p.row_stride = a.row_stride;
    p.bias = nullptr;
    p.count = int(a.panels);
    product(Strided<T>{a.a + row * a.a_stride, a.a_stride}, a.rows - row < block ? a.rows - row : block, a.k,
            p);
  }
}

template <class T>
constexpr Kernels<T> table() {
  return {input<T>,
          lstm<T>,
          gru_after<T>,
          gru_before_gates<T>,
          gru_before_update<T>,
          rnn<T>,
          lstm_gradients<T>,
          gru_after_gradients<T>,
          gru_before_update_gradients<T>,
          gru_before_reset_gradients<T>,
          rnn_gradients<T>,
          product<T>,
          transpose<T>,
          multiply_add<T>,
          read<T>};
}

#define RNB_STRING_(x) #x
#define RNB_STRING(x) RNB_STRING_(x)

}  // namespace

extern const KernelSet kernel_set;
const KernelSet kernel_set = {RNB_STRING(RNB_ISA), table<float>(), table<double>()};

}  // namespace RNB_ISA
}  // namespace rnb
