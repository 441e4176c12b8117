// One group of rows on its way through the steps of one layer in one direction: what the forward pass does
// and what backward does again where nothing was kept.
#pragma once

#include <algorithm>

#include "batch.h"
#include "sequence.h"

namespace rnb {

template <class T>
struct Steps {
  const rnb_plan& plan;
  const Group& group;
  int64_t layer;
  int64_t d;
  const T* packed;
  T* h[2];   // [row][state_stride]; step s reads h[s % 2] and writes the other
  T* third;  // the same: r * h; or LSTM: c, rows H' apart

  // [u][place][slot][j]. Places are those of the tape, less first_place, if there are offsets (training.h)
  // and the gates are to be kept; else the group's own rows of the chunk, step after step.
  T* pre = nullptr;
  int64_t unit_stride = 0;
  const int64_t* offsets = nullptr;
  int64_t first_place = 0;

  int64_t start = 0;        // the step before which h and c are the states in h[start % 2] and `third`
  T* c_by_place = nullptr;  // LSTM, where gates are kept: c of every step; else NULL: c is updated in `third`

  // Runs steps [begin, end), of whose first `active` rows are in. before(step, active) and after(step,
  // active) are called around each. Returns how many rows are in at `end`.
  template <class Before, class After>
  int64_t run(int64_t begin, int64_t end, int64_t active, const Inputs<T>& inputs, const Before& before,
              const After& after) const {
    multiply_inputs(begin, end, active, inputs);
    int64_t row = 0;
    for (int64_t s = begin; s < end && (active = group.active(s, active)) > 0; ++s) {
      before(s, active);
      step(s, active, place(s, row));
      after(s, active);
      row += active;
    }
    return group.active(end, active);
  }

  // Of the group's first row in step s; NULL where none are kept, as in an RNN, whose h says all.
  const T* gates(int64_t s) const {
    return pre ? pre + place(s, 0) * plan.spec.slots() * kPanel<T> : nullptr;
  }

  // LSTM: c of row r after step s. Without c_by_place it is the latest one.
  const T* c_row(int64_t s, int64_t r) const {
    const int64_t hidden = plan.spec.padded(plan.spec.hidden_size);
    return s >= start && c_by_place ? c_by_place + (place(s, 0) + r) * hidden : third + r * hidden;
  }

 private:
  int64_t place(int64_t s, int64_t row) const {
    return offsets ? offsets[s] - first_place + group.start() : row;
  }

  void multiply_inputs(int64_t begin, int64_t end, int64_t active, const Inputs<T>& inputs) const {
    const Spec& spec = plan.spec;
    const PackedLayer at = packed_layer(spec, layer, d);
    const T* pointers[kInputRows];
    int64_t places[kInputRows];
    InputArgs<T> a;
    a.x = pointers;
    a.places = places;
    a.rows = 0;
    a.size = inputs.size;
    a.weights = packed + at.weight_ih;
    a.bias = packed + at.bias;
    a.pre = pre;
    a.unit_stride = unit_stride;
    a.units = spec.units();
    a.panels = spec.gates();
    a.slots = spec.slots();
    const auto flush = [&] {
      kernels_of<T>(plan.kernels).input(a);
      a.rows = 0;
    };
    int64_t row = 0;
    for (int64_t s = begin; s < end; ++s) {
      active = group.active(s, active);
      for (int64_t r = 0; r < active; ++r) {
        places[a.rows] = place(s, row) + r;
        pointers[a.rows] = inputs.row(s, time_of(spec, d, s, group[r].length), group[r].index, a.rows);
        if (++a.rows == kInputRows) flush();
      }
      row += active;
    }
    if (a.rows) flush();
  }

  void step(int64_t s, int64_t active, int64_t first_row) const {
    const Spec& spec = plan.spec;
    const int64_t hidden = spec.padded(spec.hidden_size);
    StepArgs<T> a;
    a.h = h[s & 1];
    a.h_next = h[(s + 1) & 1];
    a.c = c_row(s - 1, 0);
    a.c_next = c_by_place ? c_by_place + first_row * hidden : third;
    a.reset_h = third;
    a.stride = plan.state_stride;
    a.c_stride = hidden;
    a.keep = offsets != nullptr;
    a.rows = active;
    a.hidden_size = spec.hidden_size;
    a.weights = packed + packed_layer(spec, layer, d).weight_hh;
    a.pre = pre + first_row * spec.slots() * kPanel<T>;
    a.unit_stride = unit_stride;
    a.units = spec.units();
    a.activations = spec.activations;
    const Kernels<T>& k = kernels_of<T>(plan.kernels);
    if (spec.cell == RNB_CELL_LSTM) {
      k.lstm(a);
    } else if (spec.cell == RNB_CELL_RNN) {
      k.rnn(a);
    } else if (spec.reset == RNB_RESET_AFTER) {
      k.gru_after(a);
    } else {
      k.gru_before_gates(a);
      k.gru_before_update(a);
    }
  }
};

}  // namespace rnb
