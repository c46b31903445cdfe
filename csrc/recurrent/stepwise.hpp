// A layer one step per call, in training: for steps whose input depends, outside of the layer, on the step before.
//
// Weights are packed once for all steps, forwards and back, and their gradients are large products over all steps at the
// end, as when the layer runs by itself.
#pragma once

#include <memory>
#include <stdexcept>

#include "recurrent/backward.hpp"

namespace carousel {

template <class T>
class StepwiseLayer : public Stepwise<T> {
 public:
  StepwiseLayer(const Layer<T>& given, const CellKernel<T>& cell)
      : Stepwise<T>(given), cell(cell), size(cell.sizes(given.hidden)), schedule(layer, false), all(schedule.rows(0, 1)) {
    const Direction<T>& d = layer.direction[0];
    bool noise = d.mask != nullptr;
    for (int k = 0; k < cell.states; k++) noise |= d.zone[k] || layer.zone[k] != 0;
    if (layer.directions != 1 || layer.reset || noise)
      throw std::invalid_argument("stepwise: one direction, without resets and noise");
    for (long b = 0; b < layer.batch; b++)
      if (all[b] != b) throw std::invalid_argument("stepwise: the longest sequences must come first");
    for (int k = 1; k < cell.states; k++) last[k].reserve(layer.batch * layer.hidden);
  }

  void forward(long t) override {
    Layer<T> now = layer;
    Direction<T>& d = now.direction[0];
    const long B = layer.batch, before = (t - 1) * B * layer.projected;
    now.steps = 1, now.batch = schedule.active(all, t), now.lengths = nullptr, now.traced = false;
    if (!now.batch) return;
    now.x += t * B * layer.input, now.output += t * B * layer.projected;
    d.values += t * B * size.value_row;
    d.state_n[0] = now.output, d.panels = &panels;
    if (cell.states > 1) d.states += t * B * size.state_row;
    for (int k = 1; k < cell.states; k++) d.state_n[k] = last[k];
    if (t) d.state_0[0] = layer.output + before;
    for (int k = 1; t && k < cell.states; k++) d.state_0[k] = last[k];  // which is read before it is written
    carousel::forward<T>(now, cell);
  }

  void backward(long t) override {
    if (!back) {
      lists = List<BackwardRows<T>>(threads_for(layer, cell.gates));
      back = std::make_unique<Backward<T>>(layer, cell, 0, layer.d_x, Into::store, true);
      each([&](BackwardRows<T>& my, const Team& team) { back->begin_steps(my, team); });
    }
    each([&](BackwardRows<T>& my, const Team& team) { back->step_back(my, team, t); });
  }

  void finish() override {
    if (!back) throw std::logic_error("stepwise: finish comes after the backward steps");
    each([&](BackwardRows<T>& my, const Team& team) { back->end(my, team); });
    back.reset();
  }

 private:
  using Stepwise<T>::layer;
  const CellKernel<T>& cell;
  const Sizes<T> size;
  const Schedule<T> schedule;
  const List<long> all;
  Panels<T> panels;
  Buffer<T> last[max_states];  // (B, H): states 1, 2, … of the last step
  std::unique_ptr<Backward<T>> back;
  List<BackwardRows<T>> lists;  // of each thread, from call to call

  template <class Work>
  void each(const Work& work) {
    const int threads = int(lists.size());
    std::atomic<bool> fewer{false};
    try {
      Region region;
      Barrier barrier(region, threads);
      region.run(threads, [&](int rank, int granted) {
        if (granted == threads) work(lists[rank], Team{barrier, rank, threads});
        else fewer = true;
      });
    } catch (...) {  // a backward that failed begins again, from the last step
      back.reset();
      throw;
    }
    if (fewer) throw std::runtime_error("stepwise: the system has fewer threads than before");
  }
};

}  // namespace carousel
