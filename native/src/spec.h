// The checked form of rnb_spec and what follows from it alone: widths, counts and where each packed array
// lies. Knows nothing of T, N, threads or instruction sets.
#pragma once

#include "../include/rnnbridge.h"
#include "gates.h"
#include "kernels.h"

namespace rnb {

struct Spec {
  rnb_cell cell;
  rnb_reset reset;
  rnb_dtype dtype;
  rnb_direction direction;
  rnb_bias bias;
  rnb_merge merge;
  rnb_output_order output_order;
  int64_t num_layers;
  int64_t input_size;
  int64_t hidden_size;
  Activation activations[3];

  // Throws Error for anything that rnnbridge.h does not allow.
  explicit Spec(const rnb_spec& given);

  int64_t element_size() const { return dtype == RNB_DTYPE_FLOAT32 ? 4 : 8; }
  int64_t directions() const { return direction == RNB_DIRECTION_BIDIRECTIONAL ? 2 : 1; }
  int gates() const { return int(gates_of(cell).size()); }
  // Blocks of pre-activations of a row: reset-after keeps U_n h + b_hn apart from W_n x + b_in.
  int slots() const { return reset == RNB_RESET_AFTER ? 4 : gates(); }
  // Rows of state in the workspace: h twice, c or r * h.
  int state_rows() const { return cell == RNB_CELL_LSTM || reset == RNB_RESET_BEFORE ? 3 : 2; }
  int arrays_per_direction() const { return bias == RNB_BIAS_NONE ? 2 : bias == RNB_BIAS_SINGLE ? 3 : 4; }
  int num_activations() const { return cell == RNB_CELL_LSTM ? 3 : cell == RNB_CELL_GRU ? 2 : 1; }
  bool concatenates() const { return merge == RNB_MERGE_CONCAT || merge == RNB_MERGE_NONE; }
  int64_t output_size() const { return concatenates() ? directions() * hidden_size : hidden_size; }
  int64_t layer_input_size(int64_t layer) const { return layer == 0 ? input_size : output_size(); }

  int64_t panel() const { return kPanelBytes / element_size(); }
  int64_t padded(int64_t features) const { return (features + panel() - 1) / panel() * panel(); }
  int64_t units() const { return padded(hidden_size) / panel(); }
};

}  // namespace rnb
