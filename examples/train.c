/* Training from C: a two-layer LSTM with dropout learns to repeat the first input of a sequence at every
 * step.
 *
 *   cc -std=c99 -I native/include examples/train.c -o train -L <folder of librnnbridge.so> -lrnnbridge -lm
 *
 * It shows how memory is shared between forward and backward: ONE workspace serves both calls and holds
 * nothing between them, and the tape takes from the forward to the backward what the gradients need. Both are
 * allocated once, before the first step. Prints the loss of every fiftieth step, in %.6f. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnnbridge.h"

enum { T = 7, N = 5, I = 2, H = 8, L = 2, G = 4, EACH = 4, ARRAYS = L * EACH, STEPS = 300 };

static const int32_t lengths[N] = {7, 3, 5, 6, 2};

static void check(rnb_status status) {
  if (status == RNB_OK) return;
  fprintf(stderr, "rnnbridge: %s\n", rnb_last_error());
  exit(1);
}

static void* allocate(size_t nbytes) {
  void* block = calloc(nbytes ? nbytes : 1, 1);
  if (!block) exit(1);
  return block;
}

/* Packed weights, workspace and tape are aligned to RNB_ALIGNMENT inside a larger block; *block is what to
 * free. */
static void* aligned(size_t nbytes, void** block) {
  *block = allocate(nbytes + RNB_ALIGNMENT);
  return (char*)*block + (RNB_ALIGNMENT - (uintptr_t)*block % RNB_ALIGNMENT) % RNB_ALIGNMENT;
}

static size_t array_size(int i) {
  const size_t columns[EACH] = {i < EACH ? I : H, H, 1, 1}; /* weight_ih, weight_hh, bias_ih, bias_hh */
  return (size_t)G * H * columns[i % EACH];
}

static rnb_plan* make_plan(void) {
  rnb_spec spec;
  memset(&spec, 0, sizeof spec);
  spec.struct_size = sizeof spec;
  spec.cell = RNB_CELL_LSTM;
  spec.reset = RNB_RESET_NONE;
  spec.dtype = RNB_DTYPE_FLOAT32;
  spec.direction = RNB_DIRECTION_FORWARD;
  spec.bias = RNB_BIAS_DOUBLE;
  spec.merge = RNB_MERGE_CONCAT;
  spec.output_order = RNB_OUTPUT_ORDER_INPUT;
  spec.num_layers = L;
  spec.input_size = I;
  spec.hidden_size = H;
  spec.activations[0].code = RNB_ACTIVATION_SIGMOID;
  spec.activations[1].code = RNB_ACTIVATION_TANH;
  spec.activations[2].code = RNB_ACTIVATION_TANH;
  rnb_plan* plan = NULL;
  check(rnb_plan_create(&spec, T, N, RNB_PLAN_TRAINING, &plan));
  return plan;
}

/* The output's feature 0 shall be the sequence's first input. dy is zero but there; past a length nobody
 * reads it. */
static float loss_and_gradient(const float* x, const float* y, float* dy) {
  float loss = 0, count = 0;
  for (int n = 0; n < N; ++n) count += (float)lengths[n];
  for (int n = 0; n < N; ++n)
    for (int t = 0; t < lengths[n]; ++t) {
      const float error = y[(t * N + n) * H] - x[n * I];
      loss += error * error / count;
      dy[(t * N + n) * H] = 2 * error / count;
    }
  return loss;
}

int main(void) {
  rnb_plan* plan = make_plan();
  rnb_sizes sizes;
  memset(&sizes, 0, sizeof sizes);
  sizes.struct_size = sizeof sizes;
  check(rnb_plan_sizes(plan, &sizes));
  void *packed_block, *workspace_block, *tape_block;
  void* packed = aligned(sizes.packed_nbytes, &packed_block);
  void* workspace = aligned(sizes.workspace_nbytes, &workspace_block);
  void* tape = aligned(sizes.tape_nbytes, &tape_block);

  float *weights[ARRAYS], *gradients[ARRAYS];
  for (int i = 0; i < ARRAYS; ++i) {
    weights[i] = allocate(array_size(i) * sizeof(float));
    gradients[i] = allocate(array_size(i) * sizeof(float));
    for (size_t k = 0; k < array_size(i); ++k)
      weights[i][k] = 0.4f * sinf(1.7f * (float)k + (float)i); /* made up */
  }
  float* x = allocate((size_t)T * N * I * sizeof(float));
  float* y = allocate((size_t)T * N * H * sizeof(float));
  float* dy = allocate((size_t)T * N * H * sizeof(float));
  for (int i = 0; i < T * N * I; ++i) x[i] = 0.8f * sinf(2.3f * (float)i);

  rnb_weights given = {sizeof given, (const void* const*)weights, ARRAYS};
  rnb_forward_args forward;
  memset(&forward, 0, sizeof forward);
  forward.struct_size = sizeof forward;
  forward.packed = packed;
  forward.workspace = workspace;
  forward.tape = tape;
  forward.x = x;
  forward.x_stride_t = N * I;
  forward.x_stride_n = I;
  forward.y = y;
  forward.y_stride_t = N * H;
  forward.y_stride_n = H;
  forward.lengths = lengths;
  forward.lengths_itemsize = sizeof lengths[0];
  forward.dropout = 0.1;
  forward.dropout_seed = 1;

  rnb_backward_args backward;
  memset(&backward, 0, sizeof backward); /* what is not set below is not wanted, or zero: dx, the states' */
  backward.struct_size = sizeof backward;
  backward.packed = packed;
  backward.workspace = workspace;
  backward.tape = tape;
  backward.x = x;
  backward.x_stride_t = N * I;
  backward.x_stride_n = I;
  backward.y = y;
  backward.y_stride_t = N * H;
  backward.y_stride_n = H;
  backward.dy = dy;
  backward.dy_stride_t = N * H;
  backward.dy_stride_n = H;
  backward.dweights = (void* const*)gradients;
  backward.dweights_count = ARRAYS;

  for (uint32_t step = 0; step <= STEPS; ++step) {
    check(rnb_pack(plan, &given, packed)); /* the weights have changed */
    forward.weights_generation = backward.weights_generation = step;
    forward.dropout_offset = step; /* another mask in every step */
    check(rnb_forward(plan, &forward));
    const float loss = loss_and_gradient(x, y, dy);
    if (step % 50 == 0) printf("step %3u  loss %.6f\n", (unsigned)step, loss);
    check(rnb_backward(plan, &backward));
    for (int i = 0; i < ARRAYS; ++i)
      for (size_t k = 0; k < array_size(i); ++k) weights[i][k] -= 2.0f * gradients[i][k];
  }

  for (int i = 0; i < ARRAYS; ++i) {
    free(weights[i]);
    free(gradients[i]);
  }
  free(x);
  free(y);
  free(dy);
  free(packed_block);
  free(workspace_block);
  free(tape_block);
  rnb_plan_destroy(plan);
  return 0;
}
