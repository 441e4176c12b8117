// How many CPUs this process may keep busy. Knows nothing of threads.
#pragma once

#include <stdint.h>

#include <string>

namespace rnb {

// The CPUs that the process may run on, or fewer if its control group's share of time is less: containers set
// the second and leave the first alone. At least 1.
int32_t available_cpus();

// The share alone, in whole CPUs, rounded up; INT32_MAX without a limit. `root` stands before /proc and /sys.
int32_t cgroup_cpus(const std::string& root);

}  // namespace rnb
