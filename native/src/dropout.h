// Dropout masks from counters: Philox4x32-10 (Salmon et al., SC 2011), so that any part of a mask can be made
// anywhere, again, and in any order. rnnbridge.h says how a feature finds its random word.
#pragma once

#include <stdint.h>

namespace rnb {

// The first word of the counter is feature / 4 in its low 24 bits and the layer in its high 8.
constexpr int64_t kDropoutFeatures = int64_t(1) << 26, kDropoutLayers = 257;

struct Philox {
  uint32_t word[4];
};

inline Philox philox(Philox counter, uint64_t key) {
  uint32_t* c = counter.word;
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = uint32_t(b >> 32) ^ c1 ^ k0;
    c[1] = uint32_t(b);
    c[2] = uint32_t(a >> 32) ^ c3 ^ k1;
    c[3] = uint32_t(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

struct Dropout {
  double p;
  uint64_t seed;
  uint32_t offset;
  uint32_t sample_offset;

  bool active() const { return p > 0; }

  // out = x times the mask of layer `layer`'s output, sample n at time t. out may be x.
  template <class T>
  void apply(int64_t layer, int64_t n, int64_t t, const T* x, int64_t features, T* out) const {
    const T scale = p < 1 ? T(1 / (1 - p)) : T(0);
    for (int64_t j = 0; j < features; j += 4) {
      const Philox words = philox(
          {{uint32_t(j / 4) + (uint32_t(layer) << 24), uint32_t(n) + sample_offset, uint32_t(t), offset}},
          seed);
      for (int64_t i = j; i < features && i < j + 4; ++i)
        out[i] = x[i] * (double(words.word[i - j] >> 8) * 0x1p-24 >= p ? scale : T(0));
    }
  }
};

}  // namespace rnb
