// The C interface: checks pointers and struct sizes, turns exceptions into statuses. No computation happens
// here.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>

#include "backward.h"
#include "build_info.h"
#include "error.h"
#include "forward.h"
#include "isa.h"
#include "pack.h"
#include "plan.h"
#include "pool.h"

namespace {

using rnb::fail;
using rnb::require;

thread_local std::string last_error;

rnb_status remember(rnb_status status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

// Runs body; nothing that it throws leaves the library.
template <class Body>
rnb_status guarded(const Body& body) noexcept {
  try {
    body();
    return RNB_OK;
  } catch (const rnb::Error& e) {
    return remember(e.status, e.message.c_str());
  } catch (const std::bad_alloc&) {
    return remember(RNB_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return remember(RNB_INTERNAL_ERROR, e.what());
  } catch (...) {
    return remember(RNB_INTERNAL_ERROR, "unknown exception");
  }
}

// The bytes of version 1 of each struct, up to its last field then: the same when a struct has grown.
template <class Struct>
constexpr size_t kFirstSize = 0;
template <>
constexpr size_t kFirstSize<rnb_spec> = offsetof(rnb_spec, activations) + sizeof(rnb_spec::activations);
template <>
constexpr size_t kFirstSize<rnb_sizes> = offsetof(rnb_sizes, workspace_nbytes) + sizeof(size_t);
template <>
constexpr size_t kFirstSize<rnb_weights> = offsetof(rnb_weights, count) + sizeof(size_t);
template <>
constexpr size_t kFirstSize<rnb_forward_args> = offsetof(rnb_forward_args, cn) + sizeof(void*);
template <>
constexpr size_t kFirstSize<rnb_backward_args> = offsetof(rnb_backward_args, num_threads) + sizeof(int32_t);

// A copy of the caller's struct: fields that an older caller does not have are zero, and a newer caller may
// have set none that we do not know.
template <class Struct>
Struct read_struct(const char* name, const Struct* given) {
  static_assert(kFirstSize<Struct> > 0, "say what version 1 of this struct had");
  require(given != nullptr, name, " is NULL");
  const size_t size = given->struct_size;
  require(size >= kFirstSize<Struct>, name, ".struct_size is ", size, "; every ", name, " has at least ",
          kFirstSize<Struct>, " bytes");
  require(size <= 65536, name, ".struct_size is ", size, "; no ", name, " is that long");
  const char* bytes = reinterpret_cast<const char*>(given);
  for (size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i])
      fail(RNB_UNSUPPORTED, name, " sets a field that this library does not know; use a newer one");
  Struct known{};
  std::memcpy(&known, given, std::min(size, sizeof known));
  return known;
}

void check_aligned(const char* name, const void* pointer) {
  require(pointer != nullptr, name, " is NULL");
  require(reinterpret_cast<uintptr_t>(pointer) % RNB_ALIGNMENT == 0, name, " is not aligned to ",
          RNB_ALIGNMENT, " bytes");
}

void check_count(const rnb_plan& plan, const char* name, size_t count) {
  const int64_t each = plan.spec.arrays_per_direction();
  const int64_t expected = plan.spec.num_layers * plan.spec.directions() * each;
  require(count == size_t(expected), name, " is ", count, "; this spec has ", expected, " arrays, ", each,
          " per layer and direction");
}

void check_weights(const rnb_plan& plan, const rnb_weights& w) {
  check_count(plan, "weights.count", w.count);
  require(w.arrays != nullptr, "weights.arrays is NULL");
  for (size_t i = 0; i < w.count; ++i) require(w.arrays[i] != nullptr, "weights.arrays[", i, "] is NULL");
}

void check_training(const rnb_plan& plan, const rnb_forward_args& a) {
  require(plan.training, "tape is given, but the plan was made without RNB_PLAN_TRAINING");
  check_aligned("tape", a.tape);
  require(a.y || !plan.spec.concatenates(), "y is NULL; with a tape it must be given, backward reads it");
  require(!(a.h0 && a.h0 == a.hn) && !(a.c0 && a.c0 == a.cn),
          "hn is h0 or cn is c0; with a tape they must be apart, backward reads the initial states");
  require(a.dropout >= 0 && a.dropout <= 1, "dropout is ", a.dropout, "; accepted are 0 to 1");
}

void check_threads(int32_t n) {
  require(n >= 0 && n <= rnb::kMaxThreads, "num_threads is ", n, "; accepted are 1 to ", rnb::kMaxThreads,
          ", or 0 for the default");
}

// What is written has a place of its own for every step and sequence.
void check_apart(const rnb_plan& plan, const char* name, const void* data, int64_t stride_t,
                 int64_t stride_n) {
  require(!data || ((stride_t != 0 || plan.T == 1) && (stride_n != 0 || plan.N == 1)), name, "_stride_t and ",
          name, "_stride_n are ", stride_t, " and ", stride_n,
          "; a stride of 0 writes several rows to one place");
}

void check_forward(const rnb_plan& plan, const rnb_forward_args& a) {
  check_aligned("packed", a.packed);
  check_aligned("workspace", a.workspace);
  require(a.x != nullptr, "x is NULL");
  check_apart(plan, "y", a.y, a.y_stride_t, a.y_stride_n);
  check_threads(a.num_threads);
  require(plan.spec.cell == RNB_CELL_LSTM || (!a.c0 && !a.cn),
          "c0 and cn are for an LSTM only; they must be NULL");
  if (a.tape) check_training(plan, a);
}

void check_backward(const rnb_plan& plan, const rnb_backward_args& a) {
  check_aligned("packed", a.packed);
  check_aligned("workspace", a.workspace);
  check_aligned("tape", a.tape);
  require(a.x != nullptr, "x is NULL");
  require(a.y || !plan.spec.concatenates(), "y is NULL; backward reads the forward's y");
  check_apart(plan, "dx", a.dx, a.dx_stride_t, a.dx_stride_n);
  check_threads(a.num_threads);
  require(plan.spec.cell == RNB_CELL_LSTM || (!a.c0 && !a.dcn && !a.dc0),
          "c0, dcn and dc0 are for an LSTM only; they must be NULL");
}

}  // namespace

extern "C" {

int32_t rnb_abi_version(void) { return RNB_ABI_VERSION; }

const char* rnb_build_info(void) {
  const char* text = "{}";
  guarded([&] { text = rnb::build_info(); });
  return text;
}

const char* rnb_last_error(void) { return last_error.c_str(); }

rnb_status rnb_plan_create(const rnb_spec* spec, int64_t T, int64_t N, uint32_t flags, rnb_plan** plan) {
  return guarded([&] {
    const rnb_spec given = read_struct("rnb_spec", spec);
    require(plan != nullptr, "plan is NULL");
    require(flags <= (RNB_PLAN_TRAINING | RNB_PLAN_RECOMPUTE) && flags != RNB_PLAN_RECOMPUTE, "flags is ",
            flags, "; accepted are 0, 1 (training) and 3 (training that recomputes)");
    // A default that is none is said now, not at the first call large enough to share.
    rnb::get_num_threads();
    *plan = new rnb_plan(rnb::Spec(given), T, N, flags, rnb::active_kernels());
  });
}

void rnb_plan_destroy(rnb_plan* plan) { delete plan; }

rnb_status rnb_plan_sizes(const rnb_plan* plan, rnb_sizes* sizes) {
  return guarded([&] {
    require(plan != nullptr, "plan is NULL");
    rnb_sizes known = read_struct("rnb_sizes", sizes);
    known.packed_nbytes = size_t(plan->packed_nbytes);
    known.workspace_nbytes = size_t(plan->workspace_nbytes);
    known.tape_nbytes = size_t(plan->tape_nbytes);
    std::memcpy(sizes, &known, std::min(known.struct_size, sizeof known));
  });
}

rnb_status rnb_pack(const rnb_plan* plan, const rnb_weights* weights, void* packed) {
  return guarded([&] {
    require(plan != nullptr, "plan is NULL");
    const rnb_weights given = read_struct("rnb_weights", weights);
    check_weights(*plan, given);
    check_aligned("packed", packed);
    rnb::pack(*plan, given.arrays, packed);
  });
}

rnb_status rnb_forward(const rnb_plan* plan, const rnb_forward_args* args) {
  return guarded([&] {
    require(plan != nullptr, "plan is NULL");
    const rnb_forward_args given = read_struct("rnb_forward_args", args);
    if (plan->N == 0) return;
    check_forward(*plan, given);
    rnb::forward(*plan, given);
  });
}

rnb_status rnb_backward(const rnb_plan* plan, const rnb_backward_args* args) {
  return guarded([&] {
    require(plan != nullptr, "plan is NULL");
    const rnb_backward_args given = read_struct("rnb_backward_args", args);
    require(plan->training, "the plan was made without RNB_PLAN_TRAINING");
    if (given.dweights) check_count(*plan, "dweights_count", given.dweights_count);
    require(given.accumulate <= (RNB_ACCUMULATE_WEIGHTS | RNB_ACCUMULATE_INPUTS), "accumulate is ",
            given.accumulate, "; its bits are 1 (weights) and 2 (inputs)");
    if (plan->N > 0) check_backward(*plan, given);
    rnb::backward(*plan, given);
  });
}

rnb_status rnb_set_num_threads(int32_t n) {
  return guarded([&] { rnb::set_num_threads(n); });
}

int32_t rnb_get_num_threads(void) {
  int32_t n = 0;
  guarded([&] { n = rnb::get_num_threads(); });
  return n;
}

rnb_status rnb_bench_multiply_add(int32_t dtype, int64_t rounds, int64_t* operations) {
  return guarded([&] {
    require(operations != nullptr, "operations is NULL");
    require(rounds >= 0, "rounds is ", rounds, "; at least 0 is accepted");
    const rnb::KernelSet& set = rnb::active_kernels();
    if (dtype == RNB_DTYPE_FLOAT32)
      *operations = rounds * set.f32.multiply_add(rounds, 0.5f, 1.0f);
    else if (dtype == RNB_DTYPE_FLOAT64)
      *operations = rounds * set.f64.multiply_add(rounds, 0.5, 1.0);
    else
      fail(RNB_INVALID_ARGUMENT, "dtype is ", dtype, "; accepted are 1 (float32) and 2 (float64)");
  });
}

rnb_status rnb_bench_read(const void* data, int64_t nbytes, int64_t times) {
  return guarded([&] {
    check_aligned("data", data);
    require(nbytes >= 0 && nbytes % 1024 == 0, "nbytes is ", nbytes, "; it is a multiple of 1024");
    require(times >= 0, "times is ", times, "; at least 0 is accepted");
    rnb::active_kernels().f32.read(static_cast<const float*>(data), nbytes / int64_t(sizeof(float)), times);
  });
}

}  // extern "C"
