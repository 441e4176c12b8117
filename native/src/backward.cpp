#include "backward.h"

#include "backward_steps.h"
#include "denormals.h"
#include "pool.h"
#include "share.h"
#include "weight_sums.h"

namespace rnb {
namespace {

// Places that threads do not divide: a cache line of a transposed row.
constexpr int64_t kGrain = 16;

template <class T>
class Backward {
 public:
  Backward(const rnb_plan& plan, const rnb_backward_args& args)
      : plan_(plan), spec_(plan.spec), args_(args), call_(plan, args) {}

  void run() {
    call_.read_lengths();
    const Wish wished = wish(plan_, args_.num_threads);
    run_team(wished.threads, [&](const Team& team) { run_member(team, wished.fewest_rows); });
  }

 private:
  // One thread's part: the steps of its rows, in the directions that are its own, then its units of the
  // weights and its places of dx, in all directions.
  void run_member(const Team& team, int64_t fewest_rows) const {
    const FlushDenormals flush;
    const Sharing sharing = share(plan_, team.size, fewest_rows);
    const bool works = team.index < sharing.threads();
    const Group group = Group::contiguous(call_.rows, plan_.N, sharing.groups,
                                          team.index / sharing.directions % sharing.groups);
    const auto each_own = [&](const auto& body) {
      for (int64_t d = 0; works && d < spec_.directions(); ++d)
        if (sharing.directions == 1 || d == team.index % 2) body(d);
    };
    clear_padding(team);
    const int64_t lowest = call_.lowest_layer();
    for (int64_t top = spec_.num_layers - 1; top >= lowest; top -= plan_.block_layers) {
      const int64_t bottom = std::max(lowest, top + 1 - plan_.block_layers);
      for (int64_t layer = bottom; layer <= top; ++layer) {
        each_own([&](int64_t d) { BackwardSteps<T>(call_, group, layer, d).load(); });
        sum_each(layer, [&](const WeightSums<T>& sums) { sums.clear(units(team)); });
      }
      for (int64_t i = call_.stretches() - 1; i >= 0; --i) {
        const Stretch stretch = call_.stretch(i);
        for (int64_t layer = top + 1 - plan_.block_layers; layer <= top; ++layer)
          each_own([&](int64_t d) { BackwardSteps<T>(call_, group, layer, d).recompute(stretch); });
        for (int64_t layer = top; layer >= bottom; --layer) {
          each_own([&](int64_t d) { BackwardSteps<T>(call_, group, layer, d).run(stretch); });
          team.wait();
          add_stretch(team, layer, stretch, layer > lowest || layer == 0);
        }
      }
      for (int64_t layer = bottom; layer <= top; ++layer) {
        each_own([&](int64_t d) { BackwardSteps<T>(call_, group, layer, d).store(); });
        sum_each(layer, [&](const WeightSums<T>& sums) { sums.store(units(team)); });
      }
      team.wait();  // the next block lays out its sums in the same memory
    }
  }

  void add_stretch(const Team& team, int64_t layer, const Stretch& stretch, bool passes_on) const {
    const Share places(call_.places(stretch), kGrain, team.index, team.size);
    sum_each(layer, [&](const WeightSums<T>& sums) { sums.transpose(stretch, places); });
    team.wait();
    sum_each(layer, [&](const WeightSums<T>& sums) { sums.add(stretch, units(team)); });
    for (int64_t d = 0; d < spec_.directions(); ++d) {
      if (passes_on) WeightSums<T>(call_, layer, d).add_input_gradient(stretch, places);
      // The next direction adds to what this one wrote; the next stretch overwrites what was read.
      team.wait();
    }
  }

  template <class Body>
  void sum_each(int64_t layer, const Body& body) const {
    for (int64_t d = 0; d < spec_.directions(); ++d) body(WeightSums<T>(call_, layer, d));
  }

  Share units(const Team& team) const { return Share(spec_.units(), 1, team.index, team.size); }

  void clear_padding(const Team& team) const {
    const Sequence<T> dx = call_.input_gradient(0);
    if (!dx.data || call_.equal_lengths || (args_.accumulate & RNB_ACCUMULATE_INPUTS)) return;
    const Share mine(plan_.N, 1, team.index, team.size);
    for (int64_t r = mine.first; r < mine.last; ++r)
      for (int64_t t = call_.rows[r].length; t < plan_.T; ++t)
        std::fill_n(dx.at(t, call_.rows[r].index), spec_.input_size, T(0));
  }

  const rnb_plan& plan_;
  const Spec& spec_;
  const rnb_backward_args& args_;
  BackwardCall<T> call_;
};

template <class T>
void clear_weights(const rnb_plan& plan, const rnb_backward_args& args) {
  const Spec& s = plan.spec;
  if (!args.dweights || (args.accumulate & RNB_ACCUMULATE_WEIGHTS)) return;
  const int each = s.arrays_per_direction();
  for (size_t i = 0; i < args.dweights_count; ++i) {
    const int which = int(i) % each;
    const int64_t layer = int64_t(i) / each / s.directions();
    const int64_t columns = which == 0 ? s.layer_input_size(layer) : which == 1 ? s.hidden_size : 1;
    if (args.dweights[i])
      std::fill_n(static_cast<T*>(args.dweights[i]), s.gates() * s.hidden_size * columns, T(0));
  }
}

template <class T>
void backward_typed(const rnb_plan& plan, const rnb_backward_args& args) {
  if (plan.N == 0) return clear_weights<T>(plan, args);
  check_header(plan, args.weights_generation, *static_cast<const TapeHeader*>(args.tape));
  Backward<T>(plan, args).run();
}

}  // namespace

void backward(const rnb_plan& plan, const rnb_backward_args& args) {
  if (plan.spec.dtype == RNB_DTYPE_FLOAT32)
    backward_typed<float>(plan, args);
  else
    backward_typed<double>(plan, args);
}

}  // namespace rnb
