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
  std::vector<T> weights, bias, x, h, pre, c, h_next, reset_h, dh, dc, gradients, panels, transposed;

  explicit Problem(const Case& c_, Numbers& n)
      : weights(random<T>(size_t(kUnits * c_.gates * kHidden * kPanel<T>), n)),
        bias(random<T>(size_t(kUnits * c_.slots * kPanel<T>), n)),
        x(random<T>(kMaxRows * kInput, n)),
        h(random<T>(size_t(kMaxRows * kStride), n)),
        pre(random<T>(size_t(kUnits * kMaxRows * c_.slots * kPanel<T>), n)),
        c(h.rbegin(), h.rend()),
        h_next(h.size()),
        reset_h(h.size()),
        dh(random<T>(h.size(), n)),
        dc(random<T>(h.size(), n)),
        gradients(size_t(kMaxRows * c_.slots * kUnits * kPanel<T>)),
        panels(gradients.size()),
        transposed(size_t(kHidden * kMaxRows)) {}

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
    const int64_t gradient_stride = which.slots * kUnits * kPanel<T>;
    const GradientArgs<T> g{pre.data(),       unit_stride, c.data(),         kStride,         h.data(),
                            h_next.data(),    dh.data(),   dc.data(),        dc.data(),       kStride,
                            reset_h.data(),   kStride,     gradients.data(), gradient_stride, panels.data(),
                            rows * kPanel<T>, rows,        kHidden,          kUnits,          activations};
    step_and_slopes(k, which.kind, s, g);
    k.product({gradients.data(), gradient_stride, rows, kHidden, weights.data(), kHidden * kPanel<T>,
               dh.data(), kPanel<T>, kStride, kUnits});
    const T* pointers[kMaxRows];
    for (int64_t r = 0; r < rows; ++r)
      pointers[r] = r == 1 ? nullptr : gradients.data() + r * gradient_stride;
    k.transpose({pointers, rows, kHidden, transposed.data(), kMaxRows});
  }

  static void step_and_slopes(const Kernels<T>& k, Kind kind, const StepArgs<T>& s,
                              const GradientArgs<T>& g) {
    switch (kind) {
      case Kind::kLstm:
        return k.lstm(s), k.lstm_gradients(g);
      case Kind::kGruAfter:
        return k.gru_after(s), k.gru_after_gradients(g);
      case Kind::kRnn:
        return k.rnn(s), k.rnn_gradients(g);
      default:
        k.gru_before_gates(s), k.gru_before_update(s);
        k.gru_before_update_gradients(g), k.gru_before_reset_gradients(g);
    }
  }
};

// Sums of fewer than 32 terms below 1, through functions of slope of about 1.
template <class T>
double worst(const std::vector<T>& a, const std::vector<T>& b) {
  double result = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::fabs(double(a[i]) - double(b[i])) / (1 + std::fabs(double(a[i])));
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    result = std::fmax(result, error);
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
  double error = 0;
  for (auto array : {&Problem<T>::pre, &Problem<T>::h_next, &Problem<T>::c, &Problem<T>::dh, &Problem<T>::dc,
                     &Problem<T>::gradients, &Problem<T>::panels, &Problem<T>::transposed})
    error = std::fmax(error, worst(a.*array, b.*array));
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
