#include "training.h"

#include <algorithm>

#include "batch.h"
#include "bytes.h"
#include "names.h"
#include "tape.h"

namespace rnb {
namespace {

// Why the slope does not follow from the output; NULL if it does.
const char* obstacle(const Activation& a) {
  switch (a.code) {
    case RNB_ACTIVATION_SILU:
    case RNB_ACTIVATION_GELU:
      return "its slope does not follow from its output";
    case RNB_ACTIVATION_LEAKY_RELU:
    case RNB_ACTIVATION_ELU:
      return a.alpha > 0 ? nullptr : "its alpha must be above 0";
    case RNB_ACTIVATION_SCALED_TANH:
      return a.alpha != 0 ? nullptr : "its alpha must not be 0";
    default:
      return nullptr;
  }
}

}  // namespace

void check_trainable(const Spec& spec) {
  for (int i = 0; i < spec.num_activations(); ++i) {
    const Activation& a = spec.activations[i];
    const char* reason = obstacle(a);
    require(!reason, "activations[", i, "] is ", kActivations[a.code - 1].name,
            ", which the engine runs but does not train: ", reason ? reason : "");
  }
  require(spec.num_layers <= kDropoutLayers && spec.output_size() <= kDropoutFeatures, "num_layers is ",
          spec.num_layers, " and a layer's output has ", spec.output_size(),
          " features; training accepts up to ", kDropoutLayers, " and ", kDropoutFeatures);
}

TapeLayout tape_layout(const rnb_plan& p) {
  const Spec& s = p.spec;
  const bool lstm = s.cell == RNB_CELL_LSTM;
  const int64_t e = s.element_size(), hidden = s.padded(s.hidden_size), each = s.num_layers * s.directions();
  const bool keeps_outputs = !p.recompute || s.directions() == 2;
  const int64_t stretches = (p.T + p.stretch_steps - 1) / p.stretch_steps;
  const Bytes places = Bytes(p.T) * p.N * e, starts = Bytes(stretches - 1) * p.N * e;
  TapeLayout t;
  t.gates_each = s.cell == RNB_CELL_RNN || p.recompute ? 0 : (places * s.slots() * hidden).value();
  t.c_each = lstm ? ((p.recompute ? starts : places) * hidden).value() : 0;
  t.hidden_each = keeps_hidden(s) ? (places * hidden).value() : 0;
  t.inner_each = keeps_outputs ? (places * p.inner_width).value() : 0;
  t.h_each = keeps_outputs ? 0 : (starts * hidden).value();
  Arena arena;
  arena.take(int64_t(sizeof(TapeHeader)));
  t.lengths = arena.take(Bytes(p.N) * 8);
  t.gates = arena.take(Bytes(t.gates_each) * each);
  t.c = arena.take(Bytes(t.c_each) * each);
  t.hidden = arena.take(Bytes(t.hidden_each) * each);
  t.inner = arena.take(Bytes(t.inner_each) * (s.num_layers - 1));
  t.h = arena.take(Bytes(t.h_each) * (s.num_layers - 1));
  t.nbytes = arena.nbytes();
  return t;
}

TrainingForwardLayout training_forward_layout(const rnb_plan& p) {
  const Spec& s = p.spec;
  const Bytes dropped = (Bytes(kChunkRows) + p.N) * p.inner_width * s.element_size();
  TrainingForwardLayout t{};
  Arena arena;
  arena.take(workspace_layout(p).nbytes);
  t.offsets = arena.take((Bytes(p.T) + 1) * 8);
  for (int64_t d = 0; d < s.directions(); ++d)
    t.dropped[d] = arena.take(s.num_layers > 1 ? dropped : Bytes(0));
  t.nbytes = arena.nbytes();
  return t;
}

namespace {

BackwardLayout::Layer backward_layer(const rnb_plan& p, int64_t widest) {
  const Spec& s = p.spec;
  const bool before = s.reset == RNB_RESET_BEFORE, lstm = s.cell == RNB_CELL_LSTM;
  const int64_t hidden = s.padded(s.hidden_size), gates = s.gates() * hidden;
  const Bytes e = s.element_size(), rows = Bytes(p.stretch_steps) * p.N, state = Bytes(p.N) * p.state_stride;
  BackwardLayout::Layer layer;
  Arena arena;
  const auto take = [&](bool wanted, Bytes elements) { return arena.take(wanted ? elements * e : Bytes(0)); };
  layer.dh = take(true, state);
  layer.dc = take(lstm || before, state);
  layer.sum_ih = take(true, (Bytes(widest) + 1) * gates);
  layer.sum_hh = take(true, (Bytes(s.hidden_size) + 1) * gates);
  layer.gates = take(p.recompute, rows * s.slots() * hidden);
  layer.c = take(p.recompute && lstm, rows * hidden);
  layer.output = take(p.recompute && p.block_layers > 1, rows * p.inner_width);
  layer.each = arena.nbytes();
  return layer;
}

}  // namespace

BackwardLayout backward_layout(const rnb_plan& p) {
  const Spec& s = p.spec;
  const bool before = s.reset == RNB_RESET_BEFORE;
  const int64_t hidden = s.padded(s.hidden_size);
  const int64_t widest = std::max(s.input_size, s.num_layers > 1 ? s.output_size() : 0);
  const Bytes e = s.element_size(), rows = Bytes(p.stretch_steps) * p.N, state = Bytes(p.N) * p.state_stride;
  BackwardLayout b;
  b.over = (rows.value() + 15) / 16 * 16 + 16;
  b.gradient_stride = s.slots() * hidden + s.panel();
  b.scratch_stride = s.padded(widest);
  Arena arena;
  const auto take = [&](bool wanted, Bytes elements) { return arena.take(wanted ? elements * e : Bytes(0)); };
  for (int64_t d = 0; d < s.directions(); ++d) {
    BackwardLayout::Direction& of = b.of[d];
    of.gradients = take(true, rows * b.gradient_stride);
    of.panels = take(true, rows * s.slots() * hidden);
    of.input = take(true, (Bytes(widest) + 1) * b.over);
    of.hidden = take(true, (Bytes(s.hidden_size) + 1) * b.over);
    of.reset_h = take(before, Bytes(s.hidden_size) * b.over);
    of.reset_rows = take(before, rows * hidden);
    of.scratch = take(true, rows * b.scratch_stride);
    of.state = take(true, state * 3);
    of.layer = backward_layer(p, widest);
    of.layer.start = arena.take(Bytes(of.layer.each) * p.block_layers);
  }
  for (int64_t i = 0; i < p.inner_count; ++i)
    b.inner[i] = take(s.directions() == 2, Bytes(p.T) * p.N * p.inner_width);
  b.rows = arena.take(Bytes(p.N) * int64_t(sizeof(Row)));
  b.offsets = arena.take((Bytes(p.T) + 1) * 8);
  b.nbytes = arena.nbytes();
  return b;
}

}  // namespace rnb
