// The names of all codes, once: for build_info.cpp, which hands them to Python, and for messages.
#pragma once

#include "../include/rnnbridge.h"

namespace rnb {

struct Code {
  const char* name;
  int code;
};

constexpr Code kStatuses[] = {{"ok", RNB_OK},
                              {"invalid_argument", RNB_INVALID_ARGUMENT},
                              {"unsupported", RNB_UNSUPPORTED},
                              {"isa_unavailable", RNB_ISA_UNAVAILABLE},
                              {"out_of_memory", RNB_OUT_OF_MEMORY},
                              {"internal_error", RNB_INTERNAL_ERROR},
                              {"bad_environment", RNB_BAD_ENVIRONMENT}};
constexpr Code kCells[] = {{"lstm", RNB_CELL_LSTM}, {"gru", RNB_CELL_GRU}, {"rnn", RNB_CELL_RNN}};
constexpr Code kResets[] = {
    {"none", RNB_RESET_NONE}, {"before", RNB_RESET_BEFORE}, {"after", RNB_RESET_AFTER}};
constexpr Code kDtypes[] = {{"float32", RNB_DTYPE_FLOAT32}, {"float64", RNB_DTYPE_FLOAT64}};
constexpr Code kDirections[] = {{"forward", RNB_DIRECTION_FORWARD},
                                {"reverse", RNB_DIRECTION_REVERSE},
                                {"bidirectional", RNB_DIRECTION_BIDIRECTIONAL}};
constexpr Code kBiases[] = {
    {"none", RNB_BIAS_NONE}, {"single", RNB_BIAS_SINGLE}, {"double", RNB_BIAS_DOUBLE}};
constexpr Code kMerges[] = {{"concat", RNB_MERGE_CONCAT},
                            {"sum", RNB_MERGE_SUM},
                            {"mul", RNB_MERGE_MUL},
                            {"ave", RNB_MERGE_AVE},
                            {"none", RNB_MERGE_NONE}};
constexpr Code kOutputOrders[] = {{"input", RNB_OUTPUT_ORDER_INPUT},
                                  {"processing", RNB_OUTPUT_ORDER_PROCESSING}};
constexpr Code kActivations[] = {{"sigmoid", RNB_ACTIVATION_SIGMOID},
                                 {"tanh", RNB_ACTIVATION_TANH},
                                 {"relu", RNB_ACTIVATION_RELU},
                                 {"hard_sigmoid", RNB_ACTIVATION_HARD_SIGMOID},
                                 {"linear", RNB_ACTIVATION_LINEAR},
                                 {"affine", RNB_ACTIVATION_AFFINE},
                                 {"leaky_relu", RNB_ACTIVATION_LEAKY_RELU},
                                 {"thresholded_relu", RNB_ACTIVATION_THRESHOLDED_RELU},
                                 {"scaled_tanh", RNB_ACTIVATION_SCALED_TANH},
                                 {"elu", RNB_ACTIVATION_ELU},
                                 {"selu", RNB_ACTIVATION_SELU},
                                 {"softsign", RNB_ACTIVATION_SOFTSIGN},
                                 {"softplus", RNB_ACTIVATION_SOFTPLUS},
                                 {"exponential", RNB_ACTIVATION_EXPONENTIAL},
                                 {"silu", RNB_ACTIVATION_SILU},
                                 {"gelu", RNB_ACTIVATION_GELU}};

}  // namespace rnb
