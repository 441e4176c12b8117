// Runs one recurrent primitive of oneDNN 3 on a CPU: reads what it is given from the standard input, writes what it
// answers to the standard output. Knows nothing of rnnbridge.
//
// Given, in this order: eleven 32-bit integers, see Problem; then float32 arrays, each dense in its logical order:
// x [T, N, I], h [L, D, N, S], c [L, D, N, H] (LSTM), weights_layer and weights_iter in the layout that `tag` says,
// bias ldgo, weights_peephole ldgo, weights_projection in ldio or ldoi. Answered: y [T, N, .], h, c.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "dnnl.hpp"

using namespace dnnl;
using tag = memory::format_tag;

namespace {

enum Cell { kTanh, kRelu, kLogistic, kLstm, kGru, kLbrGru };

struct Problem {
    int32_t cell, direction, goi, layers, steps, batch, inputs, hidden, projection, peephole, unused;
};

// Owns an engine and a stream for all memories.
struct Runner {
    engine cpu{engine::kind::cpu, 0};
    stream queue{cpu};

    memory read(const memory::dims &shape, tag layout) {
        memory held({shape, memory::data_type::f32, layout}, cpu);
        const size_t bytes = held.get_desc().get_size();
        if (std::fread(held.get_data_handle(), 1, bytes, stdin) != bytes) {
            std::fprintf(stderr, "the input is too short\n");
            std::exit(1);
        }
        return held;
    }

    memory empty(const memory::dims &shape, tag layout) {
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

void write(const memory &answer) {
    std::fwrite(answer.get_data_handle(), 1, answer.get_desc().get_size(), stdout);
}

const rnn_direction kDirections[] = {
    rnn_direction::unidirectional_left2right,
    rnn_direction::unidirectional_right2left,
    rnn_direction::bidirectional_concat,
    rnn_direction::bidirectional_sum,
};

int run(const Problem &p) {
    Runner runner;
    const int directions = p.direction < 2 ? 1 : 2;
    const int gates = p.cell == kLstm ? 4 : p.cell >= kGru ? 3 : 1;
    const int state = p.projection ? p.projection : p.hidden;
    const int outputs = p.direction == 2 ? 2 * state : state;
    const tag weights = p.goi ? tag::ldgoi : tag::ldigo;

    memory x = runner.read({p.steps, p.batch, p.inputs}, tag::tnc);
    memory h = runner.read({p.layers, directions, p.batch, state}, tag::ldnc);
    memory c = p.cell == kLstm ? runner.read({p.layers, directions, p.batch, p.hidden}, tag::ldnc) : memory();
    memory layer = runner.read({p.layers, directions, p.inputs, gates, p.hidden}, weights);
    memory iter = runner.read({p.layers, directions, state, gates, p.hidden}, weights);
    memory bias = runner.read({p.layers, directions, gates + (p.cell == kLbrGru), p.hidden}, tag::ldgo);
    memory peephole, projection;
    if (p.peephole) {
        peephole = runner.read({p.layers, directions, 3, p.hidden}, tag::ldgo);
    }
    if (p.projection) {
        projection = runner.read({p.layers, directions, p.hidden, state}, p.goi ? tag::ldoi : tag::ldio);
        projection = runner.reordered(projection, tag::ldio);
    }
    layer = runner.reordered(layer, tag::ldigo);
    iter = runner.reordered(iter, tag::ldigo);

    memory y = runner.empty({p.steps, p.batch, outputs}, tag::tnc);
    memory last_h = runner.empty({p.layers, directions, p.batch, state}, tag::ldnc);
    memory last_c = p.cell == kLstm ? runner.empty({p.layers, directions, p.batch, p.hidden}, tag::ldnc) : memory();

    const auto kind = prop_kind::forward_inference;
    const auto direction = kDirections[p.direction];
    const auto xd = x.get_desc(), hd = h.get_desc(), ld = layer.get_desc(), id = iter.get_desc();
    const auto bd = bias.get_desc(), yd = y.get_desc(), last = last_h.get_desc();
    std::unordered_map<int, memory> given = {
        {DNNL_ARG_SRC_LAYER, x}, {DNNL_ARG_SRC_ITER, h}, {DNNL_ARG_WEIGHTS_LAYER, layer},
        {DNNL_ARG_WEIGHTS_ITER, iter}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST_LAYER, y}, {DNNL_ARG_DST_ITER, last_h},
    };
    if (p.cell == kLstm) {
        const auto none = memory::desc();
        lstm_forward::primitive_desc made(runner.cpu, kind, direction, xd, hd, c.get_desc(), ld, id,
            p.peephole ? peephole.get_desc() : none, p.projection ? projection.get_desc() : none, bd, yd, last,
            last_c.get_desc());
        given.insert({{DNNL_ARG_SRC_ITER_C, c}, {DNNL_ARG_DST_ITER_C, last_c}});
        if (p.peephole) {
            given.insert({DNNL_ARG_WEIGHTS_PEEPHOLE, peephole});
        }
        if (p.projection) {
            given.insert({DNNL_ARG_WEIGHTS_PROJECTION, projection});
        }
        lstm_forward(made).execute(runner.queue, given);
    } else if (p.cell == kGru) {
        gru_forward::primitive_desc made(runner.cpu, kind, direction, xd, hd, ld, id, bd, yd, last);
        gru_forward(made).execute(runner.queue, given);
    } else if (p.cell == kLbrGru) {
        lbr_gru_forward::primitive_desc made(runner.cpu, kind, direction, xd, hd, ld, id, bd, yd, last);
        lbr_gru_forward(made).execute(runner.queue, given);
    } else {
        const algorithm activations[] = {
            algorithm::eltwise_tanh, algorithm::eltwise_relu, algorithm::eltwise_logistic};
        vanilla_rnn_forward::primitive_desc made(
            runner.cpu, kind, activations[p.cell], direction, xd, hd, ld, id, bd, yd, last);
        vanilla_rnn_forward(made).execute(runner.queue, given);
    }
    runner.queue.wait();
    write(y);
    write(last_h);
    if (p.cell == kLstm) {
        write(last_c);
    }
    return 0;
}

}  // namespace

int main() {
    Problem problem;
    if (std::fread(&problem, sizeof problem, 1, stdin) != 1) {
        return 1;
    }
    try {
        return run(problem);
    } catch (const error &refused) {
        std::fprintf(stderr, "oneDNN refuses: %s\n", refused.what());
        return 2;
    }
}
