// Which sequences a call has, in the order in which they are processed, and which of them belong together.
// Knows nothing of cells.
#pragma once

#include <stdint.h>

namespace rnb {

// One sequence of the batch.
struct Row {
  int64_t index;   // n
  int64_t length;  // steps
};
static_assert(sizeof(Row) == 16, "rnnbridge.h documents 16 bytes of workspace per sequence");

// Fills rows[N], longest first, equal lengths in the order of n. Returns whether all lengths are T. `lengths`
// may be NULL. Throws Error, before writing anything, for a length outside 0..T.
bool sort_rows(const void* lengths, int32_t itemsize, int64_t T, int64_t N, Row* rows);

// offsets[s], s = 0..T: how many steps all rows have before step s.
void fill_offsets(const Row* rows, int64_t T, int64_t N, int64_t* offsets);

// A share of the rows, itself longest first.
class Group {
 public:
  // Group `index` of `groups`: a contiguous stretch if all rows are equally long (neighbours in memory stay
  // together), else every groups-th row, which balances the steps.
  static Group spread(const Row* rows, int64_t N, int64_t groups, int64_t index, bool equal_lengths);
  // The same as a contiguous stretch of rows in any case, balanced by its steps.
  static Group contiguous(const Row* rows, int64_t N, int64_t groups, int64_t index);

  int64_t size() const { return size_; }
  // How many rows the groups before this one have.
  int64_t start() const { return start_; }
  const Row& operator[](int64_t i) const { return first_[i * step_]; }
  // Rows that have a step number `step`; they are the first ones.
  int64_t active(int64_t step, int64_t at_most) const {
    while (at_most > 0 && (*this)[at_most - 1].length <= step) --at_most;
    return at_most;
  }

 private:
  Group(int64_t size, int64_t start, const Row* first, int64_t step)
      : size_(size), start_(start), first_(first), step_(step) {}

  int64_t size_, start_;
  const Row* first_;
  int64_t step_;
};

}  // namespace rnb
