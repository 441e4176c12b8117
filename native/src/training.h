// Where everything lies in a tape and in the workspace of a training plan. Offsets in bytes unless said
// otherwise. R, the rows of a stretch, is stretch_steps * N. Knows nothing of what is computed.
#pragma once

#include "plan.h"

namespace rnb {

// Throws Error if a slope does not follow from an activation's output.
void check_trainable(const Spec& spec);

// Per layer and direction, `each` bytes apart, index layer * D + d; a place is a row of a step, numbered step
// after step and in a step in the order of the rows (batch.h).
struct TapeLayout {
  int64_t lengths;              // int64_t [N]
  int64_t gates, gates_each;    // [u][place][slot][j]; none for RNN or to be recomputed
  int64_t c, c_each;            // LSTM: [place][H'], or to be recomputed [stretch - 1][row][H'], at its start
  int64_t hidden, hidden_each;  // [T][N][H'], where the two directions' outputs are merged into one
  int64_t inner, inner_each;    // [T][N][Y'] per layer but the last: its output before dropout (sequence.h)
  int64_t h, h_each;  // instead, to be recomputed in one direction: [stretch - 1][N][H'], at its start
  int64_t nbytes;
};
TapeLayout tape_layout(const rnb_plan& plan);

// Whether each direction's h is kept apart from the layer's output.
inline bool keeps_hidden(const Spec& s) { return !s.concatenates(); }

// What a training forward adds to the workspace of workspace_layout, behind it.
struct TrainingForwardLayout {
  int64_t offsets;     // int64_t [T + 1]: the first place of a step
  int64_t dropped[2];  // per direction [96 + N][Y']
  int64_t nbytes;      // of the whole workspace
};
TrainingForwardLayout training_forward_layout(const rnb_plan& plan);

struct BackwardLayout {
  // What every layer of a block has of its own, from `start` on and `each` bytes apart.
  struct Layer {
    int64_t dh, dc;  // [N][state_stride]; dc is d(r * h) in a GRU before
    int64_t sum_ih;  // [u][I_l + 1][gate][j]
    int64_t sum_hh;  // [u][H + 1][gate][j]
    int64_t gates;   // recomputed: [u][R][slot][j]
    int64_t c;       // recomputed, LSTM: [R][H']
    int64_t output;  // recomputed, in a block of several layers: [stretch_steps][N][Y']
    int64_t start, each;
  };
  struct Direction {
    int64_t gradients;   // [R][slots * H' + panel]
    int64_t panels;      // [u][slot][R][j]
    int64_t input;       // [I_l + 1][over], transposed; its last row is ones
    int64_t hidden;      // [H + 1][over], transposed; its last row is ones
    int64_t reset_h;     // GRU before: [H][over], transposed
    int64_t reset_rows;  // GRU before: [R][H']
    int64_t scratch;     // [R][I'_l]: what a layer read, or the gradient of it
    int64_t state;       // 3 times [N][state_stride]
    Layer layer;
  } of[2];
  int64_t
      inner[2];  // in two directions [T][N][Y'], as many as WorkspaceLayout has: gradients of inner outputs
  int64_t rows;
  int64_t offsets;
  int64_t over;  // elements between transposed rows
  int64_t gradient_stride;
  int64_t scratch_stride;
  int64_t nbytes;
};
BackwardLayout backward_layout(const rnb_plan& plan);

}  // namespace rnb
