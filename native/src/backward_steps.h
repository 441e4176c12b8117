// Backward through time: one group of rows through the steps of one layer and direction, last step first.
// Leaves the gradients of the pre-activations in the stretch's buffers; knows nothing of the sums that are made
// of them.
#pragma once

#include "backward_call.h"
#include "steps.h"

namespace rnb {

template <class T>
class BackwardSteps {
 public:
  BackwardSteps(const BackwardCall<T>& call, const Group& group, int64_t layer, int64_t d)
      : call_(call),
        plan_(call.plan),
        spec_(call.spec),
        group_(group),
        layer_(layer),
        d_(d),
        of_(call.layout.of[d]),
        first_(group.start() * plan_.state_stride),
        dh_(call.of_layer(layer, d, &BackwardLayout::Layer::dh) + first_),
        dc_(call.of_layer(layer, d, &BackwardLayout::Layer::dc) + first_) {}

  // A row's dh and dc wait at the gradients of the final states until its last step is reached.
  void load() const {
    const auto load = [&](const void* states, int64_t n, T* row) {
      copy_row(states ? static_cast<const T*>(states) + state_offset(plan_, layer_, d_, n) : nullptr, row,
               plan_.state_stride);
    };
    for (int64_t r = 0; r < group_.size(); ++r) {
      load(call_.args.dhn, group_[r].index, dh_ + r * plan_.state_stride);
      if (spec_.cell == RNB_CELL_LSTM) load(call_.args.dcn, group_[r].index, dc_ + r * plan_.state_stride);
    }
  }

  // Makes again what the tape does not keep of the stretch. Lower layers come first.
  void recompute(const Stretch& stretch) const {
    const int64_t active = group_.active(stretch.begin, group_.size());
    if (active == 0 || !recomputes()) return;
    const Steps<T> steps = kept_steps(stretch);
    load_start(steps, stretch, active);
    const Inputs<T> inputs = call_.inputs(layer_, d_, stretch, group_.start() * plan_.stretch_steps);
    const auto keep_output = [&](int64_t s, int64_t rows) {
      if (!call_.recomputes_output(layer_)) return;
      const Between<T> output = call_.recomputed_output(layer_, stretch);
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(steps.h[(s + 1) & 1] + r * plan_.state_stride, spec_.hidden_size,
                    output.at(s, 0, group_[r].index));
    };
    steps.run(stretch.begin, stretch.end, active, inputs, [](int64_t, int64_t) {}, keep_output);
  }

  void run(const Stretch& stretch) const {
    const int64_t begin = stretch.begin, active = group_.active(begin, group_.size());
    if (active == 0) return;
    const int64_t end = std::min(stretch.end, group_[0].length);
    const Steps<T> kept = kept_steps(stretch);
    if (kept.start == begin) load_start(kept, stretch, active);
    for (int64_t s = end - 1; s >= begin; --s) step(kept, stretch, s, group_.active(s, active));
  }

  void store() const {
    const auto store = [&](void* states, int64_t n, const T* row) {
      if (!states) return;
      T* to = static_cast<T*>(states) + state_offset(plan_, layer_, d_, n);
      const bool add = call_.args.accumulate & RNB_ACCUMULATE_INPUTS;
      for (int64_t i = 0; i < spec_.hidden_size; ++i) to[i] = add ? to[i] + row[i] : row[i];
    };
    for (int64_t r = 0; r < group_.size(); ++r) {
      store(call_.args.dh0, group_[r].index, dh_ + r * plan_.state_stride);
      if (spec_.cell == RNB_CELL_LSTM) store(call_.args.dc0, group_[r].index, dc_ + r * plan_.state_stride);
    }
  }

 private:
  bool recomputes() const {
    return plan_.recompute && (spec_.cell != RNB_CELL_RNN || call_.recomputes_output(layer_));
  }

  // NULL stands for zeros; so do the padding's.
  void copy_row(const T* from, T* row, int64_t stride) const {
    const int64_t size = from ? spec_.hidden_size : 0;
    if (size) std::copy_n(from, size, row);
    std::fill(row + size, row + stride, T(0));
  }

  T* state(int64_t which) const {
    return call_.at(of_.state) + which * plan_.N * plan_.state_stride + first_;
  }

  // Where the gates and cells of the stretch's steps are: in the tape, or in the workspace once recomputed. The
  // tape's are only read.
  Steps<T> kept_steps(const Stretch& stretch) const {
    const int64_t pre_row = spec_.slots() * kPanel<T>, index = call_.index(layer_, d_);
    const bool lstm = spec_.cell == RNB_CELL_LSTM;
    Steps<T> s{plan_, group_, layer_, d_, call_.packed(), {state(0), state(1)}, state(2)};
    s.offsets = call_.offsets;
    if (recomputes()) {
      s.pre = call_.of_layer(layer_, d_, &BackwardLayout::Layer::gates);
      s.unit_stride = plan_.stretch_steps * plan_.N * pre_row;
      s.first_place = call_.offsets[stretch.begin];
      s.start = stretch.begin;
      if (lstm) s.c_by_place = call_.of_layer(layer_, d_, &BackwardLayout::Layer::c);
    } else if (spec_.cell != RNB_CELL_RNN) {
      s.pre = const_cast<T*>(call_.kept(call_.tape.gates + index * call_.tape.gates_each));
      s.unit_stride = plan_.T * plan_.N * pre_row;
      if (lstm) s.c_by_place = const_cast<T*>(call_.kept(call_.tape.c + index * call_.tape.c_each));
    }
    return s;
  }

  // The states before step kept.start.
  void load_start(const Steps<T>& kept, const Stretch& stretch, int64_t active) const {
    const int64_t s = kept.start;
    const T* cells = nullptr;
    if (s > 0 && spec_.cell == RNB_CELL_LSTM)
      cells = call_.kept(call_.tape.c + call_.index(layer_, d_) * call_.tape.c_each) +
              ((stretch.index - 1) * plan_.N + group_.start()) * call_.hidden;
    const T* c0 = static_cast<const T*>(call_.args.c0);
    for (int64_t r = 0; r < active; ++r) {
      const Row& row = group_[r];
      copy_row(call_.h_row(layer_, d_, stretch, s - 1, row), kept.h[s & 1] + r * plan_.state_stride,
               plan_.state_stride);
      if (spec_.cell != RNB_CELL_LSTM) continue;
      const T* c = cells ? cells + r * call_.hidden
                   : c0  ? c0 + state_offset(plan_, layer_, d_, row.index)
                         : nullptr;
      copy_row(c, kept.third + r * call_.hidden, call_.hidden);
    }
  }

  void step(const Steps<T>& kept, const Stretch& stretch, int64_t s, int64_t active) const {
    const int64_t place = call_.offsets[s] - call_.offsets[stretch.begin] + group_.start();
    add_output_gradient(s, active, place);
    gather_h(kept, stretch, s, active);
    GradientArgs<T> g;
    g.gates = kept.gates(s);
    g.unit_stride = kept.unit_stride;
    g.c = kept.c_row(s, 0);
    g.c_previous = kept.c_row(s - 1, 0);
    g.c_stride = call_.hidden;
    g.h = kept.h[0];
    g.dh = dh_;
    g.dc = g.d_reset_h = dc_;
    g.stride = plan_.state_stride;
    g.reset_h = call_.at(of_.reset_rows) + place * call_.hidden;
    g.reset_stride = call_.hidden;
    g.gradients = call_.at(of_.gradients) + place * call_.layout.gradient_stride;
    g.gradient_stride = call_.layout.gradient_stride;
    g.panels = call_.at(of_.panels) + place * kPanel<T>;
    g.panel_stride = plan_.stretch_steps * plan_.N * kPanel<T>;
    g.rows = active;
    g.hidden_size = spec_.hidden_size;
    g.units = spec_.units();
    g.activations = spec_.activations;
    run_cell(g, s > 0 || call_.args.dh0);
  }

  // `passes_on`: whether anyone will look at the dh of the step before.
  void run_cell(const GradientArgs<T>& g, bool passes_on) const {
    const Kernels<T>& k = call_.kernels;
    switch (spec_.cell) {
      case RNB_CELL_LSTM:
        k.lstm_gradients(g);
        break;
      case RNB_CELL_RNN:
        k.rnn_gradients(g);
        break;
      case RNB_CELL_GRU:
        if (spec_.reset == RNB_RESET_AFTER) {
          k.gru_after_gradients(g);
        } else {
          k.gru_before_update_gradients(g);
          multiply(g, 0, 1, 2, dc_);
          k.gru_before_reset_gradients(g);
        }
        break;
    }
    if (!passes_on) return;
    if (spec_.reset == RNB_RESET_BEFORE)
      multiply(g, 1, 2, 0, dh_);
    else
      multiply(g, spec_.slots() - spec_.gates(), spec_.gates(), 0, dh_);
  }

  // out += gradients of `slots` slots from `slot` on, times the weights of as many gates from `gate` on.
  void multiply(const GradientArgs<T>& g, int64_t slot, int64_t slots, int64_t gate, T* out) const {
    const T* weights = call_.packed() + packed_transposed(spec_, layer_, d_).weight_hh;
    ProductArgs<T> p;
    p.a = g.gradients + slot * call_.hidden;
    p.a_stride = g.gradient_stride;
    p.rows = g.rows;
    p.k = slots * call_.hidden;
    p.b = weights + gate * call_.hidden * kPanel<T>;
    p.b_stride = spec_.gates() * call_.hidden * kPanel<T>;
    p.c = out;
    p.c_stride = kPanel<T>;
    p.row_stride = plan_.state_stride;
    p.panels = spec_.units();
    call_.kernels.product(p);
  }

  // dh += what of the gradient of the layer's output is this direction's. `place` is that of the first row.
  void add_output_gradient(int64_t s, int64_t active, int64_t place) const {
    if (layer_ < spec_.num_layers - 1 && call_.passes_gradients_on()) {
      const int64_t stride = call_.layout.scratch_stride;
      const T* passed = call_.at(of_.scratch) + place * stride;
      for (int64_t r = 0; r < active; ++r)
        for (int64_t i = 0; i < spec_.hidden_size; ++i)
          dh_[r * plan_.state_stride + i] += passed[r * stride + i];
      return;
    }
    const Sequence<const T> dy = call_.output_gradient(layer_);
    if (!dy.data) return;
    const int64_t feature = spec_.concatenates() ? d_ * spec_.hidden_size : 0;
    for (int64_t r = 0; r < active; ++r) {
      const Row& row = group_[r];
      const int64_t t = time_of(spec_, d_, s, row.length);
      const T* from = dy.at(output_time(plan_, t), row.index) + feature;
      T* to = dh_ + r * plan_.state_stride;
      if (spec_.merge == RNB_MERGE_MUL) {
        const T* other = call_.h_apart(layer_, 1 - d_, t, row.index);
        for (int64_t i = 0; i < spec_.hidden_size; ++i) to[i] += from[i] * other[i];
      } else {
        const T share = spec_.merge == RNB_MERGE_AVE ? T(0.5) : T(1);
        for (int64_t i = 0; i < spec_.hidden_size; ++i) to[i] += from[i] * share;
      }
    }
  }

  // Where a slope needs h, in the padded rows that kernels read: a GRU the step before's, an RNN its own.
  void gather_h(const Steps<T>& kept, const Stretch& stretch, int64_t s, int64_t active) const {
    if (spec_.cell == RNB_CELL_LSTM) return;
    const int64_t step = spec_.cell == RNB_CELL_GRU ? s - 1 : s;
    for (int64_t r = 0; r < active; ++r)
      copy_row(call_.h_row(layer_, d_, stretch, step, group_[r]), kept.h[0] + r * plan_.state_stride,
               plan_.state_stride);
  }

  const BackwardCall<T>& call_;
  const rnb_plan& plan_;
  const Spec& spec_;
  const Group& group_;
  const int64_t layer_, d_;
  const BackwardLayout::Direction& of_;
  const int64_t first_;
  T* const dh_;
  T* const dc_;
};

}  // namespace rnb
