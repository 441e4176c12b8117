// Which sets of kernels this library holds, which of them this process may use, and which one it does.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace rnb {

struct IsaState {
  std::vector<const char*> compiled;
  std::vector<const char*> usable;
  const KernelSet* active;  // NULL if RNNBRIDGE_ISA asks for what is not usable
  std::vector<std::string> warnings;
};

// Decided once, at the first call, which checks every usable set against the baseline.
const IsaState& isa_state();

// Throws Error (RNB_ISA_UNAVAILABLE) if there is none.
const KernelSet& active_kernels();

}  // namespace rnb
