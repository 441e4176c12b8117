#include "isa.h"

#include <cstdlib>
#include <cstring>

#include "error.h"
#include "selfcheck.h"

namespace rnb {

namespace baseline {
extern const KernelSet kernel_set;
}
#if defined(RNB_HAVE_X86_SETS)
namespace avx2 {
extern const KernelSet kernel_set;
}
namespace avx2_wide {
extern const KernelSet kernel_set;
}
namespace avx512 {
extern const KernelSet kernel_set;
}
#endif

namespace {

struct Candidate {
  const KernelSet& set;
  bool (*cpu_has_it)();
  // Chosen without being asked for. Only sets that a recorded run of the test suite has executed, and that
  // are faster than those before them: avx2_wide is the 64-byte source of avx512, there to be tested on
  // machines without it.
  bool automatic;
};

#if defined(RNB_HAVE_X86_SETS)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

const Candidate kCandidates[] = {
    {baseline::kernel_set, [] { return true; }, true},
#if defined(RNB_HAVE_X86_SETS)
    {avx2::kernel_set, has_avx2, true},
    {avx2_wide::kernel_set, has_avx2, false},
    {avx512::kernel_set, has_avx512, false},
#endif
};

std::string list(const std::vector<const char*>& names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

IsaState choose() {
  IsaState state{};
  const char* wanted = std::getenv("RNNBRIDGE_ISA");
  const bool forced = wanted && *wanted;
  for (const Candidate& c : kCandidates) {
    state.compiled.push_back(c.set.name);
    if (!c.cpu_has_it()) continue;
    const std::string difference =
        &c.set == &baseline::kernel_set ? "" : difference_from(baseline::kernel_set, c.set);
    if (!difference.empty()) {
      state.warnings.push_back(std::string(c.set.name) + " is left out: " + difference);
      continue;
    }
    state.usable.push_back(c.set.name);
    if (forced ? std::strcmp(wanted, c.set.name) == 0 : c.automatic) state.active = &c.set;
  }
  if (!state.active)
    state.warnings.push_back("RNNBRIDGE_ISA is \"" + std::string(wanted) + "\"; usable here are " +
                             list(state.usable) + " (compiled in: " + list(state.compiled) + ")");
  return state;
}

}  // namespace

const IsaState& isa_state() {
  static const IsaState* state =
      new IsaState(choose());  // never destroyed: threads may outlive static objects
  return *state;
}

const KernelSet& active_kernels() {
  const IsaState& state = isa_state();
  if (!state.active) fail(RNB_ISA_UNAVAILABLE, state.warnings.back());
  return *state.active;
}

}  // namespace rnb
