// The forward pass over time, layers and directions. Knows no instruction set and no weight layout but by
// offset.
#pragma once

#include "plan.h"

namespace rnb {

// `args` has been checked, and N is at least 1. Throws Error for a length out of range, before writing
// anything.
void forward(const rnb_plan& plan, const rnb_forward_args& args);

}  // namespace rnb
