// Where a step's vectors lie in arrays of sequences and states: what forward and backward must agree on.
#pragma once

#include "dropout.h"
#include "plan.h"

namespace rnb {

// A sequence array [T, N, features]: x, y or an inner layer's output.
template <class T>
struct Sequence {
  T* data;
  int64_t stride_t;
  int64_t stride_n;
  T* at(int64_t t, int64_t n) const { return data + t * stride_t + n * stride_n; }
};

// A layer's output [T, N, width] in memory of ours.
template <class T>
Sequence<T> dense(T* data, int64_t N, int64_t width) {
  return {data, N * width, width};
}

// A reverse direction starts at a sequence's own last step.
inline int64_t time_of(const Spec& s, int64_t d, int64_t step, int64_t length) {
  const bool reverse = s.direction == RNB_DIRECTION_REVERSE || d == 1;
  return reverse ? length - 1 - step : step;
}

inline int64_t output_time(const rnb_plan& p, int64_t t) {
  return p.spec.output_order == RNB_OUTPUT_ORDER_PROCESSING ? p.T - 1 - t : t;
}

// A layer's output on its way to the next one. Where all layers go the same way, a row lies at its step, counted
// from `first` on, so that a stretch of steps is one block; else at its time, for both directions to find.
template <class T>
struct Between {
  Sequence<T> rows;
  bool by_step;
  int64_t first;
  T* at(int64_t s, int64_t t, int64_t n) const { return rows.at(by_step ? s - first : t, n); }
  operator Between<const T>() const { return {{rows.data, rows.stride_t, rows.stride_n}, by_step, first}; }
};

// Row n of a [L*D, N, H] array.
inline int64_t state_offset(const rnb_plan& p, int64_t layer, int64_t d, int64_t n) {
  return ((layer * p.spec.directions() + d) * p.N + n) * p.spec.hidden_size;
}

// What a layer reads: rows of x or of the layer below, dropped out on the way in if that is wanted.
template <class T>
struct Inputs {
  Between<const T> x;
  int64_t size;
  const Dropout* dropout;  // NULL: none
  int64_t below;           // the layer whose output is dropped out
  T* scratch;              // rows scratch_stride apart, for dropped rows alone
  int64_t scratch_stride;

  // What is read at step s, time t. Row `place` of the scratch is overwritten if it is needed.
  const T* row(int64_t s, int64_t t, int64_t n, int64_t place) const {
    const T* given = x.at(s, t, n);
    if (!dropout) return given;
    T* dropped = scratch + place * scratch_stride;
    dropout->apply(below, n, t, given, size, dropped);
    return dropped;
  }
};

}  // namespace rnb
