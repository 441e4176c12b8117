// What a tape says about itself, so that backward refuses one that is not its own; and the dropout that it
// keeps.
#pragma once

#include "dropout.h"
#include "plan.h"

namespace rnb {

struct TapeHeader {
  uint64_t magic;
  uint64_t shape;  // of the plan that wrote it
  uint64_t weights_generation;
  Dropout dropout;
};

TapeHeader make_header(const rnb_plan& plan, uint64_t weights_generation, const Dropout& dropout);

// Throws Error if the tape is none, of another plan's shape or of other weights.
void check_header(const rnb_plan& plan, uint64_t weights_generation, const TapeHeader& header);

}  // namespace rnb
