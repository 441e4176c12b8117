#include "cpus.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

namespace rnb {
namespace {

constexpr int32_t kUnlimited = std::numeric_limits<int32_t>::max();

int32_t cpus_of(double quota, double period) {
  if (!(quota > 0) || !(period > 0) || quota / period > 1e6) return kUnlimited;
  const double share = quota / period;
  return std::max(1, int32_t(share) + (share > int32_t(share)));
}

// Version 2: "QUOTA PERIOD" or "max PERIOD" in microseconds. Without a number there is no limit.
int32_t limit_v2(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.max") >> quota >> period;
  return cpus_of(quota, period);
}

// Version 1: the same in two files; a quota of -1 is no limit.
int32_t limit_v1(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return cpus_of(quota, period);
}

// A group has at most what each group above it has. In a container the path may be the host's, and not be
// there: then the mount itself is the container's own group.
int32_t lowest_limit(int32_t (*limit)(const std::string&), const std::string& mount, std::string path) {
  int32_t lowest = limit(mount);
  for (; path.size() > 1; path.erase(path.find_last_of('/'))) lowest = std::min(lowest, limit(mount + path));
  return lowest;
}

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');)
    if (one == "cpu") return true;
  return false;
}

int32_t allowed_cpus() {
#if defined(__linux__)
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) return CPU_COUNT(&cpus);
#endif
  const unsigned n = std::thread::hardware_concurrency();
  return n ? int32_t(n) : 1;
}

}  // namespace

// Lines "ID:CONTROLLERS:PATH"; version 2 has one, without controllers (cgroups(7)).
int32_t cgroup_cpus(const std::string& root) {
  int32_t lowest = kUnlimited;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty()) lowest = std::min(lowest, lowest_limit(limit_v2, mount, path));
    if (names_cpu(controllers)) lowest = std::min(lowest, lowest_limit(limit_v1, mount + "/cpu", path));
  }
  return lowest;
}

int32_t available_cpus() {
  // Files: not read at every call. Threads that come at once read them once each; nobody waits, also not after a
  // fork.
  static std::atomic<int32_t> known{0};
  if (known.load() == 0) known.store(cgroup_cpus(""));
  return std::min(allowed_cpus(), known.load());
}

}  // namespace rnb
