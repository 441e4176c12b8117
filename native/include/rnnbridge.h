/* rnnbridge: the C interface of the recurrent engine. This header is its documentation.
 *
 * Letters: T time, N batch, I input size, H hidden size, G gates, L layers, D directions (1 or 2).
 * Gates and their order in every weight: LSTM "ifgo", GRU "rzn", RNN "n". z keeps h: h' = (1 - z) n + z h.
 *
 *   LSTM        i,f,o = f(W x + U h + b)   g = g(...)   c' = f c + i g   h' = o h(c')
 *   GRU after   r,z   = f(W x + U h + b)   n = g(W_n x + b_in + r (U_n h + b_hn))   h' = (1 - z) n + z h
 *   GRU before  r,z   = f(W x + U h + b)   n = g(W_n x + U_n (r h) + b_n)           h' = (1 - z) n + z h
 *   RNN         h' = f(W x + U h + b)
 *
 * Order of calls: rnb_plan_create -> rnb_plan_sizes -> (caller allocates) -> rnb_pack -> rnb_forward, as
 * often as wanted -> rnb_plan_destroy. The caller owns all memory; no call but rnb_plan_create allocates any, but
 * for the first that uses more threads than any before it, and for the text of an error.
 * The library's only global state is its thread pool and the choice of an instruction set.
 *
 * Training: a plan with RNB_PLAN_TRAINING; rnb_forward with a tape, then rnb_backward with that tape, any
 * number of times. One workspace serves both: it holds nothing between calls, while the tape must stay as it
 * is from its forward to its last backward, and so must x, y, h0 and c0, which the tape does not copy. Plans
 * of several shapes can share the largest one's workspace; each forward that still awaits its backward needs
 * a tape of its own. examples/train.c shows it.
 *
 * Every function may be called from any thread. A plan is immutable: several threads may use one at once,
 * each with a workspace of its own; packed weights are only read by rnb_forward and may be shared by all
 * plans of one spec, whatever their T and N. What a training plan packs serves the others of its spec too,
 * not the other way round.
 *
 * Results are the same bits for any number of threads, on one instruction set; those of a row, which the sums of
 * weight gradients are not, also for any company that it has in the batch (but what is added to a dx of two
 * directions, whose order depends on N). NaN and infinity go where IEEE 754 sends them; denormal numbers count as zero, for their slow
 * arithmetic, and only during a call: each thread's floating point mode is then what it was.
 *
 * ABI: `struct_size` is the first field of every struct and must be set to sizeof(that struct) by the caller.
 * Fields are only ever added at the end: what an older caller's shorter struct lacks counts as zero, and a
 * library that is older than its caller accepts the longer struct as long as what it does not know is zero.
 * In every enumeration 0 is not a value, so that a forgotten field is an error.
 */
#ifndef RNNBRIDGE_H
#define RNNBRIDGE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define RNB_API __declspec(dllexport)
#else
#define RNB_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when an existing function, field or code changes its meaning, not when a struct grows at its end. */
#define RNB_ABI_VERSION 1

/* Alignment in bytes of the packed weights and of the workspace. Other arrays need that of their element. */
#define RNB_ALIGNMENT 64

typedef enum rnb_status {
  RNB_OK = 0,
  RNB_INVALID_ARGUMENT = 1, /* rnb_last_error() says what was given and what is accepted */
  RNB_UNSUPPORTED = 2,      /* a struct longer than this library knows, with something in its unknown part */
  RNB_ISA_UNAVAILABLE = 3,  /* RNNBRIDGE_ISA names an instruction set that is not compiled in or not usable */
  RNB_OUT_OF_MEMORY = 4,
  RNB_INTERNAL_ERROR = 5,
  RNB_BAD_ENVIRONMENT = 6 /* RNNBRIDGE_NUM_THREADS is not a number of threads */
} rnb_status;

typedef enum rnb_cell { RNB_CELL_LSTM = 1, RNB_CELL_GRU = 2, RNB_CELL_RNN = 3 } rnb_cell;

/* GRU only; the other cells have RNB_RESET_NONE. */
typedef enum rnb_reset { RNB_RESET_NONE = 1, RNB_RESET_BEFORE = 2, RNB_RESET_AFTER = 3 } rnb_reset;

/* Element type of every array of a plan: x, y, states, weights. */
typedef enum rnb_dtype { RNB_DTYPE_FLOAT32 = 1, RNB_DTYPE_FLOAT64 = 2 } rnb_dtype;

typedef enum rnb_direction {
  RNB_DIRECTION_FORWARD = 1,
  RNB_DIRECTION_REVERSE = 2, /* D = 1 */
  RNB_DIRECTION_BIDIRECTIONAL = 3
} rnb_direction;

/* Single is bias_ih alone. Double is bias_ih and bias_hh, which are added wherever both act on the same sum:
 * everywhere but in the n gate of GRU reset-after, where b_hn stays inside r (...) and is 0 if the bias is
 * single. */
typedef enum rnb_bias { RNB_BIAS_NONE = 1, RNB_BIAS_SINGLE = 2, RNB_BIAS_DOUBLE = 3 } rnb_bias;

/* How a bidirectional layer's two outputs become one, for every layer. NONE: the caller wants them apart; y
 * is laid out as for CONCAT and L must be 1. With one direction: CONCAT or NONE, which then mean the same. */
typedef enum rnb_merge {
  RNB_MERGE_CONCAT = 1,
  RNB_MERGE_SUM = 2,
  RNB_MERGE_MUL = 3,
  RNB_MERGE_AVE = 4,
  RNB_MERGE_NONE = 5
} rnb_merge;

/* PROCESSING: y is flipped over the whole T axis, y_out[t] = y[T-1-t] (padding too). L must be 1. */
typedef enum rnb_output_order {
  RNB_OUTPUT_ORDER_INPUT = 1,
  RNB_OUTPUT_ORDER_PROCESSING = 2
} rnb_output_order;

/* a, b are alpha and beta. Those that a function does not use are ignored. NaN gives NaN in all of them. */
typedef enum rnb_activation_code {
  RNB_ACTIVATION_SIGMOID = 1,
  RNB_ACTIVATION_TANH = 2,
  RNB_ACTIVATION_RELU = 3,
  RNB_ACTIVATION_HARD_SIGMOID = 4, /* min(max(a x + b, 0), 1) */
  RNB_ACTIVATION_LINEAR = 5,
  RNB_ACTIVATION_AFFINE = 6,           /* a x + b */
  RNB_ACTIVATION_LEAKY_RELU = 7,       /* x < 0 ? a x : x */
  RNB_ACTIVATION_THRESHOLDED_RELU = 8, /* x > a ? x : 0 */
  RNB_ACTIVATION_SCALED_TANH = 9,      /* a tanh(b x) */
  RNB_ACTIVATION_ELU = 10,             /* x < 0 ? a (exp(x) - 1) : x */
  RNB_ACTIVATION_SELU = 11,            /* the constants of Klambauer et al. 2017; a, b unused */
  RNB_ACTIVATION_SOFTSIGN = 12,        /* x / (1 + |x|) */
  RNB_ACTIVATION_SOFTPLUS = 13,        /* log(1 + exp(x)) */
  RNB_ACTIVATION_EXPONENTIAL = 14,
  RNB_ACTIVATION_SILU = 15, /* x sigmoid(x) */
  RNB_ACTIVATION_GELU = 16  /* x Phi(x), with erf, not its tanh approximation */
} rnb_activation_code;

typedef struct rnb_activation {
  int32_t code; /* rnb_activation_code; 0 in a slot that the cell does not have */
  double alpha;
  double beta;
} rnb_activation;

/* Bits of rnb_plan_create's flags. */
typedef enum rnb_plan_flag {
  /* The plan can train. Activations: all but silu and gelu (their slope does not follow from their output),
   * leaky_relu and elu with alpha > 0, scaled_tanh with alpha != 0. */
  RNB_PLAN_TRAINING = 1,
  /* With TRAINING: the tape keeps no gates, of the states only those at the start of each stretch of steps, and
   * of a bidirectional stack also each lower layer's output (merged: each direction's); backward runs every
   * stretch forward once more. The gradients are the same bits. */
  RNB_PLAN_RECOMPUTE = 2
} rnb_plan_flag;

/* Bits of rnb_backward_args.accumulate: add to what the arrays hold instead of writing. */
typedef enum rnb_accumulate {
  RNB_ACCUMULATE_WEIGHTS = 1, /* dweights */
  RNB_ACCUMULATE_INPUTS = 2   /* dx, dh0, dc0 */
} rnb_accumulate;

typedef struct rnb_spec {
  size_t struct_size;
  int32_t cell;         /* rnb_cell */
  int32_t reset;        /* rnb_reset */
  int32_t dtype;        /* rnb_dtype */
  int32_t direction;    /* rnb_direction */
  int32_t bias;         /* rnb_bias */
  int32_t merge;        /* rnb_merge */
  int32_t output_order; /* rnb_output_order */
  int32_t num_layers;   /* L >= 1 */
  int64_t input_size;   /* I >= 1, of layer 0. Upper layers read D*H (concat) or H (sum, mul, ave) */
  int64_t hidden_size;  /* H >= 1 */
  /* The same for every layer and direction:
   *   LSTM  f (i, f, o)   g (g)   h (cell state)
   *   GRU   f (r, z)      g (n)
   *   RNN   f
   * sigmoid and tanh in their usual places, and tanh or relu in RNN, are fast; all others are right. */
  rnb_activation activations[3];
} rnb_spec;

/* Sizes in bytes, the same for every number of threads and every instruction set. With e the element's size,
 * x' = x rounded up to a multiple of 64/e, I_l the input size of layer l, slots S and state rows K:
 *                 LSTM   GRU after   GRU before   RNN
 *      G            4        3           3         1
 *      S            4        4           3         1
 *      K            3        2           3         2
 * A stretch has min(T, 512 / N rounded up) steps, R rows. All layers of a one-direction stack go through one
 * before the next begins: V = L layers keep states and Z = R rows of an inner layer's output are there at a time;
 * of a bidirectional one, V = 1 and Z = T N. Y is the width of a layer's output; B = 0, 1, 2 for L = 1, 2, more.
 *   packed    = e * sum over l, d of H' (S + G (I_l + H))
 *   workspace = e D (96 + N) S H' + e D V N K (H' + 64/e) + e B Z Y' + 16 N, this term rounded up to 64 bytes
 *
 * A training plan's, with A the larger of I and (L > 1) Y, R' = R rounded up to a multiple of 16, plus 16; C = 1
 * for LSTM, else 0; M = 1 for merge sum, mul, ave, else 0; every term rounded up to a multiple of 64 bytes:
 *   packed   += e * sum over l, d of G H' (H' + I_l')
 *   tape      = 48 + 8 N + e L D T N (S H' + C H') + e (L - 1) T N Y' + M e L D T N H', without S H' for RNN
 *   workspace = the larger of
 *     forward   the above + 8 (T + 1) + (L > 1) e D (96 + N) Y'
 *     backward  e D (R (2 S H' + 64/e + A') + R' (A + H + 2) + 3 N (H' + 64/e))
 *               + e D V (G H' (A + H + 2) + N (1 + C) (H' + 64/e)) + 16 N + 8 (T + 1)
 *               bidirectional              + e B T N Y'
 *               for GRU before             + e D (R' H + R H' + V N (H' + 64/e))
 *               with RNB_PLAN_RECOMPUTE    + e D V R (S + C) H' + (V > 1) e V R Y'
 * With RNB_PLAN_RECOMPUTE and Q stretches the tape has no S term, and C counts the stretches' starts alone, Q - 1
 * in place of T; of one direction the term of Y' does too. */
typedef struct rnb_sizes {
  size_t struct_size;
  size_t packed_nbytes;
  size_t workspace_nbytes; /* serves rnb_forward and, in a training plan, rnb_backward */
  size_t tape_nbytes;      /* 0 without RNB_PLAN_TRAINING */
} rnb_sizes;

/* Arrays in PyTorch's layout, row-major and contiguous, of the spec's dtype; read during the call only:
 *   weight_ih [G*H, I_l]   weight_hh [G*H, H]   bias_ih [G*H]   bias_hh [G*H]
 * `arrays` holds, for layer 0 forward, layer 0 reverse, layer 1 forward ... (one direction: layer 0, 1 ...):
 *   bias none     weight_ih, weight_hh
 *   bias single   weight_ih, weight_hh, bias_ih
 *   bias double   weight_ih, weight_hh, bias_ih, bias_hh */
typedef struct rnb_weights {
  size_t struct_size;
  const void* const* arrays;
  size_t count; /* L * D * (2, 3 or 4); checked */
} rnb_weights;

/* All arrays are of the spec's dtype. Strides count elements; the feature axis has stride 1. Nothing may
 * overlap what is written, except that hn may be h0 itself and cn may be c0. */
typedef struct rnb_forward_args {
  size_t struct_size;
  const void* packed; /* from rnb_pack with an equal spec; RNB_ALIGNMENT; only read */
  void* workspace;    /* workspace_nbytes; RNB_ALIGNMENT; needs no initialisation, holds nothing afterwards */

  const void* x; /* [T, N, I]; what lies past a sequence's length is never read */
  int64_t x_stride_t;
  int64_t x_stride_n;

  /* [T, N, D*H] (concat, none: forward features first) or [T, N, H] (sum, mul, ave). Exactly zero past a
   * length. NULL if not wanted. Only its features are written, never what lies between strides. */
  void* y;
  int64_t y_stride_t;
  int64_t y_stride_n;

  /* [N] steps per sequence, 0 <= length <= T, in any order; NULL means all T. The reverse direction starts at
   * a sequence's last valid step. A final state is the one after a sequence's last processed step, and the
   * initial state where the length is 0. */
  const void* lengths;
  int32_t lengths_itemsize; /* 4: int32_t, 8: int64_t; not looked at if lengths is NULL */

  /* 0: at most rnb_get_num_threads(), fewer for little work. n > 0: n, as far as there are rows and
   * directions to share. The call runs on its own thread alone while another call holds the pool. */
  int32_t num_threads;

  const void* h0; /* [L*D, N, H] contiguous, NULL means zeros; index l*D + d */
  const void* c0; /* the same, LSTM only */
  void* hn;       /* [L*D, N, H] contiguous, NULL if not wanted */
  void* cn;       /* the same, LSTM only */

  /* Training: tape_nbytes; RNB_ALIGNMENT; needs no initialisation. NULL: an evaluation, without dropout, also
   * by a training plan. With a tape y must be given where outputs are concatenated (merge concat, none), and
   * h0 and c0 may not be hn and cn. */
  void* tape;
  uint64_t weights_generation; /* any number for the contents of `packed`; rnb_backward must give the same */

  /* Dropout of every layer's output but the last one's, 0 <= p <= 1. Feature j of sample n at time t is kept
   * if (word >> 8) 2^-24 >= p, then scaled by 1 / (1 - p), with word j % 4 of Philox4x32-10 at
   *   key     = (dropout_seed's low half, its high half)
   *   counter = (j / 4 + 2^24 layer, n + dropout_sample_offset, t, dropout_offset), each modulo 2^32
   * so that a mask depends on neither threads nor lengths nor the order of samples. dropout_offset is to
   * differ from call to call. All four are looked at only with a tape, and kept in it. */
  double dropout;
  uint64_t dropout_seed;
  uint32_t dropout_offset;
  uint32_t dropout_sample_offset;
} rnb_forward_args;

/* Gradients of a scalar, given those of y, hn and cn. Element types, strides and contiguity are as in
 * rnb_forward_args. Nothing may overlap what is written, except that dh0 may be dhn itself and dc0 may be
 * dcn. Every gradient that is NULL is not computed. */
typedef struct rnb_backward_args {
  size_t struct_size;
  const void* packed; /* as in the forward; from rnb_pack with a training plan */
  void* workspace;    /* workspace_nbytes; RNB_ALIGNMENT; any contents */
  const void* tape;   /* that rnb_forward filled by a plan of equal spec, T, N and flags; only read */
  uint64_t weights_generation; /* the forward's, else the tape is refused as one of replaced weights */

  const void* x; /* [T, N, I] of the forward, unchanged */
  int64_t x_stride_t;
  int64_t x_stride_n;
  const void* y; /* that the forward wrote, unchanged; not looked at with merge sum, mul, ave */
  int64_t y_stride_t;
  int64_t y_stride_n;
  const void* h0; /* of the forward, unchanged (lengths are in the tape) */
  const void* c0;

  const void* dy; /* the shape of y; never read past a length; NULL means zeros */
  int64_t dy_stride_t;
  int64_t dy_stride_n;
  const void* dhn; /* [L*D, N, H], NULL means zeros */
  const void* dcn; /* the same, LSTM only */

  void* dx; /* [T, N, I]; exactly zero (accumulating: left as it is) past a length; NULL if not wanted */
  int64_t dx_stride_t;
  int64_t dx_stride_n;
  void* dh0; /* [L*D, N, H], that of hn where the length is 0; NULL if not wanted */
  void* dc0; /* the same, LSTM only */

  /* As rnb_weights.arrays: the same count, order, shapes and layout. The array, or any in it, may be NULL. */
  void* const* dweights;
  size_t dweights_count;

  uint32_t accumulate; /* bits of rnb_accumulate */
  int32_t num_threads; /* as in rnb_forward_args */
} rnb_backward_args;

typedef struct rnb_plan rnb_plan;

/* RNB_ABI_VERSION of the library that was loaded. */
RNB_API int32_t rnb_abi_version(void);

/* JSON, the same pointer in every call, valid for ever:
 *   {"version": "0.1.0", "abi": 1, "alignment": 64,
 *    "cells": {"lstm": "ifgo", "gru": "rzn", "rnn": "n"},
 *    "codes": {"status": {"ok": 0, ...}, "cell": {"lstm": 1, ...}, "reset": {...}, "dtype": {...},
 *              "direction": {...}, "bias": {...}, "merge": {...}, "output_order": {...},
 *              "activation": {...}},
 *    "struct_sizes": {"rnb_activation": 24, "rnb_spec": ..., "rnb_sizes": ..., "rnb_weights": ...,
 *                     "rnb_forward_args": ..., "rnb_backward_args": ...},
 *    "isa": {"compiled": ["baseline", "avx2", ...], "usable": [...], "active": "avx2" or null,
 *            "warnings": [...]}}
 * Names in "codes" are the enumerators' in lower case without their prefix (dtype: "float32").
 *   compiled   in this library
 *   usable     this CPU has it, and its kernels agree with the baseline's
 *   active     what plans use; null if RNNBRIDGE_ISA asks for one that is not usable (rnb_plan_create then
 *              fails, and a warning says why) */
RNB_API const char* rnb_build_info(void);

/* What the last failing call on this thread had to say, in words for a user; "" before any failure. Valid
 * until the next failing call on this thread. */
RNB_API const char* rnb_last_error(void);

/* T >= 1, N >= 0, flags: bits of rnb_plan_flag. Copies the spec. *plan is set on success only. */
RNB_API rnb_status rnb_plan_create(const rnb_spec* spec, int64_t T, int64_t N, uint32_t flags,
                                   rnb_plan** plan);

/* NULL is fine. */
RNB_API void rnb_plan_destroy(rnb_plan* plan);

RNB_API rnb_status rnb_plan_sizes(const rnb_plan* plan, rnb_sizes* sizes);

/* Writes packed_nbytes at `packed` (RNB_ALIGNMENT). The result depends on the spec and the weights alone. */
RNB_API rnb_status rnb_pack(const rnb_plan* plan, const rnb_weights* weights, void* packed);

/* N = 0 returns at once. On an error nothing has been written. */
RNB_API rnb_status rnb_forward(const rnb_plan* plan, const rnb_forward_args* args);

/* By a training plan. May be repeated on one tape, with the same bits for the same arguments; dropout is that
 * of the forward. With N = 0 weight gradients are zero. A tape of another plan's shape or of other weights is
 * an error. On an error nothing has been written. */
RNB_API rnb_status rnb_backward(const rnb_plan* plan, const rnb_backward_args* args);

/* 1 <= n <= 1024, or 0 for the default: RNNBRIDGE_NUM_THREADS if set, else the CPUs that this process may keep
 * busy (affinity, control group). While the default holds and RNNBRIDGE_NUM_THREADS is not such a number,
 * rnb_plan_create fails. */
RNB_API rnb_status rnb_set_num_threads(int32_t n);

/* What calls use that name no number; 0 if RNNBRIDGE_NUM_THREADS is wrong, as rnb_last_error() then says. */
RNB_API int32_t rnb_get_num_threads(void);

/* For a benchmark that times them itself: how fast the calling thread's core is now, on the active instruction set.
 * multiply_add: `rounds` of independent multiply-adds (rnb_dtype) in registers; *operations is how many
 * additions and multiplications they were. read: `nbytes` (a multiple of 1024) at `data` (RNB_ALIGNMENT; any finite
 * floats), `times` times. */
RNB_API rnb_status rnb_bench_multiply_add(int32_t dtype, int64_t rounds, int64_t* operations);
RNB_API rnb_status rnb_bench_read(const void* data, int64_t nbytes, int64_t times);

#ifdef __cplusplus
}
#endif

#endif
