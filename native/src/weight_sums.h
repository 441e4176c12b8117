// The sums over time and batch, and the products that give dx: of one layer and direction, a stretch at a time.
// Every sum runs over the stretch's places in order, whoever makes it: threads share its elements, never its
// terms.
#pragma once

#include "backward_call.h"
#include "pack.h"

namespace rnb {

// A contiguous share of [0, count), in pieces of `grain`.
struct Share {
  Share(int64_t count, int64_t grain, int index, int size) {
    const int64_t pieces = (count + grain - 1) / grain;
    first = std::min(count, pieces * index / size * grain);
    last = std::min(count, pieces * (index + 1) / size * grain);
  }
  int64_t first, last;
};

template <class T>
class WeightSums {
 public:
  WeightSums(const BackwardCall<T>& call, int64_t layer, int64_t d)
      : call_(call),
        spec_(call.spec),
        layer_(layer),
        d_(d),
        of_(call.layout.of[d]),
        input_size_(spec_.layer_input_size(layer)),
        weight_ih_(call.weight_gradient(layer, d, 0)),
        weight_hh_(call.weight_gradient(layer, d, 1)),
        bias_ih_(call.weight_gradient(layer, d, 2)),
        bias_hh_(call.weight_gradient(layer, d, 3)) {}

  // Units [first, last) of every gate start from zero.
  void clear(const Share& units) const {
    std::fill(sum_ih(units.first, 0), sum_ih(units.last, 0), T(0));
    std::fill(sum_hh(units.first, 0), sum_hh(units.last, 0), T(0));
  }

  // Makes columns of places [first, last) of the stretch's inputs and states, each feature in a row of its own.
  void transpose(const Stretch& stretch, const Share& places) const {
    const T* rows[kInputRows];
    for (int64_t first = places.first; first < places.last; first += kInputRows) {
      const int64_t last = std::min(places.last, first + kInputRows);
      const auto to = [&](int64_t size, int64_t matrix) {
        T* out = call_.at(matrix) + first;
        call_.kernels.transpose({rows, last - first, size, out, call_.layout.over});
        return out + size * call_.layout.over;
      };
      if (weight_ih_) {
        const Inputs<T> inputs = call_.inputs(layer_, d_, stretch, first);
        call_.each_place(stretch, first, last, [&](int64_t place, int64_t s, const Row& row) {
          rows[place - first] = inputs.row(s, time_of(spec_, d_, s, row.length), row.index, place - first);
        });
        to(input_size_, of_.input);
      }
      if (weight_hh_) {
        call_.each_place(stretch, first, last, [&](int64_t place, int64_t s, const Row& row) {
          rows[place - first] = call_.h_row(layer_, d_, stretch, s - 1, row);
        });
        to(spec_.hidden_size, of_.hidden);
        if (resets_before()) {
          for (int64_t place = first; place < last; ++place)
            rows[place - first] = call_.at(of_.reset_rows) + place * call_.hidden;
          to(spec_.hidden_size, of_.reset_h);
        }
      }
      // Times ones, the gradients give those of the biases.
      std::fill_n(ones(of_.input, input_size_) + first, last - first, T(1));
      std::fill_n(ones(of_.hidden, spec_.hidden_size) + first, last - first, T(1));
    }
  }

  void add(const Stretch& stretch, const Share& units) const {
    const int64_t count = call_.places(stretch);
    const bool biases = bias_ih_ || bias_hh_, apart = spec_.reset == RNB_RESET_AFTER;
    for (int64_t u = units.first; u < units.last; ++u) {
      add(count, u, of_.input, input_size_, weight_ih_, apart ? bias_ih_ != nullptr : biases, 0,
          spec_.gates(), sum_ih(u, 0));
      const bool bias = apart && bias_hh_;
      if (resets_before()) {
        add(count, u, of_.reset_h, spec_.hidden_size, weight_hh_, false, 0, 1, sum_hh(u, 0));
        add(count, u, of_.hidden, spec_.hidden_size, weight_hh_, false, 1, 2, sum_hh(u, 0) + kPanel<T>);
      } else {
        add(count, u, of_.hidden, spec_.hidden_size, weight_hh_, bias, spec_.slots() - spec_.gates(),
            spec_.gates(), sum_hh(u, 0));
      }
    }
  }

  // dx of places [first, last), through the scratch, whose rows have room for whole panels.
  void add_input_gradient(const Stretch& stretch, const Share& places) const {
    const bool stays = layer_ > 0 && call_.passes_gradients_on();
    const Sequence<T> dx = stays ? Sequence<T>{} : call_.input_gradient(layer_);
    if ((!stays && !dx.data) || places.first == places.last) return;
    const int64_t stride = call_.layout.scratch_stride, depth = spec_.gates() * call_.hidden;
    T* scratch = call_.at(of_.scratch);
    std::fill(scratch + places.first * stride, scratch + places.last * stride, T(0));
    ProductArgs<T> p;
    p.a = call_.at(of_.gradients) + places.first * call_.layout.gradient_stride;
    p.a_stride = call_.layout.gradient_stride;
    p.rows = places.last - places.first;
    p.k = depth;
    p.b = call_.packed() + packed_transposed(spec_, layer_, d_).weight_ih;
    p.b_stride = depth * kPanel<T>;
    p.c = scratch + places.first * stride;
    p.c_stride = kPanel<T>;
    p.row_stride = stride;
    p.panels = spec_.padded(input_size_) / kPanel<T>;
    call_.kernels.product(p);
    call_.each_place(stretch, places.first, places.last, [&](int64_t place, int64_t s, const Row& row) {
      const int64_t t = time_of(spec_, d_, s, row.length);
      T* from = scratch + place * stride;
      if (layer_ > 0 && call_.dropout.active())
        call_.dropout.apply(layer_ - 1, row.index, t, from, input_size_, from);
      if (stays) return;
      T* to = dx.at(t, row.index);
      if (writes_first(s, row.length))
        std::copy_n(from, input_size_, to);
      else
        for (int64_t i = 0; i < input_size_; ++i) to[i] += from[i];
    });
  }

  // The sums of units [first, last), to the caller.
  void store(const Share& units) const {
    const std::string_view order = input_panels(spec_.cell);
    const std::string_view hidden_order = resets_before() ? order : hidden_panels(spec_.cell);
    for (int64_t u = units.first; u < units.last; ++u) {
      for (int slot = 0; slot < spec_.gates(); ++slot) {
        const T* ih = sum_ih(u, 0) + slot * kPanel<T>;
        const T* hh = sum_hh(u, 0) + slot * kPanel<T>;
        const int64_t unit = u * kPanel<T>, valid = std::min(kPanel<T>, spec_.hidden_size - unit);
        const int64_t row = first_row(spec_, order[slot]) + unit;
        const int64_t hidden_row = first_row(spec_, hidden_order[slot]) + unit;
        store_matrix(weight_ih_, row, valid, input_size_, ih);
        store_matrix(weight_hh_, hidden_row, valid, spec_.hidden_size, hh);
        const T* bias = ih + input_size_ * sum_stride();
        store_matrix(bias_ih_, row, valid, 1, bias);
        if (spec_.reset == RNB_RESET_AFTER)
          store_matrix(bias_hh_, hidden_row, valid, 1, hh + spec_.hidden_size * sum_stride());
        else
          store_matrix(bias_hh_, row, valid, 1, bias);
      }
    }
  }

 private:
  bool resets_before() const { return spec_.reset == RNB_RESET_BEFORE; }
  int64_t sum_stride() const { return spec_.gates() * kPanel<T>; }
  T* sum_ih(int64_t u, int64_t row) const {
    return call_.of_layer(layer_, d_, &BackwardLayout::Layer::sum_ih) +
           (u * (input_size_ + 1) + row) * sum_stride();
  }
  T* sum_hh(int64_t u, int64_t row) const {
    return call_.of_layer(layer_, d_, &BackwardLayout::Layer::sum_hh) +
           (u * (spec_.hidden_size + 1) + row) * sum_stride();
  }
  T* ones(int64_t matrix, int64_t size) const { return call_.at(matrix) + size * call_.layout.over; }

  // sum [size + 1][gate][j] += matrix [size + 1][places] times the panels of unit block u from `slot` on;
  // only the rows that are wanted, of which the last gives the bias.
  void add(int64_t count, int64_t u, int64_t matrix, int64_t size, bool weight, bool bias, int64_t slot,
           int64_t slots, T* sum) const {
    const int64_t first = weight ? 0 : size, last = bias ? size + 1 : size;
    if (first == last || count == 0) return;
    const int64_t panel_stride = call_.plan.stretch_steps * call_.plan.N * kPanel<T>;
    ProductArgs<T> p;
    p.a = call_.at(matrix) + first * call_.layout.over;
    p.a_stride = call_.layout.over;
    p.rows = last - first;
    p.k = count;
    p.b = call_.at(of_.panels) + (u * spec_.slots() + slot) * panel_stride;
    p.b_stride = panel_stride;
    p.c = sum + first * sum_stride();
    p.c_stride = kPanel<T>;
    p.row_stride = sum_stride();
    p.panels = slots;
    call_.kernels.product(p);
  }

  // Two directions meet in one dx: whichever stretch comes first, from the last one back, writes.
  bool writes_first(int64_t s, int64_t length) const {
    if (layer_ == 0 && (call_.args.accumulate & RNB_ACCUMULATE_INPUTS)) return false;
    if (spec_.directions() == 1) return true;
    const int64_t own = s / call_.plan.stretch_steps, other = (length - 1 - s) / call_.plan.stretch_steps;
    return d_ == 0 ? own >= other : own > other;
  }

  // to [row + j][i] = from[i][j]
  void store_matrix(T* to, int64_t row, int64_t valid, int64_t size, const T* from) const {
    if (!to) return;
    const bool add = call_.args.accumulate & RNB_ACCUMULATE_WEIGHTS;
    for (int64_t j = 0; j < valid; ++j) {
      T* out = to + (row + j) * size;
      for (int64_t i = 0; i < size; ++i) {
        const T value = from[i * sum_stride() + j];
        out[i] = add ? out[i] + value : value;
      }
    }
  }

  const BackwardCall<T>& call_;
  const Spec& spec_;
  const int64_t layer_, d_;
  const BackwardLayout::Direction& of_;
  const int64_t input_size_;
  T *const weight_ih_, *const weight_hh_, *const bias_ih_, *const bias_hh_;
};

}  // namespace rnb
