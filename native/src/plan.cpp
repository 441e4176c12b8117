#include "plan.h"

#include <algorithm>

#include "batch.h"
#include "bytes.h"
#include "training.h"

namespace rnb {
namespace {

// The formulas of rnnbridge.h.
int64_t packed_size(const Spec& s) {
  Bytes elements = 0;
  for (int64_t layer = 0; layer < std::min<int64_t>(s.num_layers, 2); ++layer) {
    const Bytes width = Bytes(s.layer_input_size(layer)) + s.hidden_size;
    const Bytes one = Bytes(s.padded(s.hidden_size)) * (width * s.gates() + s.slots());
    elements = elements + one * s.directions() * (layer == 0 ? 1 : s.num_layers - 1);
  }
  return (elements * s.element_size()).value();
}

// What a training plan packs behind that.
int64_t packed_transposed_size(const Spec& s) {
  const int64_t hidden = s.padded(s.hidden_size);
  Bytes elements = 0;
  for (int64_t layer = 0; layer < std::min<int64_t>(s.num_layers, 2); ++layer) {
    const Bytes width = Bytes(s.padded(s.layer_input_size(layer))) + hidden;
    elements = elements + width * hidden * s.gates() * s.directions() * (layer == 0 ? 1 : s.num_layers - 1);
  }
  return (elements * s.element_size()).value();
}

constexpr int64_t kLargest = int64_t(1) << 48;

}  // namespace

PackedLayer packed_layer(const Spec& s, int64_t layer, int64_t direction) {
  const int64_t hidden = s.padded(s.hidden_size);
  const auto size = [&](int64_t l) {
    return hidden * (s.slots() + s.gates() * (s.layer_input_size(l) + s.hidden_size));
  };
  PackedLayer p;
  p.bias = direction * size(layer) + (layer ? s.directions() * (size(0) + (layer - 1) * size(1)) : 0);
  p.weight_ih = p.bias + hidden * s.slots();
  p.weight_hh = p.weight_ih + hidden * s.gates() * s.layer_input_size(layer);
  return p;
}

PackedTransposed packed_transposed(const Spec& s, int64_t layer, int64_t direction) {
  const int64_t hidden = s.padded(s.hidden_size), rows = s.gates() * hidden;
  const auto size = [&](int64_t l) { return rows * (hidden + s.padded(s.layer_input_size(l))); };
  PackedTransposed p;
  p.weight_hh = packed_size(s) / s.element_size() + direction * size(layer) +
                (layer ? s.directions() * (size(0) + (layer - 1) * size(1)) : 0);
  p.weight_ih = p.weight_hh + rows * hidden;
  return p;
}

WorkspaceLayout workspace_layout(const rnb_plan& p) {
  const Spec& s = p.spec;
  const Bytes e = s.element_size();
  const Bytes pre = (Bytes(p.N) + kChunkRows) * s.slots() * s.padded(s.hidden_size) * e;
  const Bytes state = Bytes(p.N) * s.state_rows() * p.state_stride * p.block_layers * e;
  const Bytes inner = Bytes(p.block_steps) * p.N * p.inner_width * e;
  WorkspaceLayout w{};
  Arena arena;
  for (int64_t d = 0; d < s.directions(); ++d) w.pre[d] = arena.take(pre);
  for (int64_t d = 0; d < s.directions(); ++d) w.state[d] = arena.take(state);
  for (int64_t i = 0; i < p.inner_count; ++i) w.inner[i] = arena.take(inner);
  w.rows = arena.take(Bytes(p.N) * int64_t(sizeof(Row)));
  w.nbytes = arena.nbytes();
  return w;
}

}  // namespace rnb

rnb_plan::rnb_plan(const rnb::Spec& spec_, int64_t T_, int64_t N_, uint32_t flags,
                   const rnb::KernelSet& kernels_)
    : spec(spec_),
      T(T_),
      N(N_),
      training(flags & RNB_PLAN_TRAINING),
      recompute(flags & RNB_PLAN_RECOMPUTE),
      kernels(kernels_) {
  using rnb::kLargest;
  using rnb::require;
  require(T >= 1, "T is ", T, "; a sequence has at least 1 step");
  require(N >= 0, "N is ", N, "; a batch has 0 or more sequences");
  require(std::max({T, N, spec.input_size, spec.hidden_size}) < kLargest,
          "T, N, input_size and hidden_size are ", T, ", ", N, ", ", spec.input_size, " and ",
          spec.hidden_size, "; each must be below ", kLargest);
  state_stride = spec.padded(spec.hidden_size) + spec.panel();
  inner_width = spec.padded(spec.output_size());
  inner_count = std::min<int64_t>(spec.num_layers, 3) - 1;
  const auto steps_of = [&](int64_t rows) { return N == 0 ? 1 : std::min(T, (rows + N - 1) / N); };
  chunk_steps = steps_of(kChunkRows);
  stretch_steps = steps_of(kStretchRows);
  block_layers = spec.directions() == 1 ? spec.num_layers : 1;
  block_steps = spec.directions() == 1 ? stretch_steps : T;
  packed_nbytes = rnb::packed_size(spec);
  workspace_nbytes = rnb::workspace_layout(*this).nbytes;
  tape_nbytes = 0;
  if (!training) return;
  rnb::check_trainable(spec);
  packed_nbytes = (rnb::Bytes(packed_nbytes) + rnb::packed_transposed_size(spec)).value();
  workspace_nbytes = std::max(rnb::training_forward_layout(*this).nbytes, rnb::backward_layout(*this).nbytes);
  tape_nbytes = rnb::tape_layout(*this).nbytes;
}
