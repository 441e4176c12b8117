// A millisecond's comparison of one set of kernels with another, made before a set is used.
#pragma once

#include <string>

#include "kernels.h"

namespace rnb {

// "" if `set` computes what `reference` does, up to rounding; else which kernel differs and by how much.
std::string difference_from(const KernelSet& reference, const KernelSet& set);

}  // namespace rnb
