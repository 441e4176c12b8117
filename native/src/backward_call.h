// One call of rnb_backward: finds what it reads and writes in the caller's arrays, the tape and the
// workspace. Computes nothing.
#pragma once

#include <algorithm>

#include "batch.h"
#include "sequence.h"
#include "tape.h"
#include "training.h"

namespace rnb {

// Steps [begin, end), the `index`-th stretch of them.
struct Stretch {
  int64_t index;
  int64_t begin;
  int64_t end;
};

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

  int64_t stretches() const { return (plan.T + plan.stretch_steps - 1) / plan.stretch_steps; }
  Stretch stretch(int64_t i) const {
    return {i, i * plan.stretch_steps, std::min(plan.T, (i + 1) * plan.stretch_steps)};
  }
  // How many places a stretch has: the rows of its steps.
  int64_t places(const Stretch& stretch) const { return offsets[stretch.end] - offsets[stretch.begin]; }

  // Layers of one direction pass gradients on at once, in the scratch; those of two need all of time.
  bool passes_gradients_on() const { return spec.directions() == 1; }

  // Whether a layer's output is in no tape.
  bool recomputes_output(int64_t layer) const {
    return plan.recompute && spec.directions() == 1 && layer < spec.num_layers - 1;
  }

  // An array of BackwardLayout::Layer.
  T* of_layer(int64_t layer, int64_t d, int64_t BackwardLayout::Layer::* array) const {
    const BackwardLayout::Layer& of = layout.of[d].layer;
    return at(of.start + layer % plan.block_layers * of.each + of.*array);
  }

  // What the layer read, dropout included; dropped rows go to the scratch from row `scratch_row` on.
  Inputs<T> inputs(int64_t layer, int64_t d, const Stretch& stretch, int64_t scratch_row) const {
    if (layer == 0) {
      const Sequence<const T> x{static_cast<const T*>(args.x), args.x_stride_t, args.x_stride_n};
      return {{x, false, 0}, spec.input_size, nullptr, 0, nullptr, 0};
    }
    T* scratch = at(layout.of[d].scratch) + scratch_row * layout.scratch_stride;
    return {output(layer - 1, stretch),
            spec.output_size(),
            dropout.active() ? &dropout : nullptr,
            layer - 1,
            scratch,
            layout.scratch_stride};
  }

  // h [H] of a row after step s of the stretch or the one before it, s = -1 being the initial state; NULL stands
  // for zeros.
  const T* h_row(int64_t layer, int64_t d, const Stretch& stretch, int64_t s, const Row& row) const {
    if (s < 0)
      return args.h0 ? static_cast<const T*>(args.h0) + state_offset(plan, layer, d, row.index) : nullptr;
    if (s < stretch.begin && recomputes_output(layer))
      return dense(kept(tape.h + layer * tape.h_each), plan.N, hidden).at(stretch.index - 1, row.index);
    const int64_t t = time_of(spec, d, s, row.length);
    if (keeps_hidden(spec)) return h_apart(layer, d, t, row.index);
    return output(layer, stretch).at(s, output_time(plan, t), row.index) + d * spec.hidden_size;
  }

  // The same at time t, where each direction's h is kept apart from the layer's output.
  const T* h_apart(int64_t layer, int64_t d, int64_t t, int64_t n) const {
    const T* data = kept(tape.hidden + index(layer, d) * tape.hidden_each);
    return dense(data, plan.N, hidden).at(t, n);
  }

  // A layer's output before dropout: the caller's y, kept in the tape or recomputed for the stretch.
  Between<const T> output(int64_t layer, const Stretch& stretch) const {
    if (layer == spec.num_layers - 1)
      return {{static_cast<const T*>(args.y), args.y_stride_t, args.y_stride_n}, false, 0};
    if (recomputes_output(layer)) return recomputed_output(layer, stretch);
    const T* data = kept(tape.inner + layer * tape.inner_each);
    return {dense(data, plan.N, plan.inner_width), spec.directions() == 1, 0};
  }

  Between<T> recomputed_output(int64_t layer, const Stretch& stretch) const {
    T* data = of_layer(layer, 0, &BackwardLayout::Layer::output);
    return {dense(data, plan.N, plan.inner_width), true, stretch.begin};
  }

  // Of the output of the topmost layer, or of an inner one of two directions; data is NULL for zeros.
  Sequence<const T> output_gradient(int64_t layer) const {
    if (layer == spec.num_layers - 1)
      return {static_cast<const T*>(args.dy), args.dy_stride_t, args.dy_stride_n};
    const T* data = at(layout.inner[layer % 2]);
    return dense(data, plan.N, plan.inner_width);
  }

  // Of what the lowest layer reads, or an upper one of two directions; data is NULL if nobody wants it.
  Sequence<T> input_gradient(int64_t layer) const {
    if (layer == 0) return {static_cast<T*>(args.dx), args.dx_stride_t, args.dx_stride_n};
    return dense(at(layout.inner[(layer - 1) % 2]), plan.N, plan.inner_width);
  }

  // The lowest layer that has a gradient which is wanted or needed for one; L if none has.
  int64_t lowest_layer() const {
    if (args.dx || args.dh0 || args.dc0) return 0;
    const int64_t each = spec.arrays_per_direction() * spec.directions();
    for (int64_t i = 0; args.dweights && i < spec.num_layers * each; ++i)
      if (args.dweights[i]) return i / each;
    return spec.num_layers;
  }

  // Which: 0 weight_ih, 1 weight_hh, 2 bias_ih, 3 bias_hh. NULL if it is not wanted or not there.
  T* weight_gradient(int64_t layer, int64_t d, int which) const {
    const int each = spec.arrays_per_direction();
    if (!args.dweights || which >= each) return nullptr;
    return static_cast<T*>(args.dweights[index(layer, d) * each + which]);
  }

  // Calls body(place in the stretch, step, row) for the places [first, last) of a stretch.
  template <class Body>
  void each_place(const Stretch& stretch, int64_t first, int64_t last, const Body& body) const {
    const int64_t origin = offsets[stretch.begin];
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
};

}  // namespace rnb
