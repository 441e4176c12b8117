#include "share.h"

#include <algorithm>

#include "pool.h"

namespace rnb {
namespace {

// A tile of four rows is the lowest that keeps the multiply-add units busy.
constexpr int64_t kEfficientRows = 4;

// Below this many floating point operations, a quarter of a millisecond, waking a thread takes longer than it
// saves.
constexpr double kWorthSharing = 2e7;

double operations(const rnb_plan& p) {
  const Spec& s = p.spec;
  const double inputs = double(s.input_size) + double(s.num_layers - 1) * double(s.output_size());
  const double columns = inputs + double(s.num_layers) * double(s.hidden_size);
  return 2.0 * double(p.T) * double(p.N) * double(s.directions()) * s.gates() * double(s.hidden_size) *
         columns;
}

}  // namespace

Sharing share(const rnb_plan& p, int threads, int64_t fewest_rows) {
  // The second direction is added to the first one's output where outputs are merged, so it comes after it.
  const bool parallel_directions = p.spec.directions() == 2 && p.spec.concatenates();
  const bool split_directions = parallel_directions && threads >= 2 && p.N < threads * kEfficientRows;
  const int directions = split_directions ? 2 : 1;
  const int64_t groups = std::min<int64_t>(threads / directions, p.N / fewest_rows);
  return {directions, int(std::max<int64_t>(groups, 1))};
}

Wish wish(const rnb_plan& p, int32_t num_threads) {
  if (num_threads > 0) return {share(p, num_threads, 1).threads(), 1};
  if (operations(p) < kWorthSharing) return {1, kEfficientRows};
  return {share(p, get_num_threads(), kEfficientRows).threads(), kEfficientRows};
}

}  // namespace rnb
