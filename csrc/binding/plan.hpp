// Plain calls of a stack of layers, from tensors to tensors: whole sequences, or one step. No lengths, resets or noise,
// and no gradients, except of a single cell. What does not fit gives None, and Python takes the general way.
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
  // The same on a few rows (B, I), with what its gradient needs → a tuple of the new states (B, S), then gates and
  // states as the kernel saves them.
  nb::object train_cell(const nb::dict& own, nb::handle x, nb::handle state, int threads) const {
    View seen;
    if (!Torch::is_plain() || !Torch::read(x.ptr(), seen) || seen.ndim != 2 || !takes(Form::cell, seen)) return nb::none();
    if (!few_rows(seen.shape[0])) return nb::none();
    return seen.bits == 32 ? run_cell<float>(*kernel32, seen, own, state, threads)
                           : run_cell<double>(*kernel64, seen, own, state, threads);
  }
  // tensors: x, the parameters by slot and the states before the step, None where there was none; saved: the two that
  // train_cell gave; grads of the new states; wanted: a gradient of which tensors → these, None for the others.
  nb::object cell_backward(const nb::tuple& tensors, const nb::tuple& saved, const nb::tuple& grads, const nb::tuple& wanted,
                           int threads) const {
    View seen;
    if (!Torch::is_plain() || !Torch::read(nb::handle(tensors[0]).ptr(), seen)) return nb::none();
    return seen.bits == 32 ? cell_gradients<float>(*kernel32, tensors, saved, grads, wanted, threads)
                           : cell_gradients<double>(*kernel64, tensors, saved, grads, wanted, threads);
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

  // One layer, one direction, one step.
  template <class T>
  Layer<T> cell_layer(const View& x, int threads) const {
    Layer<T> layer;
    layer.steps = 1, layer.batch = x.shape[0], layer.input = input, layer.hidden = hidden, layer.projected = projected;
    layer.threads = threads, layer.x = static_cast<const T*>(x.data), layer.traced = false;
    return layer;
  }

  template <class T>
  nb::object run_cell(const CellKernel<T>& kernel, const View& x, const nb::dict& own, nb::handle state, int threads) const {
    Layer<T> layer = cell_layer<T>(x, threads);
    Direction<T>& d = layer.direction[0];
    std::vector<const T*> weights;
    if (!read_state(Form::cell, state, true, layer.batch, d.state_0) || !read_parameters(own, weights)) return nb::none();
    std::copy(weights.begin(), weights.end(), d.parameter);
    nb::object result = nb::steal(PyTuple_New(states + 2));
    auto add = [&](int k, long width) {
      T* data = nullptr;
      PyTuple_SET_ITEM(result.ptr(), k, Torch::make<T>({layer.batch, width}, data).release().ptr());
      return data;
    };
    for (int k = 0; k < states; k++) d.state_n[k] = add(k, state_size(k));
    const Sizes<T> size = kernel.sizes(hidden);
    d.values = add(states, size.value_row), d.states = add(states + 1, size.state_row);
    layer.output = d.state_n[0];
    nb::gil_scoped_release release;
    forward(layer, kernel);
    return result;
  }

  // The numbers of `given`, which must be a tensor (·) of `count` of them; null for None.
  template <class T>
  static bool numbers(nb::handle given, long count, T*& to) {
    to = nullptr;
    if (given.is_none()) return true;
    View seen;
    if (!Torch::read(given.ptr(), seen) || seen.bits != int(8 * sizeof(T))) return false;
    long size = 1;
    for (int k = 0; k < seen.ndim; k++) size *= seen.shape[k];
    to = static_cast<T*>(seen.data);
    return size == count;
  }

  template <class T>
  nb::object cell_gradients(const CellKernel<T>& kernel, const nb::tuple& tensors, const nb::tuple& saved,
                            const nb::tuple& grads, const nb::tuple& wanted, int threads) const {
    View x;
    const std::size_t count = 1 + parameters + states;
    if (nb::len(tensors) != count || nb::len(wanted) != count || nb::len(saved) != 2 || int(nb::len(grads)) != states ||
        !Torch::read(nb::handle(tensors[0]).ptr(), x) || x.ndim != 2 || x.shape[1] != input || !few_rows(x.shape[0]))
      return nb::none();
    Layer<T> layer = cell_layer<T>(x, threads);
    Direction<T>& d = layer.direction[0];
    const long B = layer.batch;
    const Sizes<T> size = kernel.sizes(hidden);
    bool fits = numbers(saved[0], B * size.value_row, d.values) && numbers(saved[1], B * size.state_row, d.states);
    for (int k = 0; k < parameters; k++) {
      T* p = nullptr;
      long n = 1;
      for (long extent : slots[k].shape) n *= extent;
      fits = fits && numbers(tensors[1 + k], n, p) && (p != nullptr) == bool(slots[k].name);
      d.parameter[k] = p;
    }
    for (int k = 0; k < states; k++) {
      T *before = nullptr, *grad = nullptr;
      fits = fits && numbers(tensors[1 + parameters + k], B * state_size(k), before);
      fits = fits && numbers(grads[k], B * state_size(k), grad);
      d.state_0[k] = before, d.d_state_n[k] = grad;
    }
    if (!fits) return nb::none();
    nb::object result = nb::steal(PyTuple_New(Py_ssize_t(count)));
    auto add = [&](std::size_t k, T*& data, const std::vector<long>& shape) {
      const bool made = wanted[k].ptr() == Py_True && !nb::handle(tensors[k]).is_none();
      nb::object tensor = !made ? nb::none()
                          : shape.size() == 1 ? Torch::make<T>({shape[0]}, data)
                                              : Torch::make<T>({shape[0], shape[1]}, data);
      PyTuple_SET_ITEM(result.ptr(), Py_ssize_t(k), tensor.release().ptr());
    };
    add(0, layer.d_x, {B, input});
    for (int k = 0; k < parameters; k++) add(1 + k, d.d_parameter[k], slots[k].shape);
    for (int k = 0; k < states; k++) add(1 + parameters + k, d.d_state_0[k], {B, state_size(k)});
    nb::gil_scoped_release release;
    backward(layer, kernel);
    return result;
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
