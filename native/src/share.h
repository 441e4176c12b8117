// How a call's work is shared between threads. Shares are whole rows and whole directions: no sum is ever
// split, so that results do not depend on the sharing.
#pragma once

#include <stdint.h>

#include "plan.h"

namespace rnb {

struct Sharing {
  int directions;  // 2: each direction has threads of its own, which meet after every layer
  int groups;      // of rows
  int threads() const { return directions * groups; }
};

// `threads` is an upper limit; `fewest_rows` a lower one for a group, if the batch has as many.
Sharing share(const rnb_plan& plan, int threads, int64_t fewest_rows);

// rnb_forward_args.num_threads -> the threads to ask the pool for, and the fewest rows of a group.
struct Wish {
  int threads;
  int64_t fewest_rows;
};
Wish wish(const rnb_plan& plan, int32_t num_threads);

}  // namespace rnb
