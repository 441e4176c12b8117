// Byte counts that refuse to overflow.
#pragma once

#include <stdint.h>

#include "error.h"

namespace rnb {

// 2^62 leaves room for the sums of offsets made from checked sizes.
class Bytes {
 public:
  Bytes(int64_t value) : value_(value) {}
  Bytes operator*(Bytes other) const {
    int64_t result;
    const bool overflow = __builtin_mul_overflow(value_, other.value_, &result);
    return checked(overflow, result);
  }
  Bytes operator+(Bytes other) const {
    int64_t result;
    const bool overflow = __builtin_add_overflow(value_, other.value_, &result);
    return checked(overflow, result);
  }
  int64_t value() const { return value_; }

 private:
  static Bytes checked(bool overflow, int64_t result) {
    require(!overflow && result < (int64_t(1) << 62),
            "these sizes need more memory than an address space has");
    return result;
  }
  int64_t value_;
};

// Hands out one array after the other, each from a multiple of RNB_ALIGNMENT on.
class Arena {
 public:
  int64_t take(Bytes nbytes) {
    const int64_t start = size_.value();
    size_ = size_ + (nbytes + (RNB_ALIGNMENT - 1)).value() / RNB_ALIGNMENT * RNB_ALIGNMENT;
    return start;
  }
  int64_t nbytes() const { return size_.value(); }

 private:
  Bytes size_ = 0;
};

}  // namespace rnb
