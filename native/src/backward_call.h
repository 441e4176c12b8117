// One call of rnb_backward: finds what it reads and writes in the caller's arrays, the tape and the
// workspace. Computes nothing.
#pragma once

#include <algorithm>

#include "batch.h"
#include "sequence.h"
#include "tape.h"
#include "training.h"

namespace rnb {

template <class T>
struct BackwardCall {
  BackwardCall(const rnb_plan& plan_, const rnb_backward_args& args_)
      : plan(plan_),
        spec(plan_.spec),
        args(args_),
        kernels(kernels_of<T>(plan_.kernels)),
        tape(tape_layout(plan_)),
        layout(backward_layout(plan_)),
        dropout(static_cast<const TapeHeader*>(args_.tape)->dropout),
        hidden(plan_.spec.padded(plan_.spec.hidden_size)),
        rows(reinterpret_cast<Row*>(static_cast<char*>(args_.workspace) + layout.rows)),
        offsets(reinterpret_cast<int64_t*>(static_cast<char*>(args_.workspace) + layout.offsets)) {}

  // Sorts the tape's lengths, which must be in range even if the tape was damaged.
  void read_lengths() {
    const char* lengths = static_cast<const char*>(args.tape) + tape.lengths;
    equal_lengths = sort_rows(lengths, 8, plan.T, plan.N, rows);
    fill_offsets(rows, plan.T, plan.N, offsets);
  }

  T* at(int64_t offset) const { return reinterpret_cast<T*>(static_cast<char*>(args.workspace) + offset); }
  const T* kept(int64_t offset) const {
    return reinterpret_cast<const T*>(static_cast<const char*>(args.tape) + offset);
  }
  const T* packed() const { return static_cast<const T*>(args.packed); }
  int64_t index(int64_t layer, int64_t d) const { return layer * spec.directions() + d; }

  // Steps [begin, end) of a chunk, and how many rows they have together.
  int64_t chunks() const { return (plan.T + plan.backward_steps - 1) / plan.backward_steps; }
  int64_t begin(int64_t chunk) const { return chunk * plan.backward_steps; }
  int64_t end(int64_t chunk) const { return std::min(plan.T, begin(chunk + 1)); }
  int64_t chunk_rows(int64_t chunk) const { return offsets[end(chunk)] - offsets[begin(chunk)]; }

  // What the layer read, dropout included; dropped rows go to the scratch from row `scratch_row` on.
  Inputs<T> inputs(int64_t layer, int64_t d, int64_t scratch_row) const {
    if (layer == 0)
      return {{static_cast<const T*>(args.x), args.x_stride_t, args.x_stride_n},
              spec.input_size,
              nullptr,
              0,
              nullptr,
              0};
    T* scratch = at(layout.of[d].scratch) + scratch_row * layout.scratch_stride;
    return {inner(layer - 1), spec.output_size(),   dropout.active() ? &dropout : nullptr, layer - 1,
            scratch,          layout.scratch_stride};
  }

  // h [H] of a row after step s, s = -1 being the initial state; NULL stands for zeros.
  const T* h_row(int64_t layer, int64_t d, int64_t s, const Row& row) const {
    if (s < 0)
      return args.h0 ? static_cast<const T*>(args.h0) + state_offset(plan, layer, d, row.index) : nullptr;
    return h_at(layer, d, time_of(spec, d, s, row.length), row.index);
  }

  // The same at time t.
  const T* h_at(int64_t layer, int64_t d, int64_t t, int64_t n) const {
    if (keeps_hidden(spec)) {
      const T* data = kept(tape.hidden + index(layer, d) * tape.hidden_each);
      return dense(data, plan.N, hidden).at(t, n);
    }
    const Sequence<const T> top{static_cast<const T*>(args.y), args.y_stride_t, args.y_stride_n};
    const Sequence<const T> y = layer == spec.num_layers - 1 ? top : inner(layer);
    return y.at(output_time(plan, t), n) + d * spec.hidden_size;
  }

  // Of a layer's output; data is NULL for zeros.
  Sequence<const T> output_gradient(int64_t layer) const {
    if (layer == spec.num_layers - 1)
      return {static_cast<const T*>(args.dy), args.dy_stride_t, args.dy_stride_n};
    const T* data = at(layout.inner[layer % 2]);
    return dense(data, plan.N, plan.inner_width);
  }

  // Of what a layer reads; data is NULL if nobody wants it.
  Sequence<T> input_gradient(int64_t layer) const {
    if (layer == 0) return {static_cast<T*>(args.dx), args.dx_stride_t, args.dx_stride_n};
    return dense(at(layout.inner[(layer - 1) % 2]), plan.N, plan.inner_width);
  }

  // Which: 0 weight_ih, 1 weight_hh, 2 bias_ih, 3 bias_hh. NULL if it is not wanted or not there.
  T* weight_gradient(int64_t layer, int64_t d, int which) const {
    const int each = spec.arrays_per_direction();
    if (!args.dweights || which >= each) return nullptr;
    return static_cast<T*>(args.dweights[index(layer, d) * each + which]);
  }

  // Calls body(place in the chunk, step, row) for the places [first, last) of a chunk.
  template <class Body>
  void each_place(int64_t chunk, int64_t first, int64_t last, const Body& body) const {
    const int64_t origin = offsets[begin(chunk)];
    int64_t s = std::upper_bound(offsets, offsets + plan.T + 1, origin + first) - offsets - 1;
    for (int64_t place = first; place < last; ++place) {
      while (origin + place >= offsets[s + 1]) ++s;
      body(place, s, rows[origin + place - offsets[s]]);
    }
  }

  const rnb_plan& plan;
  const Spec& spec;
  const rnb_backward_args& args;
  const Kernels<T>& kernels;
  const TapeLayout tape;
  const BackwardLayout layout;
  const Dropout dropout;
  const int64_t hidden;  // H'
  Row* const rows;
  int64_t* const offsets;
  bool equal_lengths = true;

 private:
  Sequence<const T> inner(int64_t layer) const {
    return dense(kept(tape.inner + layer * tape.inner_each), plan.N, plan.inner_width);
  }
};

}  // namespace rnb
