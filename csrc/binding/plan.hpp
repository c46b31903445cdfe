// Plain calls of a stack of layers, from tensors to tensors: whole sequences, or one step. No lengths, resets or noise,
// and no gradients. What does not fit gives None, and Python takes the general way.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "binding/tensors.hpp"
#include "recurrent/grid.hpp"

namespace carousel {

class Plan {
 public:
  // sizes: I, H, P, layers, directions. slots: of each layer and direction, for each of the kernel's parameters the name
  // under which a call has it and its shape, or None. zone: rates by state.
  Plan(const std::string& name, const std::array<long, 5>& sizes, const nb::list& slots, const std::vector<double>& zone)
      : kernel32(find_kernel<float>(name)), kernel64(find_kernel<double>(name)), input(sizes[0]), hidden(sizes[1]),
        projected(sizes[2]), layers(sizes[3]), directions(sizes[4]), zone(zone) {
    if (!kernel32 || !kernel64) throw std::invalid_argument("there is no kernel '" + name + "'");
    states = kernel32->states, parameters = kernel32->num_parameters();
    if (long(nb::len(slots)) != layers * directions * parameters) throw std::invalid_argument("a name for each slot");
    if (zone.size() > std::size_t(states)) throw std::invalid_argument("more zoneout rates than states");
    for (nb::handle given : slots) {
      Slot slot;
      if (!given.is_none()) {
        slot.name = nb::borrow(given[0]);
        for (nb::handle n : nb::tuple(given[1])) slot.shape.push_back(nb::cast<long>(n));
      }
      this->slots.push_back(slot);
    }
  }

  // Whole sequences: x (T, B, I), state (L·D, B, S) each or None → output (T, B, D·P) and the state after the last step.
  nb::object sequence(const nb::dict& own, nb::handle x, nb::handle state, int threads) const {
    return call(Form::sequence, own, x, state, threads);
  }
  // Whether `sequence` would take these: for a call with gradients, which Python runs.
  bool fits(const nb::dict& own, nb::handle x, nb::handle state) const {
    View seen;
    if (!Torch::is_plain() || !Torch::read(x.ptr(), seen) || !takes(Form::sequence, seen)) return false;
    auto read = [&](auto zero) {
      using T = decltype(zero);
      const T* before[max_states] = {};
      std::vector<const T*> weights;
      return read_state(Form::sequence, state, true, seen.shape[1], before) && read_parameters(own, weights);
    };
    return seen.bits == 32 ? read(0.f) : read(0.);
  }
  // One step of a stream: x (B, I), state (L, B, S) each or None → output (B, P) and the new state.
  nb::object step(const nb::dict& own, nb::handle x, nb::handle state, int threads) const {
    return call(Form::step, own, x, state, threads);
  }
  // One step of a cell: x (B, I) or (I), state (B, S) or (S) each or None → the new state.
  nb::object cell(const nb::dict& own, nb::handle x, nb::handle state, int threads) const {
    return call(Form::cell, own, x, state, threads);
  }

 private:
  enum class Form { sequence, step, cell };
  struct Slot {
    nb::object name;
    std::vector<long> shape;
  };

  const CellKernel<float>* kernel32;
  const CellKernel<double>* kernel64;
  long input, hidden, projected, layers, directions;
  int states, parameters;
  std::vector<double> zone;
  std::vector<Slot> slots;

  long state_size(int k) const { return k ? hidden : projected; }

  // Whether x can be the input: sizes, and no empty batch.
  bool takes(Form form, const View& x) const {
    const int ndim = form == Form::sequence ? 3 : form == Form::step || x.ndim == 2 ? 2 : 1;
    if (x.ndim != ndim || x.shape[ndim - 1] != input || (form == Form::step && directions != 1)) return false;
    for (int k = 0; k < ndim; k++)
      if (!x.shape[k]) return false;
    return true;
  }

  nb::object call(Form form, const nb::dict& own, nb::handle x, nb::handle state, int threads) const {
    View seen;
    if (!Torch::is_plain() || !Torch::read(x.ptr(), seen) || !takes(form, seen)) return nb::none();
    return seen.bits == 32 ? run<float>(*kernel32, form, seen, own, state, threads)
                           : run<double>(*kernel64, form, seen, own, state, threads);
  }

  // The state as it was given: before[k] is null for zeros.
  template <class T>
  bool read_state(Form form, nb::handle state, bool batched, long batch, const T** before) const {
    if (state.is_none()) return true;
    const bool list = states > 1;
    if (list && (!(PyTuple_Check(state.ptr()) || PyList_Check(state.ptr())) || PySequence_Size(state.ptr()) != states))
      return false;
    for (int k = 0; k < states; k++) {
      PyObject* given = !list ? state.ptr() : PySequence_Fast_GET_ITEM(state.ptr(), k);
      View seen;
      if (!Torch::read(given, seen) || seen.bits != int(8 * sizeof(T))) return false;
      const bool fits = form != Form::cell ? seen.has({layers * directions, batch, state_size(k)})
                        : batched          ? seen.has({batch, state_size(k)})
                                           : seen.has({state_size(k)});
      if (!fits) return false;
      before[k] = static_cast<const T*>(seen.data);
    }
    return true;
  }

  // Parameter addresses in the order of the slots.
  template <class T>
  bool read_parameters(const nb::dict& own, std::vector<const T*>& to) const {
    to.assign(slots.size(), nullptr);
    for (std::size_t k = 0; k < slots.size(); k++) {
      const Slot& slot = slots[k];
      if (!slot.name) continue;
      PyObject* given = PyDict_GetItemWithError(own.ptr(), slot.name.ptr());  // borrowed
      View seen;
      if (!given || !Torch::read(given, seen) || seen.bits != int(8 * sizeof(T))) return false;
      if (seen.ndim != int(slot.shape.size()) || !std::equal(slot.shape.begin(), slot.shape.end(), seen.shape)) return false;
      to[k] = static_cast<const T*>(seen.data);
    }
    return true;
  }

  template <class T>
  nb::object run(const CellKernel<T>& kernel, Form form, const View& x, const nb::dict& own, nb::handle state,
                 int threads) const {
    const bool batched = x.ndim > 1;
    const long steps = form == Form::sequence ? x.shape[0] : 1, batch = batched ? x.shape[x.ndim - 2] : 1;
    const T* before[max_states] = {};
    std::vector<const T*> weights;
    if (!read_state(form, state, batched, batch, before) || !read_parameters(own, weights)) return nb::none();

    T *after[max_states] = {}, *output = nullptr;
    nb::object made[max_states], result;
    if (form != Form::cell) {
      result = form == Form::sequence ? Torch::make<T>({steps, batch, directions * projected}, output)
                                      : Torch::make<T>({batch, projected}, output);
    }
    for (int k = 0; k < states; k++)
      made[k] = form != Form::cell ? Torch::make<T>({layers * directions, batch, state_size(k)}, after[k])
                : batched          ? Torch::make<T>({batch, state_size(k)}, after[k])
                                   : Torch::make<T>({state_size(k)}, after[k]);
    if (form == Form::cell) output = after[0];
    {
      nb::gil_scoped_release release;
      stack(kernel, steps, batch, threads, static_cast<const T*>(x.data), weights, before, after, output);
    }
    nb::object final = made[0];
    if (states > 1) {
      final = nb::steal(PyTuple_New(states));
      for (int k = 0; k < states; k++) PyTuple_SET_ITEM(final.ptr(), k, made[k].release().ptr());
    }
    return form == Form::cell ? final : nb::make_tuple(result, final);
  }

  // All layers, each on the output of the one below.
  template <class T>
  void stack(const CellKernel<T>& kernel, long steps, long batch, int threads, const T* x,
             const std::vector<const T*>& weights, const T* const* before, T* const* after, T* output) const {
    Buffer<T> between[2];
    for (long l = 0; l < layers; l++) {
      Layer<T> layer;
      layer.steps = steps, layer.batch = batch, layer.input = l ? directions * projected : input;
      layer.hidden = hidden, layer.projected = projected, layer.directions = directions, layer.threads = threads;
      layer.x = x, layer.output = output, layer.traced = false;
      for (std::size_t k = 0; k < zone.size(); k++) layer.zone[k] = T(zone[k]);
      if (l + 1 < layers) {
        if (!between[l % 2]) between[l % 2].reserve(steps * batch * directions * projected);
        layer.output = between[l % 2];
      }
      for (long d = 0; d < directions; d++) {
        const long at = l * directions + d;
        Direction<T>& direction = layer.direction[d];
        std::copy_n(weights.begin() + at * parameters, parameters, direction.parameter);
        for (int k = 0; k < states; k++) {
          const long offset = at * batch * state_size(k);
          direction.state_0[k] = before[k] ? before[k] + offset : nullptr;
          direction.state_n[k] = after[k] + offset;
        }
      }
      forward(layer, kernel);
      x = layer.output;
    }
  }
};

}  // namespace carousel
