// Runs one recurrent primitive of oneDNN 3 on a CPU: reads what it is given from the standard input, writes what it
// answers to the standard output. Knows nothing of rnnbridge.
//
// Given, in this order: ten 32-bit integers, see Problem; then float32 arrays, each dense in its logical order:
// x [T, N, I], h [L, D, N, S], c [L, D, N, H] (LSTM), weights_layer and weights_iter in the layout that `tag` says,
// bias ldgo, weights_peephole ldgo, weights_projection in ldio or ldoi. Answered: y [T, N, .], h, c.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "dnnl.hpp"

using namespace dnnl;
using tag = memory::format_tag;

namespace {

enum Cell { kTanh, kRelu, kLogistic, kLstm, kGru, kLbrGru };

struct Problem {
  int32_t cell, direction, goi, layers, steps, batch, inputs, hidden, projection, peephole;
};

// Owns an engine and a stream for all memories.
struct Runner {
  engine cpu{engine::kind::cpu, 0};
  stream queue{cpu};

  memory read(const memory::dims& shape, tag layout) {
    memory held({shape, memory::data_type::f32, layout}, cpu);
    const size_t bytes = held.get_desc().get_size();
    if (std::fread(held.get_data_handle(), 1, bytes, stdin) != bytes) {
      std::fprintf(stderr, "the input is too short\n");
      std::exit(1);
    }
    return held;
  }

  memory empty(const memory::dims& shape, tag layout) {
    return memory({shape, memory::data_type::f32, layout}, cpu);
  }

  // In the layout that the primitive takes; the reorder is oneDNN's own.
  memory reordered(memory from, tag layout) {
    memory to = empty(from.get_desc().get_dims(), layout);
    reorder(from, to).execute(queue, from, to);
    queue.wait();
    return to;
  }
};

void write(const memory& answer) {
  std::fwrite(answer.get_data_handle(), 1, answer.get_desc().get_size(), stdout);
}

const rnn_direction kDirections[] = {
    rnn_direction::unidirectional_left2right,
    rnn_direction::unidirectional_right2left,
    rnn_direction::bidirectional_concat,
    rnn_direction::bidirectional_sum,
};

// All memories of a primitive; those that a cell does not have stay empty.
struct Memories {
  memory x, h, c, layer, iter, bias, peephole, projection, y, last_h, last_c;
};

Memories read(Runner& runner, const Problem& p) {
  const int directions = p.direction < 2 ? 1 : 2;
  const int gates = p.cell == kLstm ? 4 : p.cell >= kGru ? 3 : 1;
  const int state = p.projection ? p.projection : p.hidden;
  const tag weights = p.goi ? tag::ldgoi : tag::ldigo;
  const memory::dims h_shape{p.layers, directions, p.batch, state},
      c_shape{p.layers, directions, p.batch, p.hidden};
  Memories m;
  m.x = runner.read({p.steps, p.batch, p.inputs}, tag::tnc);
  m.h = runner.read(h_shape, tag::ldnc);
  if (p.cell == kLstm) m.c = runner.read(c_shape, tag::ldnc);
  m.layer =
      runner.reordered(runner.read({p.layers, directions, p.inputs, gates, p.hidden}, weights), tag::ldigo);
  m.iter = runner.reordered(runner.read({p.layers, directions, state, gates, p.hidden}, weights), tag::ldigo);
  m.bias = runner.read({p.layers, directions, gates + (p.cell == kLbrGru), p.hidden}, tag::ldgo);
  if (p.peephole) m.peephole = runner.read({p.layers, directions, 3, p.hidden}, tag::ldgo);
  if (p.projection) {
    const tag given = p.goi ? tag::ldoi : tag::ldio;
    m.projection = runner.reordered(runner.read({p.layers, directions, p.hidden, state}, given), tag::ldio);
  }
  m.y = runner.empty({p.steps, p.batch, p.direction == 2 ? 2 * state : state}, tag::tnc);
  m.last_h = runner.empty(h_shape, tag::ldnc);
  if (p.cell == kLstm) m.last_c = runner.empty(c_shape, tag::ldnc);
  return m;
}

memory::desc described(const memory& held) { return held ? held.get_desc() : memory::desc(); }

primitive made(const Runner& runner, const Problem& p, const Memories& m) {
  const auto kind = prop_kind::forward_inference;
  const auto direction = kDirections[p.direction];
  const auto x = described(m.x), h = described(m.h), layer = described(m.layer), iter = described(m.iter);
  const auto bias = described(m.bias), y = described(m.y), last_h = described(m.last_h);
  if (p.cell == kLstm) {
    return lstm_forward({runner.cpu, kind, direction, x, h, described(m.c), layer, iter,
                         described(m.peephole), described(m.projection), bias, y, last_h,
                         described(m.last_c)});
  }
  if (p.cell == kGru) return gru_forward({runner.cpu, kind, direction, x, h, layer, iter, bias, y, last_h});
  if (p.cell == kLbrGru)
    return lbr_gru_forward({runner.cpu, kind, direction, x, h, layer, iter, bias, y, last_h});
  const algorithm activations[] = {algorithm::eltwise_tanh, algorithm::eltwise_relu,
                                   algorithm::eltwise_logistic};
  const auto activation = activations[p.cell];
  return vanilla_rnn_forward({runner.cpu, kind, activation, direction, x, h, layer, iter, bias, y, last_h});
}

void run(const Problem& p) {
  Runner runner;
  const Memories m = read(runner, p);
  std::unordered_map<int, memory> given;
  for (const auto& [argument, held] : std::initializer_list<std::pair<int, memory>>{
           {DNNL_ARG_SRC_LAYER, m.x},
           {DNNL_ARG_SRC_ITER, m.h},
           {DNNL_ARG_SRC_ITER_C, m.c},
           {DNNL_ARG_WEIGHTS_LAYER, m.layer},
           {DNNL_ARG_WEIGHTS_ITER, m.iter},
           {DNNL_ARG_WEIGHTS_PEEPHOLE, m.peephole},
           {DNNL_ARG_WEIGHTS_PROJECTION, m.projection},
           {DNNL_ARG_BIAS, m.bias},
           {DNNL_ARG_DST_LAYER, m.y},
           {DNNL_ARG_DST_ITER, m.last_h},
           {DNNL_ARG_DST_ITER_C, m.last_c},
       }) {
    if (held) given.insert({argument, held});
  }
  made(runner, p, m).execute(runner.queue, given);
  runner.queue.wait();
  write(m.y);
  write(m.last_h);
  if (m.last_c) write(m.last_c);
}

}  // namespace

int main() {
  Problem problem;
  if (std::fread(&problem, sizeof problem, 1, stdin) != 1) {
    return 1;
  }
  try {
    run(problem);
    return 0;
  } catch (const error& refused) {
    std::fprintf(stderr, "oneDNN refuses: %s\n", refused.what());
    return 2;
  }
}
