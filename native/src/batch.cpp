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

}  // namespace rnb
