#include "spec.h"

#include <cmath>
#include <cstddef>

#include "error.h"
#include "names.h"

namespace rnb {
namespace {

template <size_t n>
std::string accepted(const Code (&codes)[n]) {
  std::ostringstream text;
  for (size_t i = 0; i < n; ++i) text << (i ? ", " : "") << codes[i].code << " (" << codes[i].name << ")";
  return text.str();
}

template <class Enum, size_t n>
Enum checked(const char* field, int32_t value, const Code (&codes)[n]) {
  for (const Code& c : codes)
    if (c.code == value) return static_cast<Enum>(value);
  fail(RNB_INVALID_ARGUMENT, field, " is ", value, "; accepted are ", accepted(codes));
}

void check_activations(const Spec& spec, const rnb_spec& given) {
  for (int i = 0; i < 3; ++i) {
    const rnb_activation& a = given.activations[i];
    if (i >= spec.num_activations()) {
      require(a.code == 0, "activations[", i, "].code is ", a.code, "; this cell has ",
              spec.num_activations(), " activation(s), and the others must be 0");
      continue;
    }
    checked<rnb_activation_code>("an activation's code", a.code, kActivations);
    require(std::isfinite(a.alpha) && std::isfinite(a.beta), "activations[", i, "] has alpha ", a.alpha,
            " and beta ", a.beta, "; both must be finite");
  }
}

void check_combinations(const Spec& spec) {
  const bool gru = spec.cell == RNB_CELL_GRU;
  require(gru == (spec.reset != RNB_RESET_NONE), gru ? "a GRU needs reset before (2) or after (3)"
                                                     : "reset must be none (1) for a cell that is not a GRU");
  require(spec.directions() == 2 || spec.concatenates(),
          "with one direction there is nothing to merge; merge must be concat (1) or none (5)");
  require(spec.num_layers == 1 || spec.merge != RNB_MERGE_NONE,
          "merge none (5) gives two outputs, which no further layer can read; num_layers is ",
          spec.num_layers, " and must be 1");
  require(spec.num_layers == 1 || spec.output_order == RNB_OUTPUT_ORDER_INPUT,
          "output_order processing (2) is for a single layer; num_layers is ", spec.num_layers);
}

}  // namespace

Spec::Spec(const rnb_spec& given)
    : cell(checked<rnb_cell>("cell", given.cell, kCells)),
      reset(checked<rnb_reset>("reset", given.reset, kResets)),
      dtype(checked<rnb_dtype>("dtype", given.dtype, kDtypes)),
      direction(checked<rnb_direction>("direction", given.direction, kDirections)),
      bias(checked<rnb_bias>("bias", given.bias, kBiases)),
      merge(checked<rnb_merge>("merge", given.merge, kMerges)),
      output_order(checked<rnb_output_order>("output_order", given.output_order, kOutputOrders)),
      num_layers(given.num_layers),
      input_size(given.input_size),
      hidden_size(given.hidden_size) {
  require(num_layers >= 1, "num_layers is ", num_layers, "; at least 1 is accepted");
  require(input_size >= 1, "input_size is ", input_size, "; at least 1 is accepted");
  require(hidden_size >= 1, "hidden_size is ", hidden_size, "; at least 1 is accepted");
  check_combinations(*this);
  check_activations(*this, given);
  for (int i = 0; i < 3; ++i)
    activations[i] = {given.activations[i].code, given.activations[i].alpha, given.activations[i].beta};
}

}  // namespace rnb
