// Weights in PyTorch's layout -> the panels that the kernels read. The only place that knows both.
#pragma once

#include "plan.h"

namespace rnb {

// For each panel of weight_ih, the gate it holds (index into ifgo / rzn). A GRU's n comes first, so that the
// slots n r z q are W's n r z and U's r z q, both contiguous.
const int* input_gates(const Spec& spec);

// `arrays` is rnb_weights.arrays, already checked for count and NULL.
void pack(const rnb_plan& plan, const void* const* arrays, void* packed);

}  // namespace rnb
