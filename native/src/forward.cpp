#include "forward.h"

#include <algorithm>
#include <cstring>

#include "batch.h"
#include "pool.h"
#include "share.h"

namespace rnb {
namespace {

// A sequence array [T, N, features]: x, y or an inner layer's output.
template <class T>
struct Sequence {
  T* data;
  int64_t stride_t;
  int64_t stride_n;
  T* at(int64_t t, int64_t n) const { return data + t * stride_t + n * stride_n; }
};

// How a direction's h becomes part of y.
enum class Emit { kStore, kAdd, kMultiply, kAverage };

template <class T>
void emit(Emit how, const T* h, int64_t size, T* y) {
  switch (how) {
    case Emit::kStore:
      std::memcpy(y, h, size_t(size) * sizeof(T));
      break;
    case Emit::kAdd:
      for (int64_t i = 0; i < size; ++i) y[i] += h[i];
      break;
    case Emit::kMultiply:
      for (int64_t i = 0; i < size; ++i) y[i] *= h[i];
      break;
    case Emit::kAverage:
      for (int64_t i = 0; i < size; ++i) y[i] = (y[i] + h[i]) / 2;
      break;
  }
}

template <class T>
class Forward {
 public:
  Forward(const rnb_plan& plan, const rnb_forward_args& args)
      : plan_(plan),
        spec_(plan.spec),
        args_(args),
        kernels_(kernels_of<T>(plan.kernels)),
        layout_(workspace_layout(plan)),
        rows_(reinterpret_cast<Row*>(static_cast<char*>(args.workspace) + layout_.rows)) {}

  void run() {
    equal_lengths_ = sort_rows(args_.lengths, args_.lengths_itemsize, plan_.T, plan_.N, rows_);
    const Wish wished = wish(plan_, args_.num_threads);
    run_team(wished.threads, [&](const Team& team) { run_member(team, wished.fewest_rows); });
  }

 private:
  // One thread's part: its rows through all layers, in the directions that are its own.
  void run_member(const Team& team, int64_t fewest_rows) const {
    const Sharing sharing = share(plan_, team.size, fewest_rows);
    const bool works = team.index < sharing.threads();
    const Group group(rows_, plan_.N, sharing.groups, team.index / sharing.directions % sharing.groups,
                      equal_lengths_);
    for (int64_t layer = 0; layer < spec_.num_layers; ++layer) {
      for (int64_t d = 0; works && d < spec_.directions(); ++d)
        if (sharing.directions == 1 || d == team.index % 2) run_direction(group, layer, d);
      if (sharing.directions == 2) team.wait();
    }
  }

  void run_direction(const Group& group, int64_t layer, int64_t d) const {
    const Sequence<const T> x = input_of(layer);
    Sequence<T> y = output_of(layer);
    if (spec_.concatenates() && y.data) y.data += d * spec_.hidden_size;
    const Steps steps(*this, group, layer, d);
    load_states(group, layer, d, steps);
    int64_t active = group.active(0, group.size());
    for (int64_t step = 0; active > 0; step += plan_.chunk_steps) {
      const int64_t end = std::min(plan_.T, step + plan_.chunk_steps);
      multiply_inputs(group, x, d, steps, step, end, active);
      T* pre = steps.pre;
      for (int64_t s = step; s < end && (active = group.active(s, active)) > 0; ++s) {
        steps.run(s, active, pre);
        emit_step(group, d, y, steps, s, active);
        pre += active * spec_.slots() * kPanel<T>;
      }
      active = group.active(end, active);
    }
    if (layer == spec_.num_layers - 1) clear_padding(group, d, y);
    store_states(group, layer, d, steps);
  }

  // The buffers of one group in one direction, and the kernel calls on them.
  struct Steps {
    Steps(const Forward& f, const Group& group, int64_t layer, int64_t d) : forward(f) {
      const Spec& spec = f.spec_;
      const PackedLayer at = packed_layer(spec, layer, d);
      const T* packed = static_cast<const T*>(f.args_.packed);
      bias = packed + at.bias;
      weight_ih = packed + at.weight_ih;
      weight_hh = packed + at.weight_hh;
      const int64_t pre_row = spec.slots() * spec.padded(spec.hidden_size), chunk = f.plan_.chunk_steps;
      pre = f.at(f.layout_.pre[d]) + group.start() * chunk * pre_row;
      unit_stride = group.size() * chunk * spec.slots() * kPanel<T>;
      T* state = f.at(f.layout_.state[d]) + group.start() * f.plan_.state_stride;
      const int64_t all = f.plan_.N * f.plan_.state_stride;
      h[0] = state;
      h[1] = state + all;
      third = spec.state_rows() == 3 ? state + 2 * all : nullptr;
      input_size = spec.layer_input_size(layer);
    }

    void run(int64_t step, int64_t active, T* pre_of_step) const {
      const Spec& spec = forward.spec_;
      StepArgs<T> s;
      s.h = h[step & 1];
      s.h_next = h[(step + 1) & 1];
      s.c = s.reset_h = third;
      s.stride = forward.plan_.state_stride;
      s.rows = active;
      s.hidden_size = spec.hidden_size;
      s.weights = weight_hh;
      s.pre = pre_of_step;
      s.unit_stride = unit_stride;
      s.units = spec.units();
      s.activations = spec.activations;
      const Kernels<T>& k = forward.kernels_;
      if (spec.cell == RNB_CELL_LSTM) {
        k.lstm(s);
      } else if (spec.cell == RNB_CELL_RNN) {
        k.rnn(s);
      } else if (spec.reset == RNB_RESET_AFTER) {
        k.gru_after(s);
      } else {
        k.gru_before_gates(s);
        k.gru_before_update(s);
      }
    }

    const Forward& forward;
    const T *bias, *weight_ih, *weight_hh;
    int64_t input_size;
    T* pre;               // [u][chunk's rows][slot][j]
    int64_t unit_stride;  // of pre
    T* h[2];              // [row][state_stride]; step s reads h[s % 2] and writes the other
    T* third;             // the same: c, or r * h
  };

  // pre-activations of the steps [begin, end): the rows of each step that are active in it, step after step.
  void multiply_inputs(const Group& group, const Sequence<const T>& x, int64_t d, const Steps& steps,
                       int64_t begin, int64_t end, int64_t active) const {
    const T* pointers[kInputRows];
    InputArgs<T> a;
    a.x = pointers;
    a.rows = 0;
    a.size = steps.input_size;
    a.weights = steps.weight_ih;
    a.bias = steps.bias;
    a.pre = steps.pre;
    a.unit_stride = steps.unit_stride;
    a.units = spec_.units();
    a.panels = spec_.gates();
    a.slots = spec_.slots();
    const auto flush = [&] {
      kernels_.input(a);
      a.pre += a.rows * spec_.slots() * kPanel<T>;
      a.rows = 0;
    };
    for (int64_t s = begin; s < end; ++s) {
      active = group.active(s, active);
      for (int64_t r = 0; r < active; ++r) {
        pointers[a.rows++] = x.at(time_of(d, s, group[r].length), group[r].index);
        if (a.rows == kInputRows) flush();
      }
    }
    if (a.rows) flush();
  }

  // A reverse direction starts at a sequence's own last step.
  int64_t time_of(int64_t d, int64_t step, int64_t length) const {
    const bool reverse = spec_.direction == RNB_DIRECTION_REVERSE || d == 1;
    return reverse ? length - 1 - step : step;
  }

  void emit_step(const Group& group, int64_t d, const Sequence<T>& y, const Steps& steps, int64_t s,
                 int64_t active) const {
    if (!y.data) return;
    const Emit how = spec_.concatenates() || d == 0 ? Emit::kStore
                     : spec_.merge == RNB_MERGE_SUM ? Emit::kAdd
                     : spec_.merge == RNB_MERGE_MUL ? Emit::kMultiply
                                                    : Emit::kAverage;
    for (int64_t r = 0; r < active; ++r) {
      const int64_t t = output_time(time_of(d, s, group[r].length));
      emit(how, steps.h[(s + 1) & 1] + r * plan_.state_stride, spec_.hidden_size, y.at(t, group[r].index));
    }
  }

  int64_t output_time(int64_t t) const {
    return spec_.output_order == RNB_OUTPUT_ORDER_PROCESSING ? plan_.T - 1 - t : t;
  }

  void clear_padding(const Group& group, int64_t d, const Sequence<T>& y) const {
    if (!y.data || equal_lengths_ || (d == 1 && !spec_.concatenates())) return;
    for (int64_t r = 0; r < group.size(); ++r)
      for (int64_t t = group[r].length; t < plan_.T; ++t)
        std::fill_n(y.at(output_time(t), group[r].index), spec_.hidden_size, T(0));
  }

  // State of row n in a [L*D, N, H] array.
  int64_t state_offset(int64_t layer, int64_t d, int64_t n) const {
    return ((layer * spec_.directions() + d) * plan_.N + n) * spec_.hidden_size;
  }

  void load_states(const Group& group, int64_t layer, int64_t d, const Steps& steps) const {
    const auto load = [&](const void* states, int64_t n, T* row) {
      std::fill_n(row, plan_.state_stride, T(0));
      if (states)
        std::copy_n(static_cast<const T*>(states) + state_offset(layer, d, n), spec_.hidden_size, row);
    };
    for (int64_t r = 0; r < group.size(); ++r) {
      load(args_.h0, group[r].index, steps.h[0] + r * plan_.state_stride);
      if (spec_.cell == RNB_CELL_LSTM) load(args_.c0, group[r].index, steps.third + r * plan_.state_stride);
    }
  }

  void store_states(const Group& group, int64_t layer, int64_t d, const Steps& steps) const {
    const auto store = [&](void* states, int64_t n, const T* row) {
      if (states) std::copy_n(row, spec_.hidden_size, static_cast<T*>(states) + state_offset(layer, d, n));
    };
    for (int64_t r = 0; r < group.size(); ++r) {
      store(args_.hn, group[r].index, steps.h[group[r].length & 1] + r * plan_.state_stride);
      if (spec_.cell == RNB_CELL_LSTM) store(args_.cn, group[r].index, steps.third + r * plan_.state_stride);
    }
  }

  Sequence<const T> input_of(int64_t layer) const {
    if (layer == 0) return {static_cast<const T*>(args_.x), args_.x_stride_t, args_.x_stride_n};
    const Sequence<T> below = inner(layer - 1);
    return {below.data, below.stride_t, below.stride_n};
  }

  Sequence<T> output_of(int64_t layer) const {
    if (layer < spec_.num_layers - 1) return inner(layer);
    return {static_cast<T*>(args_.y), args_.y_stride_t, args_.y_stride_n};
  }

  Sequence<T> inner(int64_t layer) const {
    return {at(layout_.inner[layer % 2]), plan_.N * plan_.inner_width, plan_.inner_width};
  }

  T* at(int64_t offset) const { return reinterpret_cast<T*>(static_cast<char*>(args_.workspace) + offset); }

  const rnb_plan& plan_;
  const Spec& spec_;
  const rnb_forward_args& args_;
  const Kernels<T>& kernels_;
  const WorkspaceLayout layout_;
  Row* const rows_;
  bool equal_lengths_ = true;
};

}  // namespace

void forward(const rnb_plan& plan, const rnb_forward_args& args) {
  if (plan.spec.dtype == RNB_DTYPE_FLOAT32)
    Forward<float>(plan, args).run();
  else
    Forward<double>(plan, args).run();
}

}  // namespace rnb
