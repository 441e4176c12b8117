#include "tape.h"

#include <cstring>

#include "error.h"

namespace rnb {
namespace {

constexpr uint64_t kMagic = 0x31657061742d626e;  // "nb-tape1"

// FNV-1a over everything that decides what a tape means.
class Hash {
 public:
  template <class Value>
  void add(Value value) {
    unsigned char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    for (unsigned char byte : bytes) state_ = (state_ ^ byte) * 0x100000001b3;
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325;
};

uint64_t shape_of(const rnb_plan& p) {
  const Spec& s = p.spec;
  Hash hash;
  for (int64_t value : {int64_t(s.cell), int64_t(s.reset), int64_t(s.dtype), int64_t(s.direction),
                        int64_t(s.bias), int64_t(s.merge), int64_t(s.output_order), s.num_layers,
                        s.input_size, s.hidden_size, p.T, p.N, int64_t(p.recompute)})
    hash.add(value);
  for (int i = 0; i < s.num_activations(); ++i) {
    hash.add(s.activations[i].code);
    hash.add(s.activations[i].alpha);
    hash.add(s.activations[i].beta);
  }
  return hash.value();
}

}  // namespace

TapeHeader make_header(const rnb_plan& plan, uint64_t weights_generation, const Dropout& dropout) {
  return {kMagic, shape_of(plan), weights_generation, dropout};
}

void check_header(const rnb_plan& plan, uint64_t weights_generation, const TapeHeader& h) {
  require(h.magic == kMagic, "tape holds no tape; pass the one that a training forward filled");
  require(h.shape == shape_of(plan),
          "tape was filled by a plan of another spec, T, N or flags; pass the tape of this plan's forward");
  require(h.weights_generation == weights_generation, "tape was filled with weights of generation ",
          h.weights_generation, ", weights_generation is ", weights_generation,
          "; the weights were replaced, run the forward again");
}

}  // namespace rnb
