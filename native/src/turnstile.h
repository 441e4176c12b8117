// A counter that threads wait on: they spin for a little while, then sleep. Everything in pool.cpp waits
// through it.
#pragma once

#include <stdint.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace rnb {

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class alignas(64) Turnstile {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Returns once the counter is no longer `seen`.
  void wait_past(uint32_t seen) {
    for (int i = 0; i < kSpins; ++i) {
      if (value() != seen) return;
      pause_cpu();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    condition_.wait(lock, [&] { return value_.load() != seen; });
    sleepers_.fetch_sub(1);
  }

  // Sequentially consistent, as are the sleeper's two accesses: either the sleeper sees the new value or we
  // see it.
  void advance() {
    value_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }
    condition_.notify_all();
  }

  bool has_sleepers() const { return sleepers_.load() != 0; }

 private:
  // 30 to 100 microseconds: longer than the gaps between the calls of a busy caller, shorter than anyone
  // minds.
  static constexpr int kSpins = 2000;

  std::atomic<uint32_t> value_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable condition_;
};

}  // namespace rnb
