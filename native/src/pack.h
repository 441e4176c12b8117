// Weights in PyTorch's layout -> the panels that the kernels read. The only place that knows both.
#pragma once

#include <string_view>

#include "plan.h"

namespace rnb {

// The gate of each panel, as the kernels read them (kernels.h). In weight_ih a GRU's n comes first, so that
// the slots n r z q are W's n r z and U's r z q, both contiguous.
std::string_view input_panels(rnb_cell cell);
std::string_view hidden_panels(rnb_cell cell);

// The first of a gate's H rows in a canonical array.
int64_t first_row(const Spec& spec, char gate);

// `arrays` is rnb_weights.arrays, already checked for count and NULL.
void pack(const rnb_plan& plan, const void* const* arrays, void* packed);

}  // namespace rnb
