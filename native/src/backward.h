// The backward pass over layers, directions and stretches of steps. Knows no instruction set.
#pragma once

#include "plan.h"

namespace rnb {

// `args` has been checked. Throws Error for a tape that is not this plan's, before writing anything.
void backward(const rnb_plan& plan, const rnb_backward_args& args);

}  // namespace rnb
