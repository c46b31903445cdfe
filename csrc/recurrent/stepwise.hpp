// A layer a step a call, in training: where a step reads what came of the step before, outside of the layer.
//
// Weights are packed once for all steps, forwards and back, and their gradients are large products over all steps at the end,
// as when the layer runs by itself.
#pragma once

#include <memory>
#include <stdexcept>

#include "recurrent/backward.hpp"

namespace carousel {

// The calls of `layer`, which has T steps of B sequences, the longest first, in one direction. Rows of x (T, B, I) and
// d_output (T, B, P) need be there when their step is called, and only those of sequences that have the step.
template <class T>
struct Walking {
  Layer<T> layer;

  explicit Walking(const Layer<T>& layer) : layer(layer) {}
  virtual ~Walking() = default;
  virtual void forward(long t) = 0;   // t = 0, 1, …
  virtual void backward(long t) = 0;  // t = T − 1, T − 2, …
  virtual void finish() = 0;          // gradients of weights and of the first state
};

template <class T>
class Walk : public Walking<T> {
 public:
  Walk(const Layer<T>& given, const CellKernel<T>& cell)
      : Walking<T>(given), cell(cell), size(cell.planes, given.hidden), schedule(layer, false), all(schedule.rows(0, 1)) {
    const Direction<T>& d = layer.direction[0];
    if (layer.directions != 1 || layer.reset || d.mask || d.zone_h || d.zone_c || layer.zone_h != 0 || layer.zone_c != 0)
      throw std::invalid_argument("walk: one direction, without resets and noise");
    for (long b = 0; b < layer.batch; b++)
      if (all[b] != b) throw std::invalid_argument("walk: the longest sequences must come first");
    if (cell.has_c) c.reserve(layer.batch * layer.hidden);
  }

  void forward(long t) override {
    Layer<T> now = layer;
    Direction<T>& d = now.direction[0];
    const long B = layer.batch, before = (t - 1) * B * layer.projected;
    now.steps = 1, now.batch = schedule.active(all, t), now.lengths = nullptr, now.traced = false;
    if (!now.batch) return;
    now.x += t * B * layer.input, now.output += t * B * layer.projected;
    d.values += t * B * size.value_row;
    d.h_n = now.output, d.panels = &panels;
    if (cell.has_c) d.cells += t * B * size.cell_row, d.c_n = c;
    if (t) d.h_0 = layer.output + before, d.c_0 = c;  // which is read before it is written
    carousel::forward<T>(now, cell);
  }

  void backward(long t) override {
    if (!back) {
      back = std::make_unique<Backward<T>>(layer, cell, 0, layer.d_x, Into::store, true);
      lists = std::vector<Returning<T>>(threads_for(layer, cell.gates));
      barrier = std::make_unique<Barrier>(int(lists.size()));
      each([&](Returning<T>& my, const Team& team) { back->begin_steps(my, team); });
    }
    each([&](Returning<T>& my, const Team& team) { back->step_back(my, team, t); });
  }

  void finish() override {
    each([&](Returning<T>& my, const Team& team) { back->end(my, team); });
    back.reset();
  }

 private:
  using Walking<T>::layer;
  const CellKernel<T>& cell;
  const Sizes<T> size;
  const Schedule<T> schedule;
  const std::vector<long> all;
  Panels<T> panels;
  Buffer<T> c;  // (B, H): of the last step
  std::unique_ptr<Backward<T>> back;
  std::unique_ptr<Barrier> barrier;
  std::vector<Returning<T>> lists;  // of each thread, from call to call

  template <class Work>
  void each(const Work& work) {
    const int threads = int(lists.size());
    if (threads == 1) return parallel(1, [&](int, int) { work(lists[0], Team{*barrier, 0, 1}); });
    std::atomic<bool> fewer{false};
    parallel(threads, [&](int rank, int granted) {
      if (granted == threads) work(lists[rank], Team{*barrier, rank, threads});
      else fewer = true;
    });
    if (fewer) throw std::runtime_error("walk: the system has fewer threads than before");
  }
};

}  // namespace carousel
