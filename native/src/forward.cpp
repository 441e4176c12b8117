#include "forward.h"

#include <algorithm>
#include <cstring>

#include "denormals.h"
#include "pool.h"
#include "share.h"
#include "steps.h"
#include "tape.h"
#include "training.h"

namespace rnb {
namespace {

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
        layout_(workspace_layout(plan)),
        rows_(reinterpret_cast<Row*>(workspace() + layout_.rows)),
        dropout_{args.dropout, args.dropout_seed, args.dropout_offset, args.dropout_sample_offset} {
    if (!args.tape) return;
    tape_ = tape_layout(plan);
    training_ = training_forward_layout(plan);
    keeps_gates_ = !plan.recompute && spec_.cell != RNB_CELL_RNN;
  }

  void run() {
    equal_lengths_ = sort_rows(args_.lengths, args_.lengths_itemsize, plan_.T, plan_.N, rows_);
    if (args_.tape) begin_tape();
    const Wish wished = wish(plan_, args_.num_threads);
    run_team(wished.threads, [&](const Team& team) { run_member(team, wished.fewest_rows); });
  }

 private:
  // What backward has to know of this call that is not the result of a computation.
  void begin_tape() {
    const TapeHeader header = make_header(plan_, args_.weights_generation, dropout_);
    std::memcpy(args_.tape, &header, sizeof header);
    int64_t* lengths = reinterpret_cast<int64_t*>(tape() + tape_.lengths);
    for (int64_t i = 0; i < plan_.N; ++i) lengths[rows_[i].index] = rows_[i].length;
    fill_offsets(rows_, plan_.T, plan_.N, offsets());
  }

  // One thread's part: its rows through all layers, in the directions that are its own.
  void run_member(const Team& team, int64_t fewest_rows) const {
    const FlushDenormals flush;
    const Sharing sharing = share(plan_, team.size, fewest_rows);
    const bool works = team.index < sharing.threads();
    const int64_t index = team.index / sharing.directions % sharing.groups;
    // A tape's places belong to contiguous groups.
    const Group group = args_.tape ? Group::contiguous(rows_, plan_.N, sharing.groups, index)
                                   : Group::spread(rows_, plan_.N, sharing.groups, index, equal_lengths_);
    for (int64_t layer = 0; layer < spec_.num_layers; layer += plan_.block_layers) {
      for (int64_t d = 0; works && d < spec_.directions(); ++d)
        if (sharing.directions == 1 || d == team.index % 2) run_block(group, layer, d);
      if (sharing.directions == 2) team.wait();
    }
  }

  // The layers that go through time together, from `bottom` on.
  void run_block(const Group& group, int64_t bottom, int64_t d) const {
    const int64_t top = bottom + plan_.block_layers;
    for (int64_t layer = bottom; layer < top; ++layer) load_states(steps_of(group, layer, d));
    for (int64_t begin = 0; group.active(begin, group.size()) > 0; begin += plan_.block_steps)
      for (int64_t layer = bottom; layer < top; ++layer) run_stretch(steps_of(group, layer, d), begin);
    if (top == spec_.num_layers) clear_padding(group, d);
    for (int64_t layer = bottom; layer < top; ++layer) store_states(steps_of(group, layer, d));
  }

  void run_stretch(const Steps<T>& steps, int64_t begin) const {
    const int64_t end = std::min(plan_.T, begin + plan_.block_steps);
    const Between<T> y = output_of(steps.layer, steps.d, begin);
    const Inputs<T> inputs = inputs_of(steps, begin);
    int64_t active = steps.group.active(begin, steps.group.size());
    for (int64_t step = begin; step < end && active > 0; step += plan_.chunk_steps)
      active = steps.run(
          step, std::min(end, step + plan_.chunk_steps), active, inputs,
          [&](int64_t s, int64_t rows) { keep_states(steps, s, rows); },
          [&](int64_t s, int64_t rows) { emit_step(steps, y, s, rows); });
  }

  Steps<T> steps_of(const Group& group, int64_t layer, int64_t d) const {
    const int64_t all = plan_.N * plan_.state_stride, pre_row = spec_.slots() * kPanel<T>;
    T* state = at(layout_.state[d]) + layer % plan_.block_layers * spec_.state_rows() * all +
               group.start() * plan_.state_stride;
    T* third = spec_.state_rows() == 3 ? state + 2 * all : nullptr;
    Steps<T> s{plan_, group, layer, d, static_cast<const T*>(args_.packed), {state, state + all}, third};
    if (args_.tape && keeps_gates_) {
      const int64_t index = layer * spec_.directions() + d;
      s.pre = kept(tape_.gates + index * tape_.gates_each);
      s.unit_stride = plan_.T * plan_.N * pre_row;
      s.offsets = offsets();
      if (spec_.cell == RNB_CELL_LSTM) s.c_by_place = kept(tape_.c + index * tape_.c_each);
    } else {
      s.pre = at(layout_.pre[d]) + group.start() * plan_.chunk_steps * pre_row * spec_.units();
      s.unit_stride = group.size() * plan_.chunk_steps * pre_row;
    }
    return s;
  }

  Inputs<T> inputs_of(const Steps<T>& steps, int64_t begin) const {
    const int64_t layer = steps.layer;
    if (layer == 0) {
      const Sequence<const T> x{static_cast<const T*>(args_.x), args_.x_stride_t, args_.x_stride_n};
      return {{x, false, 0}, spec_.input_size, nullptr, 0, nullptr, 0};
    }
    const bool drops = args_.tape && dropout_.active();
    const int64_t first = steps.group.start() * plan_.chunk_steps * plan_.inner_width;
    T* dropped = drops ? at(training_.dropped[steps.d]) + first : nullptr;
    return {inner(layer - 1, begin), spec_.output_size(), drops ? &dropout_ : nullptr, layer - 1, dropped,
            plan_.inner_width};
  }

  // What backward starts a stretch from, where it recomputes the rest.
  void keep_states(const Steps<T>& steps, int64_t s, int64_t active) const {
    if (!args_.tape || !plan_.recompute || s == 0 || s % plan_.stretch_steps) return;
    const int64_t hidden = spec_.padded(spec_.hidden_size), stretch = s / plan_.stretch_steps;
    if (spec_.cell == RNB_CELL_LSTM) {
      const int64_t index = steps.layer * spec_.directions() + steps.d;
      const int64_t first_row = (stretch - 1) * plan_.N + steps.group.start();
      std::copy_n(steps.third, active * hidden, kept(tape_.c + index * tape_.c_each) + first_row * hidden);
    }
    if (tape_.h_each && steps.layer < spec_.num_layers - 1) {
      const Sequence<T> starts = dense(kept(tape_.h + steps.layer * tape_.h_each), plan_.N, hidden);
      for (int64_t r = 0; r < active; ++r)
        std::copy_n(steps.h[s & 1] + r * plan_.state_stride, hidden,
                    starts.at(stretch - 1, steps.group[r].index));
    }
  }

  void emit_step(const Steps<T>& steps, const Between<T>& y, int64_t s, int64_t active) const {
    const bool hidden = args_.tape && keeps_hidden(spec_);
    const Emit how = spec_.concatenates() || steps.d == 0 ? Emit::kStore
                     : spec_.merge == RNB_MERGE_SUM       ? Emit::kAdd
                     : spec_.merge == RNB_MERGE_MUL       ? Emit::kMultiply
                                                          : Emit::kAverage;
    for (int64_t r = 0; r < active; ++r) {
      const T* h = steps.h[(s + 1) & 1] + r * plan_.state_stride;
      const Row& row = steps.group[r];
      const int64_t t = time_of(spec_, steps.d, s, row.length);
      if (y.rows.data) emit(how, h, spec_.hidden_size, y.at(s, output_time(plan_, t), row.index));
      if (hidden) std::copy_n(h, spec_.hidden_size, hidden_of(steps).at(t, row.index));
    }
  }

  void clear_padding(const Group& group, int64_t d) const {
    const Sequence<T> y = output_of(spec_.num_layers - 1, d, 0).rows;
    if (!y.data || equal_lengths_ || (d == 1 && !spec_.concatenates())) return;
    for (int64_t r = 0; r < group.size(); ++r)
      for (int64_t t = group[r].length; t < plan_.T; ++t)
        std::fill_n(y.at(output_time(plan_, t), group[r].index), spec_.hidden_size, T(0));
  }

  void load_states(const Steps<T>& steps) const {
    const auto load = [&](const void* states, int64_t n, T* row, int64_t stride) {
      std::fill_n(row, stride, T(0));
      if (states)
        std::copy_n(static_cast<const T*>(states) + state_offset(plan_, steps.layer, steps.d, n),
                    spec_.hidden_size, row);
    };
    const int64_t hidden = spec_.padded(spec_.hidden_size);
    for (int64_t r = 0; r < steps.group.size(); ++r) {
      load(args_.h0, steps.group[r].index, steps.h[0] + r * plan_.state_stride, plan_.state_stride);
      if (spec_.cell == RNB_CELL_LSTM) load(args_.c0, steps.group[r].index, steps.third + r * hidden, hidden);
    }
  }

  void store_states(const Steps<T>& steps) const {
    const auto store = [&](void* states, int64_t n, const T* row) {
      if (states)
        std::copy_n(row, spec_.hidden_size,
                    static_cast<T*>(states) + state_offset(plan_, steps.layer, steps.d, n));
    };
    for (int64_t r = 0; r < steps.group.size(); ++r) {
      const Row& row = steps.group[r];
      store(args_.hn, row.index, steps.h[row.length & 1] + r * plan_.state_stride);
      if (spec_.cell == RNB_CELL_LSTM) store(args_.cn, row.index, steps.c_row(row.length - 1, r));
    }
  }

  // Where a direction's features of a layer's output go, of the stretch that starts at step `begin`.
  Between<T> output_of(int64_t layer, int64_t d, int64_t begin) const {
    const bool top = layer == spec_.num_layers - 1;
    const Sequence<T> y{static_cast<T*>(args_.y), args_.y_stride_t, args_.y_stride_n};
    Between<T> output = top ? Between<T>{y, false, 0} : inner(layer, begin);
    if (spec_.concatenates() && output.rows.data) output.rows.data += d * spec_.hidden_size;
    return output;
  }

  Between<T> inner(int64_t layer, int64_t begin) const {
    const bool by_step = spec_.directions() == 1, in_tape = args_.tape && tape_.inner_each;
    T* data = in_tape ? kept(tape_.inner + layer * tape_.inner_each) : at(layout_.inner[layer % 2]);
    return {dense(data, plan_.N, plan_.inner_width), by_step, in_tape ? 0 : begin};
  }

  Sequence<T> hidden_of(const Steps<T>& steps) const {
    const int64_t index = steps.layer * spec_.directions() + steps.d;
    return dense(kept(tape_.hidden + index * tape_.hidden_each), plan_.N, spec_.padded(spec_.hidden_size));
  }

  char* workspace() const { return static_cast<char*>(args_.workspace); }
  char* tape() const { return static_cast<char*>(args_.tape); }
  T* at(int64_t offset) const { return reinterpret_cast<T*>(workspace() + offset); }
  T* kept(int64_t offset) const { return reinterpret_cast<T*>(tape() + offset); }
  int64_t* offsets() const { return reinterpret_cast<int64_t*>(workspace() + training_.offsets); }

  const rnb_plan& plan_;
  const Spec& spec_;
  const rnb_forward_args& args_;
  const WorkspaceLayout layout_;
  Row* const rows_;
  const Dropout dropout_;
  TapeLayout tape_{};  // with a tape, as is training_
  TrainingForwardLayout training_{};
  bool keeps_gates_ = false;
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
