// A plan: a spec for given T and N, the sizes that follow, where everything lies in them, and the kernels to
// use. Immutable once made. Knows nothing of threads.
#pragma once

#include "kernels.h"
#include "spec.h"

// Hoisted input products are made for chunks of about this many rows; see rnnbridge.h on the workspace.
constexpr int64_t kChunkRows = 96;

// A stretch of steps has about this many rows. All layers that can go through time together finish one before
// the next begins, and backward's sums over time and batch are made of one at a time.
constexpr int64_t kStretchRows = 512;

struct rnb_plan {
  rnb::Spec spec;
  int64_t T;
  int64_t N;
  bool training;
  bool recompute;
  const rnb::KernelSet& kernels;

  int64_t packed_nbytes;
  int64_t workspace_nbytes;
  int64_t tape_nbytes;

  // Elements between two rows of state, a panel more than H': rows must not all map to the same cache sets.
  int64_t state_stride;
  // Elements of a row of an inner layer's output, and how many such outputs the workspace holds.
  int64_t inner_width;
  int64_t inner_count;
  // Steps of a chunk, whose input products are made together, and of a stretch. They depend on T and N alone,
  // never on threads.
  int64_t chunk_steps;
  int64_t stretch_steps;
  // Layers that go through time together: all, or one at a time where a layer needs the whole of the one below
  // for its other direction.
  int64_t block_layers;
  // Steps that a block is taken through at a time, and of which the workspace holds an inner layer's output.
  int64_t block_steps;

  // `flags` are known ones. Throws Error for T < 1, N < 0, sizes beyond an address space or a spec that
  // cannot be trained, if it shall be.
  rnb_plan(const rnb::Spec& spec, int64_t T, int64_t N, uint32_t flags, const rnb::KernelSet& kernels);
};

namespace rnb {

// Offsets in elements into the packed weights, for one layer and direction: bias, then weight_ih, then
// weight_hh.
struct PackedLayer {
  int64_t bias;
  int64_t weight_ih;
  int64_t weight_hh;
};
PackedLayer packed_layer(const Spec& spec, int64_t layer, int64_t direction);

// The same for what a training plan packs as well: weight_hh [u][G*H'][j], units of h by rows in the
// canonical order of gates; weight_ih [u][G*H'][j], features of x by rows in the order of slots.
struct PackedTransposed {
  int64_t weight_hh;
  int64_t weight_ih;
};
PackedTransposed packed_transposed(const Spec& spec, int64_t layer, int64_t direction);

// Offsets in bytes into the workspace, for one direction where there is one per direction.
struct WorkspaceLayout {
  int64_t pre[2];
  int64_t state[2];
  int64_t inner[2];
  int64_t rows;
  int64_t nbytes;
};
WorkspaceLayout workspace_layout(const rnb_plan& plan);

}  // namespace rnb
