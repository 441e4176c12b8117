#include "selfcheck.h"

#include <cmath>
#include <limits>
#include <new>
#include <sstream>
#include <vector>

#include "../include/rnnbridge.h"

namespace rnb {
namespace {

// Sizes that reach every tile height and both a full and a partial unit block.
constexpr int64_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 13};
constexpr int64_t kMaxRows = 13, kHidden = 19, kInput = 11;

// Pseudo-random numbers in [-1, 1): the same in every process.
class Numbers {
 public:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return double(int64_t(state_) >> 11) * 0x1p-52;
  }

 private:
  uint64_t state_ = 20240229;
};

template <class T>
std::vector<T> random(size_t n, Numbers& numbers) {
  std::vector<T> v(n);
  for (T& x : v) x = T(numbers.next());
  return v;
}

enum class Kind { kInput, kLstm, kGruAfter, kGruBefore, kRnn };

struct Case {
  const char* name;
  Kind kind;
  int gates;
  int slots;
};
constexpr Case kCases[] = {{"input", Kind::kInput, 3, 4},
                           {"lstm", Kind::kLstm, 4, 4},
                           {"gru_after", Kind::kGruAfter, 3, 4},
                           {"gru_before", Kind::kGruBefore, 3, 3},
                           {"rnn", Kind::kRnn, 1, 1}};

// Everything a kernel may read or write; two copies of one Problem meet the two sets of kernels.
template <class T>
struct Problem {
  static constexpr int64_t kUnits = (kHidden + kPanel<T> - 1) / kPanel<T>, kStride = (kUnits + 1) * kPanel<T>;
  std::vector<T> weights, bias, x, h, pre, c, h_next, reset_h;

  explicit Problem(const Case& c_, Numbers& n)
      : weights(random<T>(size_t(kUnits * c_.gates * kHidden * kPanel<T>), n)),
        bias(random<T>(size_t(kUnits * c_.slots * kPanel<T>), n)),
        x(random<T>(kMaxRows * kInput, n)),
        h(random<T>(size_t(kMaxRows * kStride), n)),
        pre(random<T>(size_t(kUnits * kMaxRows * c_.slots * kPanel<T>), n)),
        c(h.rbegin(), h.rend()),
        h_next(h.size()),
        reset_h(h.size()) {}

  void run(const Kernels<T>& k, const Case& which, int64_t rows, const Activation* activations) {
    const int64_t unit_stride = kMaxRows * which.slots * kPanel<T>;
    if (which.kind == Kind::kInput) {
      const T* pointers[kMaxRows];
      for (int64_t r = 0; r < kMaxRows; ++r) pointers[r] = x.data() + r * kInput;
      int64_t places[kMaxRows];
      for (int64_t r = 0; r < kMaxRows; ++r) places[r] = rows - 1 - r;
      return k.input({pointers, places, rows, kInput, weights.data(), bias.data(), pre.data(), unit_stride,
                      kUnits, which.gates, which.slots});
    }
    const StepArgs<T> s{h.data(),       h_next.data(), c.data(),    c.data(), reset_h.data(),
                        kStride,        kStride,       true,        rows,     kHidden,
                        weights.data(), pre.data(),    unit_stride, kUnits,   activations};
    switch (which.kind) {
      case Kind::kLstm:
        return k.lstm(s);
      case Kind::kGruAfter:
        return k.gru_after(s);
      case Kind::kRnn:
        return k.rnn(s);
      default:
        k.gru_before_gates(s), k.gru_before_update(s);
    }
  }
};

// Sums of fewer than 32 terms below 1, through functions of slope of about 1.
template <class T>
double worst(const std::vector<T>& a, const std::vector<T>& b) {
  double result = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::fabs(double(a[i]) - double(b[i])) / (1 + std::fabs(double(a[i])));
    if (!(error <= result)) result = error;  // NaN too
  }
  return result;
}

template <class T>
std::string difference(const Case& which, const Kernels<T>& reference, const Kernels<T>& kernels,
                       int64_t rows, const Activation* activations) {
  Numbers numbers;
  Problem<T> a(which, numbers), b(a);
  a.run(reference, which, rows, activations);
  b.run(kernels, which, rows, activations);
  const double error = std::fmax(std::fmax(worst(a.pre, b.pre), worst(a.h_next, b.h_next)), worst(a.c, b.c));
  if (error <= 64 * double(std::numeric_limits<T>::epsilon())) return "";
  std::ostringstream text;
  text << "its kernel " << which.name << " (" << sizeof(T) * 8 << " bit, " << rows << " rows, activation "
       << activations[0].code << ") differs from the baseline's by " << error;
  return text.str();
}

template <class T>
std::string difference(const Kernels<T>& reference, const Kernels<T>& kernels) {
  const Activation usual[] = {
      {RNB_ACTIVATION_SIGMOID, 0, 0}, {RNB_ACTIVATION_TANH, 0, 0}, {RNB_ACTIVATION_TANH, 0, 0}};
  for (const Case& which : kCases) {
    for (int64_t rows : kRowCounts) {
      const std::string text = difference(which, reference, kernels, rows, usual);
      if (!text.empty()) return text;
    }
  }
  const Case& rnn = kCases[4];
  for (int32_t code = RNB_ACTIVATION_SIGMOID; code <= RNB_ACTIVATION_GELU; ++code) {
    const Activation any[] = {{code, 0.7, 0.4}};
    const std::string text = difference(rnn, reference, kernels, 2, any);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

std::string difference_from(const KernelSet& reference, const KernelSet& set) {
  const std::string text = difference(reference.f32, set.f32);
  return text.empty() ? difference(reference.f64, set.f64) : text;
}

}  // namespace rnb
