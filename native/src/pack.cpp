#include "pack.h"

#include <algorithm>

namespace rnb {
namespace {

// One panel: rows `row`.. of a [*, K] matrix become columns; columns past `valid` are zero.
template <class T>
void pack_panel(const T* rows, int64_t K, int64_t valid, T* panel) {
  constexpr int64_t P = kPanel<T>, kBlock = 16;
  for (int64_t k0 = 0; k0 < K; k0 += kBlock) {
    const int64_t k1 = std::min(K, k0 + kBlock);
    for (int64_t j = 0; j < valid; ++j)
      for (int64_t k = k0; k < k1; ++k) panel[k * P + j] = rows[j * K + k];
    for (int64_t k = k0; k < k1; ++k) std::fill(panel + k * P + valid, panel + (k + 1) * P, T(0));
  }
}

// weight [G*H, K] -> [u][panel][K][j].
template <class T>
void pack_matrix(const Spec& s, const T* weight, int64_t K, std::string_view panels, T* packed) {
  for (int64_t u = 0; u < s.units(); ++u) {
    const int64_t unit = u * kPanel<T>, valid = std::min(kPanel<T>, s.hidden_size - unit);
    for (char gate : panels) {
      pack_panel(weight + (first_row(s, gate) + unit) * K, K, valid, packed);
      packed += K * kPanel<T>;
    }
  }
}

// bias_ih and bias_hh may be NULL. -> [u][slot][j], their sum wherever both act on one sum; the slot q of
// reset-after (the last, beyond the gates) has b_hn, and its n slot b_in alone.
template <class T>
void pack_bias(const Spec& s, const T* bias_ih, const T* bias_hh, T* packed) {
  const int64_t H = s.hidden_size;
  const std::string_view panels = input_panels(s.cell);
  const auto at = [](const T* bias, int64_t i) { return bias ? bias[i] : T(0); };
  for (int64_t u = 0; u < s.units(); ++u) {
    for (int slot = 0; slot < s.slots(); ++slot, packed += kPanel<T>) {
      const bool q = slot == s.gates();
      const char gate = q ? 'n' : panels[size_t(slot)];
      const bool apart = s.reset == RNB_RESET_AFTER && gate == 'n';
      const int64_t first = first_row(s, gate);
      for (int64_t j = 0; j < kPanel<T>; ++j) {
        const int64_t unit = u * kPanel<T> + j, i = first + unit;
        packed[j] = unit >= H ? T(0)
                    : q       ? at(bias_hh, i)
                    : apart   ? at(bias_ih, i)
                              : at(bias_ih, i) + at(bias_hh, i);
      }
    }
  }
}

// weight [G*H, K] -> [u over K][G*H'][j]: its rows, gate order[0] first, in pieces of a panel's width.
template <class T>
void pack_transposed(const Spec& s, const T* weight, int64_t K, std::string_view order, T* packed) {
  const int64_t H = s.hidden_size, hidden = s.padded(H);
  for (int64_t k = 0; k < K; k += kPanel<T>) {
    const int64_t valid = std::min(kPanel<T>, K - k);
    for (const char gate : order) {
      for (int64_t unit = 0; unit < hidden; ++unit, packed += kPanel<T>) {
        const int64_t count = unit < H ? valid : 0;
        if (count) std::copy_n(weight + (first_row(s, gate) + unit) * K + k, count, packed);
        std::fill(packed + count, packed + kPanel<T>, T(0));
      }
    }
  }
}

template <class T>
void pack_typed(const rnb_plan& plan, const void* const* arrays, T* packed) {
  const Spec& s = plan.spec;
  const int each = s.arrays_per_direction();
  for (int64_t layer = 0; layer < s.num_layers; ++layer) {
    for (int64_t d = 0; d < s.directions(); ++d, arrays += each) {
      const PackedLayer at = packed_layer(s, layer, d);
      const auto array = [&](int i) { return static_cast<const T*>(i < each ? arrays[i] : nullptr); };
      pack_matrix(s, array(0), s.layer_input_size(layer), input_panels(s.cell), packed + at.weight_ih);
      pack_matrix(s, array(1), s.hidden_size, hidden_panels(s.cell), packed + at.weight_hh);
      pack_bias(s, array(2), array(3), packed + at.bias);
      if (!plan.training) continue;
      const PackedTransposed back = packed_transposed(s, layer, d);
      pack_transposed(s, array(1), s.hidden_size, hidden_panels(s.cell), packed + back.weight_hh);
      pack_transposed(s, array(0), s.layer_input_size(layer), input_panels(s.cell), packed + back.weight_ih);
    }
  }
}

}  // namespace

std::string_view input_panels(rnb_cell cell) {
  return cell == RNB_CELL_LSTM ? "ifgo" : cell == RNB_CELL_GRU ? "nrz" : "n";
}

std::string_view hidden_panels(rnb_cell cell) {
  return cell == RNB_CELL_LSTM ? "ifgo" : cell == RNB_CELL_GRU ? "rzn" : "n";
}

int64_t first_row(const Spec& s, char gate) { return int64_t(gates_of(s.cell).find(gate)) * s.hidden_size; }

void pack(const rnb_plan& plan, const void* const* arrays, void* packed) {
  if (plan.spec.dtype == RNB_DTYPE_FLOAT32)
    pack_typed(plan, arrays, static_cast<float*>(packed));
  else
    pack_typed(plan, arrays, static_cast<double*>(packed));
}

}  // namespace rnb
