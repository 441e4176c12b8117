// One recurrent primitive of oneDNN 3, made once and run again and again: what `rnnbridge bench` measures as "onednn".
// Built by `make bench` against the packages onednn-cpu-gomp and onednn-devel-cpu-gomp. Knows nothing of rnnbridge.
//
// All memories are the caller's float32 arrays: sequences tnc, states ldnc, weights and their gradients ldigo, biases
// and their gradients ldgo. As oneDNN advises, weights go to the layout that the primitive likes best: once for
// inference, and in every call of training, with the gradients back.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dnnl.hpp"

using namespace dnnl;
using tag = memory::format_tag;

namespace {

enum Cell { kRnn, kLstm, kGru, kLbrGru };
enum Mode { kInference, kForward, kTraining };

struct Sizes {
  int32_t cell, mode, layers, directions, T, N, I, H;
};

struct Arrays {
  float *x, *y, *h, *c, *layer, *iter, *bias;
  float *dx, *dy, *dlayer, *diter, *dbias;
};

thread_local std::string failure;

// A memory of the caller's, and the one in the primitive's own layout, which may be the same.
struct Pair {
  memory plain, own;
};

class Run {
 public:
  Run(const Sizes& sizes, const Arrays& arrays) : s_(sizes), a_(arrays) {
    const memory::dim gates = s_.cell == kLstm ? 4 : s_.cell == kRnn ? 1 : 3;
    const memory::dim L = s_.layers, D = s_.directions, T = s_.T, N = s_.N, I = s_.I, H = s_.H;
    x_ = desc({T, N, I}, tag::tnc);
    y_ = desc({T, N, D * H}, tag::tnc);
    h_ = desc({L, D, N, H}, tag::ldnc);
    if (s_.cell == kLstm) c_ = h_;
    layer_shape_ = {L, D, I, gates, H};
    iter_shape_ = {L, D, H, gates, H};
    bias_ = desc({L, D, gates + (s_.cell == kLbrGru), H}, tag::ldgo);
    const memory::desc layer = desc(layer_shape_, tag::any), iter = desc(iter_shape_, tag::any);
    switch (s_.cell) {
      case kLstm: {
        const auto forward = lstm_forward::primitive_desc(cpu_, kind(), direction(), x_, h_, c_, layer, iter,
                                                          bias_, y_, h_, c_);
        make_forward<lstm_forward>(forward);
        if (s_.mode == kTraining)
          make_backward<lstm_backward>(lstm_backward::primitive_desc(
              cpu_, prop_kind::backward, direction(), x_, h_, c_, layer, iter, bias_, y_, h_, c_, x_, h_, c_,
              layer, iter, bias_, y_, h_, c_, forward));
        break;
      }
      case kGru: {
        const auto forward =
            gru_forward::primitive_desc(cpu_, kind(), direction(), x_, h_, layer, iter, bias_, y_, h_);
        make_forward<gru_forward>(forward);
        if (s_.mode == kTraining)
          make_backward<gru_backward>(gru_backward::primitive_desc(cpu_, prop_kind::backward, direction(), x_,
                                                                   h_, layer, iter, bias_, y_, h_, x_, h_,
                                                                   layer, iter, bias_, y_, h_, forward));
        break;
      }
      case kLbrGru: {
        const auto forward =
            lbr_gru_forward::primitive_desc(cpu_, kind(), direction(), x_, h_, layer, iter, bias_, y_, h_);
        make_forward<lbr_gru_forward>(forward);
        if (s_.mode == kTraining)
          make_backward<lbr_gru_backward>(
              lbr_gru_backward::primitive_desc(cpu_, prop_kind::backward, direction(), x_, h_, layer, iter,
                                               bias_, y_, h_, x_, h_, layer, iter, bias_, y_, h_, forward));
        break;
      }
      default: {
        const auto tanh = algorithm::eltwise_tanh;
        const auto forward = vanilla_rnn_forward::primitive_desc(cpu_, kind(), tanh, direction(), x_, h_,
                                                                 layer, iter, bias_, y_, h_);
        make_forward<vanilla_rnn_forward>(forward);
        if (s_.mode == kTraining)
          make_backward<vanilla_rnn_backward>(vanilla_rnn_backward::primitive_desc(
              cpu_, prop_kind::backward, tanh, direction(), x_, h_, layer, iter, bias_, y_, h_, x_, h_, layer,
              iter, bias_, y_, h_, forward));
      }
    }
    if (s_.mode == kInference) copy_weights();
  }

  void call() {
    if (s_.mode != kInference) copy_weights();
    forward_.execute(queue_, given_);
    if (s_.mode == kTraining) backward();
    queue_.wait();
  }

 private:
  template <class Primitive, class Desc>
  void make_forward(const Desc& made) {
    forward_ = Primitive(made);
    layer_ = pair(layer_shape_, a_.layer, made.weights_layer_desc());
    iter_ = pair(iter_shape_, a_.iter, made.weights_iter_desc());
    // Initial states are given, of zeros: without them oneDNN 3.2 gets the gradient of the
    // recurrent weights of an LSTM or RNN of one direction wrong.
    zeros_.assign(h_.get_size() / sizeof(float), 0.0f);
    given_ = {{DNNL_ARG_SRC_LAYER, over(x_, a_.x)},  {DNNL_ARG_SRC_ITER, over(h_, zeros_.data())},
              {DNNL_ARG_WEIGHTS_LAYER, layer_.own},  {DNNL_ARG_WEIGHTS_ITER, iter_.own},
              {DNNL_ARG_BIAS, over(bias_, a_.bias)}, {DNNL_ARG_DST_LAYER, over(y_, a_.y)},
              {DNNL_ARG_DST_ITER, over(h_, a_.h)}};
    if (s_.cell == kLstm)
      given_.insert({{DNNL_ARG_SRC_ITER_C, over(c_, zeros_.data())}, {DNNL_ARG_DST_ITER_C, over(c_, a_.c)}});
    if (s_.mode != kInference) given_.insert({DNNL_ARG_WORKSPACE, memory(made.workspace_desc(), cpu_)});
  }

  template <class Primitive, class Desc>
  void make_backward(const Desc& made) {
    backward_ = Primitive(made);
    back_layer_ = pair(layer_shape_, a_.layer, made.weights_layer_desc());
    back_iter_ = pair(iter_shape_, a_.iter, made.weights_iter_desc());
    dlayer_ = pair(layer_shape_, a_.dlayer, made.diff_weights_layer_desc());
    diter_ = pair(iter_shape_, a_.diter, made.diff_weights_iter_desc());
    dbias_ = over(bias_, a_.dbias);
    // The primitive needs the gradients of all that the forward took and gave; those of the final states are zeros.
    dh_.resize(zeros_.size());
    dc_.resize(zeros_.size());
    back_ = given_;
    back_[DNNL_ARG_WEIGHTS_LAYER] = back_layer_.own;
    back_[DNNL_ARG_WEIGHTS_ITER] = back_iter_.own;
    back_.insert({{DNNL_ARG_DIFF_SRC_LAYER, over(x_, a_.dx)},
                  {DNNL_ARG_DIFF_WEIGHTS_LAYER, dlayer_.own},
                  {DNNL_ARG_DIFF_WEIGHTS_ITER, diter_.own},
                  {DNNL_ARG_DIFF_BIAS, dbias_},
                  {DNNL_ARG_DIFF_DST_LAYER, over(y_, a_.dy)},
                  {DNNL_ARG_DIFF_SRC_ITER, over(h_, dh_.data())},
                  {DNNL_ARG_DIFF_DST_ITER, over(h_, zeros_.data())}});
    if (s_.cell == kLstm)
      back_.insert({{DNNL_ARG_DIFF_SRC_ITER_C, over(c_, dc_.data())},
                    {DNNL_ARG_DIFF_DST_ITER_C, over(c_, zeros_.data())}});
  }

  // oneDNN adds to the gradients of weights, so they begin at zero.
  void backward() {
    move(back_layer_.plain, back_layer_.own);
    move(back_iter_.plain, back_iter_.own);
    for (const memory& one : {dlayer_.own, diter_.own, dbias_})
      std::fill_n(static_cast<char*>(one.get_data_handle()), one.get_desc().get_size(), 0);
    backward_.execute(queue_, back_);
    move(dlayer_.own, dlayer_.plain);
    move(diter_.own, diter_.plain);
  }

  void copy_weights() {
    move(layer_.plain, layer_.own);
    move(iter_.plain, iter_.own);
    queue_.wait();
  }

  void move(memory& from, memory& to) {
    if (from.get_data_handle() != to.get_data_handle()) reorder(from, to).execute(queue_, from, to);
  }

  Pair pair(const memory::dims& shape, float* data, const memory::desc& own) {
    const memory plain = over(desc(shape, tag::ldigo), data);
    return {plain, own == plain.get_desc() ? plain : memory(own, cpu_)};
  }

  memory::desc desc(const memory::dims& shape, tag layout) const {
    return {shape, memory::data_type::f32, layout};
  }
  memory over(const memory::desc& d, float* data) const { return memory(d, cpu_, data); }
  prop_kind kind() const {
    return s_.mode == kInference ? prop_kind::forward_inference : prop_kind::forward_training;
  }
  rnn_direction direction() const {
    return s_.directions == 2 ? rnn_direction::bidirectional_concat
                              : rnn_direction::unidirectional_left2right;
  }

  const Sizes s_;
  const Arrays a_;
  engine cpu_{engine::kind::cpu, 0};
  stream queue_{cpu_};
  memory::desc x_, y_, h_, c_, bias_;
  memory::dims layer_shape_, iter_shape_;
  primitive forward_, backward_;
  Pair layer_, iter_, back_layer_, back_iter_, dlayer_, diter_;
  memory dbias_;
  std::vector<float> zeros_, dh_, dc_;
  std::unordered_map<int, memory> given_, back_;
};

}  // namespace

// NULL, and a message, where oneDNN refuses.
extern "C" void* peer_prepare(const Sizes* sizes, const Arrays* arrays) {
  try {
    return new Run(*sizes, *arrays);
  } catch (const std::exception& e) {
    failure = e.what();
    return nullptr;
  }
}

extern "C" int peer_call(void* run) {
  try {
    static_cast<Run*>(run)->call();
    return 0;
  } catch (const std::exception& e) {
    failure = e.what();
    return 1;
  }
}

extern "C" void peer_release(void* run) { delete static_cast<Run*>(run); }

extern "C" const char* peer_failure() { return failure.c_str(); }

extern "C" const char* peer_version() {
  static const dnnl_version_t* v = dnnl_version();
  static const std::string text =
      std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  return text.c_str();
}
