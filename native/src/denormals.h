// On many processors arithmetic with numbers below the normal ones takes tens of times as long as with others, and
// a state that fades away is made of them. Knows nothing of what is computed.
#pragma once

#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace rnb {

// While it lives, such numbers count as zero on its thread; then the thread's mode is what it was.
class FlushDenormals {
 public:
  FlushDenormals() : before_(mode()) { set_mode(before_ | kFlush); }
  ~FlushDenormals() { set_mode(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  using Mode = uint32_t;
  static constexpr Mode kFlush = 0x8040;  // MXCSR: results (FTZ) and operands (DAZ)
  static Mode mode() { return _mm_getcsr(); }
  static void set_mode(Mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Mode = uint64_t;
  static constexpr Mode kFlush = Mode(1) << 24;  // FPCR: FZ
  static Mode mode() {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set_mode(Mode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  using Mode = uint32_t;
  static constexpr Mode kFlush = 0;
  static Mode mode() { return 0; }
  static void set_mode(Mode) {}
#endif

  const Mode before_;
};

}  // namespace rnb
