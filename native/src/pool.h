// The library's threads. One region runs at a time; a call that finds the pool busy runs alone on its own
// thread, so that nothing ever waits for another call. Knows nothing of what it runs.
#pragma once

#include <stdint.h>

namespace rnb {

class Barrier;

// What a member of a region knows: which one it is, of how many.
class Team {
 public:
  Team(int index, int size, Barrier* barrier) : index(index), size(size), barrier_(barrier) {}
  // Returns when all members have arrived. Every member must call it equally often.
  void wait() const;

  const int index;
  const int size;

 private:
  Barrier* barrier_;
};

// Runs work(context, team) on `wanted` threads, the caller's among them, or on fewer: on one alone if the
// pool is busy or threads cannot be had. Members must therefore share the work by team.size. `work` must not
// throw.
void run_team(int wanted, void (*work)(void* context, const Team& team), void* context);

template <class Work>
void run_team(int wanted, const Work& work) {
  run_team(
      wanted, [](void* context, const Team& team) { (*static_cast<const Work*>(context))(team); },
      const_cast<Work*>(&work));
}

constexpr int32_t kMaxThreads = 1024;

// 0 sets the default. Throws Error for a count out of range.
void set_num_threads(int32_t n);
// Throws Error (RNB_BAD_ENVIRONMENT) if the default holds and RNNBRIDGE_NUM_THREADS is no number of threads.
int32_t get_num_threads();

}  // namespace rnb
