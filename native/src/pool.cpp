#include "pool.h"

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cpus.h"
#include "error.h"
#include "turnstile.h"

namespace rnb {

class Barrier {
 public:
  explicit Barrier(int size) : size_(size) {}
  void wait() {
    const uint32_t round = turnstile_.value();
    if (arrived_.fetch_add(1) + 1 < size_) return turnstile_.wait_past(round);
    arrived_.store(0);
    turnstile_.advance();
  }

 private:
  const int size_;
  std::atomic<int> arrived_{0};
  Turnstile turnstile_;
};

void Team::wait() const {
  if (size > 1) barrier_->wait();
}

namespace {

struct Job {
  void (*work)(void*, const Team&);
  void* context;
  int size;
  Barrier barrier;
  std::atomic<int> running;
};

class Worker {
 public:
  Worker(int index, Turnstile* done) : index_(index), done_(done) {
    std::thread thread([this] { loop(); });
#if defined(__linux__)
    handle_ = thread.native_handle();
#endif
    thread.detach();
  }

  void start(Job* job) {
    job_ = job;
    keep_off_this_cpu();
    turnstile_.advance();
  }

 private:
  [[noreturn]] void loop() {
    for (uint32_t seen = 0;; ++seen) {
      turnstile_.wait_past(seen);
      Job* job = job_;
      job->work(job->context, Team(index_, job->size, &job->barrier));
      // The job may be gone as soon as `running` is 0.
      if (job->running.fetch_sub(1) == 1) done_->advance();
    }
  }

  // A kernel tends to queue a woken thread on the CPU of the one that woke it, which goes on computing there,
  // until the next scheduler tick: milliseconds. Measured: 3.8 ms, against 0.2 ms if that CPU is ruled out.
  void keep_off_this_cpu() {
#if defined(__linux__)
    if (!turnstile_.has_sleepers()) return;
    cpu_set_t cpus;
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof cpus, &cpus) != 0) return;
    CPU_CLR(here, &cpus);
    if (CPU_COUNT(&cpus) > 0) pthread_setaffinity_np(handle_, sizeof cpus, &cpus);
#endif
  }

  const int index_;
  Turnstile* const done_;
#if defined(__linux__)
  pthread_t handle_;
#endif
  Job* job_ = nullptr;
  Turnstile turnstile_;
};

// Workers are made when first wanted and never end. They and the pool live until the process does.
class Pool {
 public:
  void run(int wanted, void (*work)(void*, const Team&), void* context) {
    std::unique_lock<std::mutex> lock(busy_, std::try_to_lock);
    const int size = lock.owns_lock() ? available(wanted) : 1;
    if (size == 1) return work(context, Team(0, 1, nullptr));
    Job job{work, context, size, Barrier(size), {size - 1}};
    const uint32_t before = done_.value();
    for (int i = 1; i < size; ++i) workers_[i - 1]->start(&job);
    work(context, Team(0, size, &job.barrier));
    done_.wait_past(before);
  }

 private:
  int available(int wanted) {
    try {
      workers_.reserve(size_t(wanted));  // a worker that runs is never lost to want of memory
      while (int(workers_.size()) < wanted - 1)
        workers_.push_back(std::make_unique<Worker>(int(workers_.size()) + 1, &done_));
    } catch (const std::system_error&) {  // no more threads to be had: do with those that there are
    }
    return std::min(wanted, int(workers_.size()) + 1);
  }

  std::mutex busy_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Turnstile done_;
};

// A forked child has none of its parent's threads: it leaves the parent's pool alone and makes one of its
// own.
std::mutex pool_mutex;
Pool* pool = nullptr;

void forget_pool() {
  pool = nullptr;
  pool_mutex.unlock();
}

[[maybe_unused]] const int registered =
    pthread_atfork([] { pool_mutex.lock(); }, [] { pool_mutex.unlock(); }, forget_pool);

Pool& get_pool() {
  std::lock_guard<std::mutex> lock(pool_mutex);
  if (!pool) pool = new Pool;
  return *pool;
}

std::atomic<int32_t> num_threads{0};

int32_t parse_num_threads(const std::string& text) {
  int32_t n = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, n);
  if (error != std::errc() || stop != end || n < 1 || n > kMaxThreads)
    fail(RNB_BAD_ENVIRONMENT, "RNNBRIDGE_NUM_THREADS is \"", text, "\"; it is a whole number of 1 to ",
         kMaxThreads, ", or unset for the CPUs that this process may keep busy");
  return n;
}

int32_t default_num_threads() {
  const char* text = std::getenv("RNNBRIDGE_NUM_THREADS");
  if (text && *text) return parse_num_threads(text);
  return std::min(available_cpus(), kMaxThreads);
}

}  // namespace

void run_team(int wanted, void (*work)(void*, const Team&), void* context) {
  if (wanted <= 1) return work(context, Team(0, 1, nullptr));
  get_pool().run(wanted, work, context);
}

void set_num_threads(int32_t n) {
  require(n >= 0 && n <= kMaxThreads, "the number of threads is ", n, "; accepted are 1 to ", kMaxThreads,
          ", or 0 for the default");
  num_threads.store(n);
}

int32_t get_num_threads() {
  const int32_t n = num_threads.load();
  return n ? n : default_num_threads();
}

}  // namespace rnb
