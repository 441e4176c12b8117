// Prints the CPUs that the control groups under a root folder allow; see test_cpus.py.
#include "../../native/src/cpus.h"

#include <iostream>

int main(int, char** arguments) { std::cout << rnb::cgroup_cpus(arguments[1]) << '\n'; }
