#include "batch.h"

#include <algorithm>

#include "error.h"

namespace rnb {
namespace {

template <class L>
bool fill(const L* lengths, int64_t T, int64_t N, Row* rows) {
  bool equal = true;
  for (int64_t n = 0; n < N; ++n) {
    require(lengths[n] >= 0 && lengths[n] <= T, "lengths[", n, "] is ", lengths[n],
            "; accepted are 0 to T = ", T);
    equal = equal && lengths[n] == T;
  }
  for (int64_t n = 0; n < N; ++n) rows[n] = {n, lengths[n]};
  return equal;
}

}  // namespace

bool sort_rows(const void* lengths, int32_t itemsize, int64_t T, int64_t N, Row* rows) {
  if (!lengths) {
    for (int64_t n = 0; n < N; ++n) rows[n] = {n, T};
    return true;
  }
  require(itemsize == 4 || itemsize == 8, "lengths_itemsize is ", itemsize,
          "; accepted are 4 (int32) and 8 (int64)");
  const bool equal = itemsize == 4 ? fill(static_cast<const int32_t*>(lengths), T, N, rows)
                                   : fill(static_cast<const int64_t*>(lengths), T, N, rows);
  if (!equal) {
    std::sort(rows, rows + N, [](const Row& a, const Row& b) {
      return a.length != b.length ? a.length > b.length : a.index < b.index;
    });
  }
  return equal;
}

void fill_offsets(const Row* rows, int64_t T, int64_t N, int64_t* offsets) {
  offsets[0] = 0;
  for (int64_t s = 0, active = N; s < T; ++s) {
    while (active > 0 && rows[active - 1].length <= s) --active;
    offsets[s + 1] = offsets[s] + active;
  }
}

Group Group::spread(const Row* rows, int64_t N, int64_t groups, int64_t index, bool equal_lengths) {
  const int64_t each = N / groups, larger = N % groups;
  const int64_t start = index * each + std::min(index, larger), size = each + (index < larger);
  return equal_lengths ? Group(size, start, rows + start, 1) : Group(size, start, rows + index, groups);
}

Group Group::contiguous(const Row* rows, int64_t N, int64_t groups, int64_t index) {
  // A row without steps has its states to copy.
  const auto cost = [&](int64_t row) { return rows[row].length + 1; };
  int64_t total = 0;
  for (int64_t row = 0; row < N; ++row) total += cost(row);
  int64_t bounds[2], row = 0, before = 0;
  for (int64_t side = 0; side < 2; ++side) {
    const int64_t share = index + side;
    // A row belongs to the share in which its middle lies.
    while (row < N && (2 * before + cost(row)) * groups < 2 * total * share) before += cost(row++);
    bounds[side] = share == groups ? N : row;
  }
  return Group(bounds[1] - bounds[0], bounds[0], rows + bounds[0], 1);
}

}  // namespace rnb
