// Weights in PyTorch's layout -> the panels that the kernels read. The only place that knows both.
#pragma once

#include "plan.h"

namespace rnb {

// `arrays` is rnb_weights.arrays, already checked for count and NULL.
void pack(const rnb_plan& plan, const void* const* arrays, void* packed);

}  // namespace rnb
