// A stack of layers whose cell is a program, from tensors to tensors, without gradients: whole sequences, or one step; see
// binding/plan.hpp.
// What does not fit gives None, and Python takes the general way.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include "binding/tensors.hpp"
#include "core/pool.hpp"
#include "program/program.hpp"

namespace carousel {

class ProgramPlan {
 public:
  using Hold = std::tuple<long, long, long, long, long, long, long, double>;

  // Of each layer: its program; the names and shapes of weight_ih, bias_ih (None: absent) and of the program's tensors from the
  // second on, under which a call has them (None: says where or at what a value is held). bits: 32 or 64.
  ProgramPlan(int bits, const nb::list& given) : bits(bits) {
    if (bits != 32 && bits != 64) throw std::invalid_argument("program: floats or doubles");
    for (nb::handle each : given) {
      Layer layer;
      layer.keep = nb::borrow(each[0]);
      layer.program = nb::cast<const StepProgram*>(each[0]);
      for (nb::handle slot : each[1]) layer.slots.push_back(read_slot(slot));
      check(layer);
      layers.push_back(std::move(layer));
    }
    if (layers.empty()) throw std::invalid_argument("program: no layers");
  }

  // x (B, I), state (L, B, S) each or None for zeros → output (B, P) and the new state.
  nb::object step(const nb::dict& own, nb::handle x, nb::handle state, int threads) const {
    return call(own, x, 2, state, threads, nullptr, nullptr);
  }

  // x (T, B, I) → output (T, B, P) and the state after the last step.
  nb::object sequence(const nb::dict& own, nb::handle x, nb::handle state, int threads) const {
    return call(own, x, 3, state, threads, nullptr, nullptr);
  }

  // The same, keeping what the programs save in `saved`, of each layer (T, B, saved_row), and holding values at numbers →
  // the outputs of all layers and the state. Of each that is held: the layer; which of its program's tensors says where, and
  // which at what; first and last step and column; the number.
  nb::object watch(const nb::dict& own, nb::handle x, nb::handle state, int threads, const nb::list& saved, const std::vector<Hold>& holds) const {
    return call(own, x, 3, state, threads, &saved, &holds);
  }

  // Whether `sequence` would run.
  bool fits(const nb::dict& own, nb::handle x, nb::handle state) const {
    View seen;
    if (!reads(x, 3, seen)) return false;
    std::vector<const float*> before, weights;
    if (bits == 32) return read_state(state, seen.shape[1], before) && read_parameters(own, weights);
    std::vector<const double*> before64, weights64;
    return read_state(state, seen.shape[1], before64) && read_parameters(own, weights64);
  }

  static bool is_plain() { return Torch::is_plain(); }

 private:
  bool reads(nb::handle x, int ndim, View& seen) const {
    if (!Torch::is_plain() || !Torch::read(x.ptr(), seen) || seen.bits != bits || seen.ndim != ndim) return false;
    for (int d = 0; d < ndim - 1; d++)
      if (!seen.shape[d]) return false;
    return seen.shape[ndim - 1] == layers[0].slots[0].shape[1];
  }

  struct Slot {
    nb::object name;  // none: absent
    std::vector<long> shape;
  };
  struct Layer {
    nb::object keep;
    const StepProgram* program = nullptr;
    std::vector<Slot> slots;  // weight_ih, bias_ih, the program's tensors from the second on
  };
  const int bits;
  std::vector<Layer> layers;

  static Slot read_slot(nb::handle given) {
    Slot slot;
    if (given.is_none()) return slot;
    slot.name = nb::borrow(given[0]);
    for (nb::handle n : nb::tuple(given[1])) slot.shape.push_back(nb::cast<long>(n));
    return slot;
  }

  // What the shapes say must be what the program reads.
  void check(const Layer& layer) const {
    const StepProgram& p = *layer.program;
    auto require = [](bool holds) {
      if (!holds) throw std::invalid_argument("program: tensors of other shapes than its own");
    };
    require(layer.slots.size() == p.tensors.size() + 1 && p.tensors[0].kind == Kind::step);
    require(layers.empty() || p.states == layers[0].program->states);
    const Slot &weight = layer.slots[0], &bias = layer.slots[1];
    require(weight.name && weight.shape.size() == 2 && weight.shape[0] == p.tensors[0].row && weight.shape[1] > 0);
    require(layers.empty() || weight.shape[1] == p.states[0]);
    require(!bias.name || bias.shape == std::vector<long>{p.tensors[0].row});
    for (std::size_t k = 1; k < p.tensors.size(); k++) {
      const Slot& slot = layer.slots[k + 1];
      long size = 1;
      for (long n : slot.shape) size *= n;
      if (p.tensors[k].kind == Kind::time) require(!slot.name);
      else require(slot.name && p.tensors[k].kind == Kind::unit && size == p.tensors[k].row);
    }
  }

  template <class T>
  bool read_parameters(const nb::dict& own, std::vector<const T*>& to) const {
    for (const Layer& layer : layers)
      for (const Slot& slot : layer.slots) {
        to.push_back(nullptr);
        if (!slot.name) continue;
        PyObject* given = PyDict_GetItemWithError(own.ptr(), slot.name.ptr());  // borrowed
        View seen;
        if (!given || !Torch::read(given, seen) || seen.bits != bits) return false;
        if (seen.ndim != int(slot.shape.size()) || !std::equal(slot.shape.begin(), slot.shape.end(), seen.shape)) return false;
        to.back() = static_cast<const T*>(seen.data);
      }
    return true;
  }

  template <class T>
  bool read_state(nb::handle state, long batch, std::vector<const T*>& before) const {
    const std::vector<long>& sizes = layers[0].program->states;
    before.assign(sizes.size(), nullptr);
    if (state.is_none()) return true;
    const bool list = sizes.size() > 1;
    if (list && (!(PyTuple_Check(state.ptr()) || PyList_Check(state.ptr())) || PySequence_Size(state.ptr()) != long(sizes.size())))
      return false;
    for (std::size_t k = 0; k < sizes.size(); k++) {
      View seen;
      PyObject* given = list ? PySequence_Fast_GET_ITEM(state.ptr(), k) : state.ptr();
      if (!Torch::read(given, seen) || seen.bits != bits || !seen.has({long(layers.size()), batch, sizes[k]})) return false;
      before[k] = static_cast<const T*>(seen.data);
    }
    return true;
  }

  nb::object call(const nb::dict& own, nb::handle x, int ndim, nb::handle state, int threads, const nb::list* saved, const std::vector<Hold>* holds) const {
    View seen;
    if (!reads(x, ndim, seen)) return nb::none();
    return bits == 32 ? run<float>(seen, own, state, threads, saved, holds) : run<double>(seen, own, state, threads, saved, holds);
  }

  template <class T>
  bool read_saved(const nb::list& saved, long steps, long batch, std::vector<T*>& to) const {
    if (saved.size() != layers.size()) return false;
    for (std::size_t l = 0; l < layers.size(); l++) {
      View seen;
      const long row = program_layout<T>(*layers[l].program).saved_row;
      if (!Torch::read(saved[l].ptr(), seen) || seen.bits != bits || !seen.has({steps, batch, row})) return false;
      to.push_back(static_cast<T*>(seen.data));
    }
    return true;
  }

  // What says where and at what values are held, (T, row) each, in the place of the tensors that have no name.
  template <class T>
  void hold(const std::vector<Hold>& holds, long steps, std::vector<const T*>& weights, std::deque<Buffer<T>>& planes) const {
    std::vector<std::size_t> first;  // of each layer, among the weights
    std::vector<T*> own(weights.size(), nullptr);
    std::size_t at = 0;
    for (const Layer& layer : layers) {
      first.push_back(at);
      for (std::size_t k = 1; k < layer.program->tensors.size(); k++) {
        const TensorSpec& tensor = layer.program->tensors[k];
        if (tensor.kind != Kind::time) continue;
        planes.emplace_back();
        planes.back().zero(steps * tensor.row);
        weights[at + k + 1] = own[at + k + 1] = planes.back();
      }
      at += layer.slots.size();
    }
    for (const auto& [l, where, what, t0, t1, u0, u1, value] : holds) {
      auto require = [](bool holds) {
        if (!holds) throw std::invalid_argument("program: a value that cannot be held so");
      };
      require(0 <= l && l < long(layers.size()));
      const auto& tensors = layers[l].program->tensors;
      require(0 < where && where < long(tensors.size()) && 0 < what && what < long(tensors.size()));
      T *mask = own[first[l] + where + 1], *at_what = own[first[l] + what + 1];
      const long row = tensors[where].row;
      require(mask && at_what && tensors[what].row == row);
      require(0 <= t0 && t0 <= t1 && t1 <= steps && 0 <= u0 && u0 <= u1 && u1 <= row);
      for (long t = t0; t < t1; t++) std::fill_n(mask + t * row + u0, u1 - u0, T(1)), std::fill_n(at_what + t * row + u0, u1 - u0, T(value));
    }
  }

  template <class T>
  nb::object run(const View& x, const nb::dict& own, nb::handle state, int threads, const nb::list* saved, const std::vector<Hold>* holds) const {
    const std::vector<long>& sizes = layers[0].program->states;
    const bool one = x.ndim == 2;
    const long steps = one ? 1 : x.shape[0], batch = x.shape[one ? 0 : 1];
    const long states = long(sizes.size()), count = long(layers.size());
    std::vector<const T*> before, weights;
    if (!read_state(state, batch, before) || !read_parameters(own, weights)) return nb::none();
    std::vector<T*> outputs(layers.size(), nullptr), memory(saved ? 0 : layers.size(), nullptr), after(states);
    if (saved && !read_saved(*saved, steps, batch, memory)) return nb::none();
    std::deque<Buffer<T>> planes;
    hold(holds ? *holds : std::vector<Hold>(), steps, weights, planes);
    nb::list every;  // output
    for (std::size_t l = saved ? 0 : layers.size() - 1; l < layers.size(); l++)
      every.append(one ? Torch::make<T>({batch, sizes[0]}, outputs[l]) : Torch::make<T>({steps, batch, sizes[0]}, outputs[l]));
    nb::object result = saved ? nb::object(every) : nb::object(every[0]);
    std::vector<nb::object> made;
    for (long k = 0; k < states; k++) made.push_back(Torch::make<T>({count, batch, sizes[k]}, after[k]));
    {
      nb::gil_scoped_release release;
      stack(static_cast<const T*>(x.data), steps, batch, threads, weights, before, after, outputs, memory);
    }
    if (states == 1) return nb::make_tuple(result, made[0]);
    nb::object final = nb::steal(PyTuple_New(states));
    for (long k = 0; k < states; k++) PyTuple_SET_ITEM(final.ptr(), k, made[k].release().ptr());
    return nb::make_tuple(result, final);
  }

  template <class T>
  void stack(const T* x, long steps, long batch, int threads, const std::vector<const T*>& weights, const std::vector<const T*>& before,
             const std::vector<T*>& after, const std::vector<T*>& outputs, const std::vector<T*>& saved) const {
    const T* const* own = weights.data();
    Buffer<T> between[2];  // outputs that are not kept
    for (std::size_t l = 0; l < layers.size(); l++) {
      const StepProgram& program = *layers[l].program;
      ProgramCall<T> call;
      call.steps = steps, call.batch = batch, call.threads = threads;
      call.x = x, call.weight_ih = own[0], call.bias_ih = own[1], call.input = layers[l].slots[0].shape[1];
      call.tensors.assign(own + 1, own + layers[l].slots.size());
      call.tensors[0] = nullptr;  // W x + b
      for (std::size_t k = 0; k < program.states.size(); k++) {
        const long at = long(l) * batch * program.states[k];
        call.state_0.push_back(before[k] ? before[k] + at : nullptr);
        call.state_n.push_back(after[k] + at);
      }
      call.initial.assign(program.states.size(), nullptr);
      call.output = outputs[l], call.saved = saved[l];
      if (!call.output) {
        between[l % 2].reserve(steps * batch * program.states[0]);
        call.output = between[l % 2];
      }
      program_forward(program, call);
      x = call.output;
      own += layers[l].slots.size();
    }
  }
};

}  // namespace carousel
