/* Trains every cell, direction and way of keeping a tape, alone, on several threads, and by several callers at
 * once that share one plan and its packed weights; wants the same bits from all. Made to be built with
 * sanitizers: every array has exactly the size that the header asks for, and whatever is only written starts
 * as NaN. Prints what differs; exit status 1 if anything does. */
#define _POSIX_C_SOURCE 200112L
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnnbridge.h"

enum { T = 61, N = 11, I = 5, H = 19, L = 2, MAX_ARRAYS = 16, MAX_RESULTS = MAX_ARRAYS + 6 };
enum { CALLERS = 3, TURNS = 2 };

static const int32_t lengths[N] = {61, 7, 0, 33, 61, 1, 48, 0, 59, 20, 3};

typedef struct problem {
  rnb_spec spec;
  uint32_t flags;
  int arrays, states; /* L * D */
  size_t width;       /* of y */
  size_t sizes[MAX_ARRAYS];
  float* weights[MAX_ARRAYS];
  float *x, *dy, *states_in, *states_gradient;
} problem;

/* What several callers may use at once. */
typedef struct shared {
  rnb_plan* plan;
  rnb_sizes sizes;
  void* packed;
} shared;

/* y, hn, dx, dh0, dc0, cn, then the gradients of the weights. */
typedef struct results {
  size_t sizes[MAX_RESULTS];
  float* arrays[MAX_RESULTS];
  int count;
} results;

static void check(rnb_status status) {
  if (status == RNB_OK) return;
  fprintf(stderr, "rnnbridge: %s\n", rnb_last_error());
  exit(2);
}

static void* allocate(size_t nbytes) {
  void* block = NULL;
  if (posix_memalign(&block, RNB_ALIGNMENT, nbytes ? nbytes : 1)) exit(2);
  memset(block, 0xff, nbytes); /* NaN */
  return block;
}

static float* made_up(size_t count, float scale) {
  float* values = allocate(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) values[i] = scale * sinf(0.7f * (float)i + scale);
  return values;
}

static problem make_problem(int cell, int reset, int direction, int merge, uint32_t flags) {
  problem p;
  memset(&p, 0, sizeof p);
  const int G = cell == RNB_CELL_LSTM ? 4 : cell == RNB_CELL_GRU ? 3 : 1;
  const int D = direction == RNB_DIRECTION_BIDIRECTIONAL ? 2 : 1;
  p.spec.struct_size = sizeof p.spec;
  p.spec.cell = cell;
  p.spec.reset = reset;
  p.spec.dtype = RNB_DTYPE_FLOAT32;
  p.spec.direction = direction;
  p.spec.bias = RNB_BIAS_DOUBLE;
  p.spec.merge = merge;
  p.spec.output_order = RNB_OUTPUT_ORDER_INPUT;
  p.spec.num_layers = L;
  p.spec.input_size = I;
  p.spec.hidden_size = H;
  const int used = cell == RNB_CELL_LSTM ? 3 : cell == RNB_CELL_GRU ? 2 : 1;
  for (int i = 0; i < used; ++i)
    p.spec.activations[i].code =
        i == 0 && cell != RNB_CELL_RNN ? RNB_ACTIVATION_SIGMOID : RNB_ACTIVATION_TANH;
  p.flags = flags;
  p.states = L * D;
  p.width = merge == RNB_MERGE_CONCAT ? D * H : H;
  for (int layer = 0; layer < L; ++layer)
    for (int d = 0; d < D; ++d) {
      const size_t columns[4] = {layer ? p.width : I, H, 1, 1};
      for (int i = 0; i < 4; ++i, ++p.arrays) {
        p.sizes[p.arrays] = (size_t)G * H * columns[i];
        p.weights[p.arrays] = made_up(p.sizes[p.arrays], 0.3f);
      }
    }
  p.x = made_up((size_t)T * N * I, 1.0f);
  p.dy = made_up((size_t)T * N * p.width, 0.5f);
  p.states_in = made_up((size_t)p.states * N * H, 0.4f);
  p.states_gradient = made_up((size_t)p.states * N * H, 0.2f);
  return p;
}

static results make_results(const problem* p) {
  results r;
  const size_t state = (size_t)p->states * N * H;
  const size_t sizes[6] = {(size_t)T * N * p->width, state, (size_t)T * N * I, state, state, state};
  r.count = 6 + p->arrays;
  for (int i = 0; i < r.count; ++i) {
    r.sizes[i] = i < 6 ? sizes[i] : p->sizes[i - 6];
    r.arrays[i] = allocate(r.sizes[i] * sizeof(float));
  }
  return r;
}

static shared make_shared(const problem* p) {
  shared s;
  memset(&s, 0, sizeof s);
  check(rnb_plan_create(&p->spec, T, N, p->flags, &s.plan));
  s.sizes.struct_size = sizeof s.sizes;
  check(rnb_plan_sizes(s.plan, &s.sizes));
  s.packed = allocate(s.sizes.packed_nbytes);
  rnb_weights weights = {sizeof weights, (const void* const*)p->weights, (size_t)p->arrays};
  check(rnb_pack(s.plan, &weights, s.packed));
  return s;
}

static void free_shared(shared* s) {
  free(s->packed);
  rnb_plan_destroy(s->plan);
}

/* One training step's results, of which the LSTM's own stay NaN for the other cells. */
static results train(const problem* p, const shared* s, int threads) {
  void *tape = allocate(s->sizes.tape_nbytes), *workspace = allocate(s->sizes.workspace_nbytes);
  results r = make_results(p);
  const int lstm = p->spec.cell == RNB_CELL_LSTM;

  rnb_forward_args f;
  memset(&f, 0, sizeof f);
  f.struct_size = sizeof f;
  f.packed = s->packed, f.workspace = workspace, f.tape = tape;
  f.x = p->x, f.x_stride_t = N * I, f.x_stride_n = I;
  f.y = r.arrays[0], f.y_stride_t = (int64_t)(N * p->width), f.y_stride_n = (int64_t)p->width;
  f.lengths = lengths, f.lengths_itemsize = sizeof lengths[0];
  f.num_threads = threads;
  f.h0 = p->states_in, f.hn = r.arrays[1];
  if (lstm) f.c0 = p->states_in, f.cn = r.arrays[5];
  f.dropout = 0.3, f.dropout_seed = 5;
  check(rnb_forward(s->plan, &f));
  memset(workspace, 0xff, s->sizes.workspace_nbytes);

  rnb_backward_args b;
  memset(&b, 0, sizeof b);
  b.struct_size = sizeof b;
  b.packed = s->packed, b.workspace = workspace, b.tape = tape;
  b.x = f.x, b.x_stride_t = f.x_stride_t, b.x_stride_n = f.x_stride_n;
  b.y = f.y, b.y_stride_t = f.y_stride_t, b.y_stride_n = f.y_stride_n;
  b.h0 = f.h0, b.c0 = f.c0;
  b.dy = p->dy, b.dy_stride_t = f.y_stride_t, b.dy_stride_n = f.y_stride_n;
  b.dhn = p->states_gradient;
  b.dx = r.arrays[2], b.dx_stride_t = N * I, b.dx_stride_n = I;
  b.dh0 = r.arrays[3];
  if (lstm) b.dcn = p->states_gradient, b.dc0 = r.arrays[4];
  b.dweights = (void* const*)(r.arrays + 6), b.dweights_count = (size_t)p->arrays;
  b.num_threads = threads;
  check(rnb_backward(s->plan, &b));
  free(tape);
  free(workspace);
  return r;
}

static results run(const problem* p, int threads) {
  shared s = make_shared(p);
  results r = train(p, &s, threads);
  free_shared(&s);
  return r;
}

static void free_results(results* r) {
  for (int i = 0; i < r->count; ++i) free(r->arrays[i]);
}

/* Prints and counts the arrays that differ. */
static int differences_between(const results* got, const results* wanted, const char* name, const char* how) {
  int differences = 0;
  for (int i = 0; i < got->count; ++i) {
    if (!memcmp(got->arrays[i], wanted->arrays[i], got->sizes[i] * sizeof(float))) continue;
    printf("%s, %s: array %d differs\n", name, how, i);
    ++differences;
  }
  return differences;
}

typedef struct caller {
  const problem* p;
  const shared* s;
  const results* wanted;
  const char* name;
  int threads, differences;
} caller;

static void* call(void* given) {
  caller* c = given;
  for (int turn = 0; turn < TURNS; ++turn) {
    results got = train(c->p, c->s, c->threads);
    c->differences += differences_between(&got, c->wanted, c->name, "callers at once");
    free_results(&got);
  }
  return NULL;
}

static int compare_callers(const problem* p, const results* wanted, const char* name) {
  shared s = make_shared(p);
  caller callers[CALLERS];
  pthread_t threads[CALLERS];
  int differences = 0;
  for (int i = 0; i < CALLERS; ++i) {
    callers[i] = (caller){p, &s, wanted, name, 1 + i % 3, 0};
    if (pthread_create(&threads[i], NULL, call, &callers[i])) exit(2);
  }
  for (int i = 0; i < CALLERS; ++i) {
    pthread_join(threads[i], NULL);
    differences += callers[i].differences;
  }
  free_shared(&s);
  return differences;
}

/* Returns how many arrays differ from those of one thread that keeps the whole tape. */
static int compare(const problem* p, const char* name) {
  problem kept = *p;
  kept.flags = RNB_PLAN_TRAINING;
  results wanted = run(&kept, 1);
  int differences = compare_callers(p, &wanted, name);
  for (int threads = 1; threads <= 4; ++threads) {
    char how[64];
    snprintf(how, sizeof how, "flags %u, %d threads", (unsigned)p->flags, threads);
    results got = run(p, threads);
    differences += differences_between(&got, &wanted, name, how);
    free_results(&got);
  }
  for (int i = 6; i < wanted.count; ++i)
    for (size_t k = 0; k < wanted.sizes[i]; ++k)
      if (!isfinite(wanted.arrays[i][k])) {
        printf("%s: gradient %d is not finite\n", name, i - 6);
        ++differences;
        break;
      }
  free_results(&wanted);
  return differences;
}

int main(void) {
  const struct {
    const char* name;
    int cell, reset;
  } cells[] = {{"lstm", RNB_CELL_LSTM, RNB_RESET_NONE},
               {"gru after", RNB_CELL_GRU, RNB_RESET_AFTER},
               {"gru before", RNB_CELL_GRU, RNB_RESET_BEFORE},
               {"rnn", RNB_CELL_RNN, RNB_RESET_NONE}};
  int differences = 0;
  for (int c = 0; c < 4; ++c)
    for (int direction = RNB_DIRECTION_FORWARD; direction <= RNB_DIRECTION_BIDIRECTIONAL; ++direction)
      for (int merge = RNB_MERGE_CONCAT; merge <= RNB_MERGE_AVE; ++merge)
        for (uint32_t flags = RNB_PLAN_TRAINING; flags <= 3; flags += RNB_PLAN_RECOMPUTE) {
          if (direction != RNB_DIRECTION_BIDIRECTIONAL && merge != RNB_MERGE_CONCAT) continue;
          problem p = make_problem(cells[c].cell, cells[c].reset, direction, merge, flags);
          differences += compare(&p, cells[c].name);
          for (int i = 0; i < p.arrays; ++i) free(p.weights[i]);
          free(p.x);
          free(p.dy);
          free(p.states_in);
          free(p.states_gradient);
        }
  printf("%d differences\n", differences);
  return differences != 0;
}
