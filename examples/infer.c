/* The engine from C: a two-layer LSTM on three sequences of different lengths.
 *
 *   cc -std=c99 -I native/include examples/infer.c -o infer -L <folder of librnnbridge.so> -lrnnbridge -lm
 *
 * Weights and inputs are made up (a sine of the index), so that every run prints the same numbers. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnnbridge.h"

enum { T = 5, N = 3, I = 4, H = 6, L = 2, G = 4, ARRAYS_PER_LAYER = 4 };

static void check(rnb_status status) {
  if (status == RNB_OK) return;
  fprintf(stderr, "rnnbridge: %s\n", rnb_last_error());
  exit(1);
}

static float* made_up(size_t count, float scale) {
  float* values = malloc(count * sizeof *values);
  if (!values) exit(1);
  for (size_t i = 0; i < count; ++i) values[i] = scale * sinf(0.7f * (float)i + scale);
  return values;
}

/* Packed weights and workspace are aligned to RNB_ALIGNMENT inside a larger block; *block is what to free. */
static void* aligned(size_t nbytes, void** block) {
  *block = malloc(nbytes + RNB_ALIGNMENT);
  if (!*block) exit(1);
  return (char*)*block + (RNB_ALIGNMENT - (uintptr_t)*block % RNB_ALIGNMENT) % RNB_ALIGNMENT;
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
  check(rnb_plan_create(&spec, T, N, 0, &plan));
  return plan;
}

static void pack(const rnb_plan* plan, void* packed) {
  float* arrays[L * ARRAYS_PER_LAYER];
  for (int layer = 0; layer < L; ++layer) {
    float** a = arrays + layer * ARRAYS_PER_LAYER;
    a[0] = made_up((size_t)G * H * (layer == 0 ? I : H), 0.5f); /* weight_ih */
    a[1] = made_up((size_t)G * H * H, 0.4f);                    /* weight_hh */
    a[2] = made_up((size_t)G * H, 0.3f);                        /* bias_ih */
    a[3] = made_up((size_t)G * H, 0.2f);                        /* bias_hh */
  }
  rnb_weights weights = {sizeof weights, (const void* const*)arrays, L * ARRAYS_PER_LAYER};
  check(rnb_pack(plan, &weights, packed));
  for (int i = 0; i < L * ARRAYS_PER_LAYER; ++i) free(arrays[i]);
}

int main(void) {
  rnb_plan* plan = make_plan();
  rnb_sizes sizes = {sizeof sizes, 0, 0, 0};
  check(rnb_plan_sizes(plan, &sizes));
  void *packed_block, *workspace_block;
  void* packed = aligned(sizes.packed_nbytes, &packed_block);
  void* workspace = aligned(sizes.workspace_nbytes, &workspace_block);
  pack(plan, packed);

  const int32_t lengths[N] = {5, 2, 3};
  float* x = made_up((size_t)T * N * I, 1.0f);
  float y[T][N][H], hn[L][N][H], cn[L][N][H];

  rnb_forward_args args;
  memset(&args, 0, sizeof args); /* what is not set below is not wanted: h0 and c0 are zeros */
  args.struct_size = sizeof args;
  args.packed = packed;
  args.workspace = workspace;
  args.x = x;
  args.x_stride_t = N * I;
  args.x_stride_n = I;
  args.y = y;
  args.y_stride_t = N * H;
  args.y_stride_n = H;
  args.lengths = lengths;
  args.lengths_itemsize = sizeof lengths[0];
  args.hn = hn;
  args.cn = cn;
  check(rnb_forward(plan, &args));

  for (int n = 0; n < N; ++n) {
    printf("sequence %d, %d steps\n", n, (int)lengths[n]);
    for (int t = 0; t < T; ++t) {
      printf("  y[%d] ", t);
      for (int h = 0; h < H; ++h) printf(" % .6f", y[t][n][h]);
      printf("\n");
    }
    printf("  h_n  ");
    for (int h = 0; h < H; ++h) printf(" % .6f", hn[L - 1][n][h]);
    printf("\n");
  }

  free(x);
  free(packed_block);
  free(workspace_block);
  rnb_plan_destroy(plan);
  return 0;
}
