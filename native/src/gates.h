// The gates of each cell and their order in every weight that crosses the C interface, once: counts, packing
// and build_info.cpp follow from it. Knows nothing of the order in which the kernels want them.
#pragma once

#include <string_view>

#include "../include/rnnbridge.h"

namespace rnb {

constexpr std::string_view gates_of(rnb_cell cell) {
  return cell == RNB_CELL_LSTM ? "ifgo" : cell == RNB_CELL_GRU ? "rzn" : "n";
}

}  // namespace rnb
