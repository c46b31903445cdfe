// The Python module: addresses of tensors in, nothing out. One module is built for each instruction set.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "attention/attention.hpp"
#include "binding/plan.hpp"
#include "core/threads.hpp"
#include "output/cross_entropy.hpp"
#include "output/log_softmax.hpp"
#include "output/topk.hpp"
#include "program/binding.hpp"
#include "recurrent/grid.hpp"
#include "search/sample.hpp"
#include "training/dropout.hpp"
#include "training/norm.hpp"

namespace nb = nanobind;
using namespace carousel;

namespace {

using Address = std::uintptr_t;  // of a tensor's memory; 0: absent

template <class T>
T* real(Address address) {
  return reinterpret_cast<T*>(address);
}

const std::int64_t* counts(Address address) { return reinterpret_cast<const std::int64_t*>(address); }

template <class Class, class Pointer>
void pointer(nb::class_<Class>& bound, const char* name, Pointer Class::*field) {
  bound.def_prop_rw(
      name, [field](const Class& self) { return reinterpret_cast<Address>(self.*field); },
      [field](Class& self, Address address) { self.*field = reinterpret_cast<Pointer>(address); });
}

template <class T>
const CellKernel<T>& kernel_of(const std::string& name) {
  if (const CellKernel<T>* kernel = find_kernel<T>(name)) return *kernel;
  throw std::invalid_argument("there is no kernel '" + name + "'");
}

// A list of addresses, read slot by slot in the order that the functions below state.
class Addresses {
 public:
  Addresses(const nb::list& list, long slots) : list(list) {
    if (long(nb::len(list)) == slots) return;
    throw std::invalid_argument(std::to_string(nb::len(list)) + " addresses for " + std::to_string(slots) + " slots");
  }

  template <class P>
  void next(P*& to) {
    const std::size_t address = PyLong_AsSize_t(PyList_GET_ITEM(list.ptr(), index++));
    if (address == std::size_t(-1) && PyErr_Occurred()) throw nb::python_error();
    to = reinterpret_cast<P*>(address);
  }
  template <class P>
  void next(P** to, int count) {
    for (int k = 0; k < count; k++) next(to[k]);
  }

 private:
  const nb::list& list;
  Py_ssize_t index = 0;
};

// A call's sizes (T, B, I, H, P, D) and threads, and its inputs. By slot:
//   inputs   x; then of each direction its parameters, state_0 and initial states
//   noise    nothing; or of each direction the recurrent dropout mask and the zoneout masks by state
//   zone     nothing; or the rate of each state in evaluation
template <class T>
Layer<T> make_layer(const CellKernel<T>& kernel, const std::array<long, 7>& n, const nb::list& inputs,
                    const nb::list& noise, const std::vector<double>& zone, Address lengths, Address reset, bool traced) {
  Layer<T> layer;
  layer.steps = n[0], layer.batch = n[1], layer.input = n[2], layer.hidden = n[3], layer.projected = n[4];
  layer.directions = n[5], layer.threads = int(n[6]);
  layer.lengths = counts(lengths), layer.reset = real<const std::uint8_t>(reset), layer.traced = traced;
  if (zone.size() > std::size_t(kernel.states)) throw std::invalid_argument("more zoneout rates than states");
  for (std::size_t k = 0; k < zone.size(); k++) layer.zone[k] = T(zone[k]);
  const long D = layer.directions, S = kernel.states;
  Addresses from(inputs, 1 + D * (kernel.num_parameters() + 2 * S)), mask(noise, nb::len(noise) ? D * (1 + S) : 0);
  from.next(layer.x);
  for (long i = 0; i < layer.directions; i++) {
    Direction<T>& d = layer.direction[i];
    from.next(d.parameter, kernel.num_parameters());
    from.next(d.state_0, kernel.states);
    from.next(d.initial, kernel.states);
    if (nb::len(noise)) mask.next(d.mask), mask.next(d.zone, kernel.states);
    if (d.parameter[slot::weight_hr] && !kernel.projects)
      throw std::invalid_argument("this kernel has no projection, but weight_hr is given");
  }
  return layer;
}

// Where results go. By slot: d_x; then of each direction the gradients of its parameters, state_0 and initial states.
template <class T>
void set_gradients(Layer<T>& layer, const CellKernel<T>& kernel, const nb::list& gradients) {
  Addresses to(gradients, 1 + layer.directions * (kernel.num_parameters() + 2 * kernel.states));
  to.next(layer.d_x);
  for (long i = 0; i < layer.directions; i++) {
    Direction<T>& d = layer.direction[i];
    to.next(d.d_parameter, kernel.num_parameters());
    to.next(d.d_state_0, kernel.states);
    to.next(d.d_initial, kernel.states);
  }
}

// By slot: output; then of each direction values and states.
template <class T>
void set_saved(Layer<T>& layer, const nb::list& saved) {
  Addresses at(saved, 1 + 2 * layer.directions);
  at.next(layer.output);
  for (long i = 0; i < layer.directions; i++) at.next(layer.direction[i].values), at.next(layer.direction[i].states);
}

// The first call that packs what later ones only read runs alone; before and after it any number may run at once.
class Once {
 public:
  template <class Call>
  void run(bool makes, const Call& call) {
    if (!makes || made.load(std::memory_order_acquire)) return call();
    std::lock_guard<std::mutex> lock(mutex);
    call();
    made.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> made{false};
  std::mutex mutex;
};

template <class T>
using Array = nb::ndarray<T, nb::device::cpu, nb::ndim<1>>;

// A stack of layers, one direction, that runs one step per call: all of it in one call, outputs are the states. With
// `panels` it keeps its weights as the first step of many rows has packed them; without, every step reads them again.
template <class T>
struct Stream {
  const CellKernel<T>& kernel;
  std::vector<Layer<T>> layers;
  std::deque<Panels<T>> panels;  // one for each layer; or none
  Once packing;

  // sizes: I, H, P; parameters by slot; zone: rates by state
  void add(const std::array<long, 3>& sizes, const nb::list& parameters, const std::vector<double>& zone) {
    Layer<T> layer;
    layer.steps = layer.batch = 1, layer.input = sizes[0], layer.hidden = sizes[1], layer.projected = sizes[2];
    if (zone.size() > std::size_t(kernel.states)) throw std::invalid_argument("more zoneout rates than states");
    for (std::size_t k = 0; k < zone.size(); k++) layer.zone[k] = T(zone[k]);
    Addresses(parameters, kernel.num_parameters()).next(layer.direction[0].parameter, kernel.num_parameters());
    layers.push_back(layer);
  }

  // x (B, I) of the first layer; state (L, B, P or H) each, empty for zeros; new_state: out, as state. With `inputs` (B)
  // x has `words` rows, and with `parents` (B) the state has `olds`: each sequence names those it takes. `projected`: x is
  // the first layer's W x + b, (·, G·H).
  void step(long batch, int threads, Address x, const nb::list& state, const nb::list& new_state, Address inputs,
            Address parents, long words, long olds, bool projected) {
    const std::int64_t *reads = counts(inputs), *follows = counts(parents);
    for (long b = 0; b < batch; b++) {
      if (reads && (reads[b] < 0 || reads[b] >= words)) throw std::out_of_range("step: an input that is not there");
      if (follows && (follows[b] < 0 || follows[b] >= olds)) throw std::out_of_range("step: a parent that is not there");
    }
    const T* before[max_states] = {};
    T* after[max_states] = {};
    if (nb::len(state)) Addresses(state, kernel.states).next(before, kernel.states);
    Addresses(new_state, kernel.states).next(after, kernel.states);
    nb::gil_scoped_release release;
    packing.run(!panels.empty() && !few_rows(batch), [&] {
      const T* input = real<const T>(x);
      for (std::size_t l = 0; l < layers.size(); l++) {
        Layer<T> layer = layers[l];  // a copy: calls from several threads must not share it
        Direction<T>& d = layer.direction[0];
        layer.steps = 1, layer.batch = batch, layer.x = input, layer.threads = threads;
        layer.inputs = l == 0 ? reads : nullptr, layer.parents = follows;
        if (l == 0 && projected) layer.input_projection = input;
        if (!panels.empty()) d.panels = &panels[l];
        for (int k = 0; k < kernel.states; k++) {
          const long size = layer.state_size(k) * long(l);
          d.state_0[k] = before[k] ? before[k] + olds * size : nullptr;
          d.state_n[k] = after[k] + batch * size;
        }
        layer.output = d.state_n[0];
        forward(layer, kernel);
        input = layer.output;
      }
    });
  }
};

// The output layer, with its weights kept as the first call of many rows has packed them.
template <class T>
struct OutputLayer {
  long size, vocab;
  Address weight, bias;  // (V, D); (V) or null
  OutputPanels<T> panels;
  Once packing;

  // h (N, D); log_probs (N, V): out
  void log_softmax(long rows, int threads, Address h, Address log_probs) {
    const LogSoftmaxCall<T> call{rows, size, vocab, real<T>(h), real<T>(weight), real<T>(bias), real<T>(log_probs)};
    packing.run(!few_rows(rows), [&] { carousel::log_softmax<T>(call, panels, threads); });
  }

  // h (N, D); never: tokens that are not chosen; values (N, k) and tokens (N, k): out
  void topk(long rows, long k, int threads, Array<const std::int64_t> never, Address h, Address values, Address tokens) {
    const TopKCall<T> call{rows, size, vocab, k, real<T>(h), real<T>(weight), real<T>(bias), never.data(), long(never.size()),
                           real<T>(values), real<std::int64_t>(tokens)};
    nb::gil_scoped_release release;
    packing.run(!few_rows(rows), [&] { carousel::topk<T>(call, panels, threads); });
  }
};

// Additive attention in a search, with its weights kept as the first call has packed them.
template <class T>
struct AdditiveAttentionStep {
  long query, size, out;
  Address weight, bias, v;  // (D + O, H), (D + O), (D)
  OutputPanels<T> panels;
  Once packing;

  // y (N, H); key (M, D), value (M, O); num_queries, start and count (B); vectors (N, O): out
  void run(long rows, long sequences, long most, int threads, Address y, Address key, Address value, Address num_queries,
           Address start, Address count, Address vectors) {
    const AttendStep<T> call{rows,            sequences,      query,         size,        out,
                             most,            real<T>(y),     real<T>(weight), real<T>(bias), real<T>(key),
                             real<T>(v),      real<T>(value), counts(num_queries), counts(start), counts(count),
                             real<T>(vectors)};
    packing.run(true, [&] { attend_step<T>(call, panels, threads); });
  }
};

// A chain of samplers, read once: pairs of a kind (a number of `Sampling`) and its value.
struct Samplers {
  List<Sampler> list;

  explicit Samplers(const std::vector<std::pair<int, double>>& pairs) {
    for (const auto& [kind, value] : pairs) list.push_back({Sampling(kind), value});
  }
};

// What a kernel has, by name: gates and states in order, parameters by slot, the planes of a row of values, the number of
// vectors (H) in each of its own parameters, whether each gate's bias_hh is a part of W x + b, and whether W_hr may follow.
nb::dict describe(const std::string& name) {
  const CellKernel<float>& kernel = kernel_of<float>(name);
  nb::dict out, planes, own;
  nb::list gates, states, parameters, folds_bias;
  for (int q = 0; q < kernel.gates; q++) {
    gates.append(kernel.gate_names[q]), planes[kernel.gate_names[q]] = q, folds_bias.append(kernel.folds_bias(q));
  }
  for (int q = kernel.gates; q < kernel.planes; q++) planes[kernel.saved[q - kernel.gates]] = q;
  for (int k = 0; k < kernel.states; k++) states.append(kernel.state_names[k]);
  for (const char* known : slot::names) parameters.append(known);
  for (int k = 0; k < kernel.num_own; k++) {
    parameters.append(kernel.own[k].name), own[kernel.own[k].name] = kernel.own[k].vectors;
  }
  out["gates"] = nb::tuple(gates), out["states"] = nb::tuple(states), out["parameters"] = nb::tuple(parameters);
  out["saved"] = planes, out["own"] = own, out["folds_bias"] = nb::tuple(folds_bias), out["projects"] = kernel.projects;
  return out;
}

template <class T>
void bind_layer(nb::module_& module, const std::string& suffix) {
  using Numbers7 = std::array<long, 7>;
  using Rates = std::vector<double>;
  auto named = [&](const char* name) { return name + suffix; };

  // outputs by slot: output; then of each direction state_n, values and states
  module.def(named("forward").c_str(), [](const std::string& name, const Numbers7& sizes, const nb::list& inputs,
                                          const nb::list& noise, const Rates& zone, Address lengths, Address reset,
                                          bool traced, const nb::list& outputs) {
    const CellKernel<T>& kernel = kernel_of<T>(name);
    Layer<T> layer = make_layer(kernel, sizes, inputs, noise, zone, lengths, reset, traced);
    Addresses to(outputs, 1 + layer.directions * (kernel.states + 2));
    to.next(layer.output);
    for (long i = 0; i < layer.directions; i++) {
      Direction<T>& d = layer.direction[i];
      to.next(d.state_n, kernel.states);
      to.next(d.values), to.next(d.states);
    }
    nb::gil_scoped_release release;
    forward(layer, kernel);
  });

  // grads by slot: d_output; then of each direction d_state_n. totals: nothing; or of each direction one for each state
  module.def(named("backward").c_str(), [](const std::string& name, const Numbers7& sizes, const nb::list& inputs,
                                           const nb::list& noise, const Rates& zone, Address lengths, Address reset,
                                           bool traced, const nb::list& saved, const nb::list& grads,
                                           const nb::list& gradients, const nb::list& totals) {
    const CellKernel<T>& kernel = kernel_of<T>(name);
    Layer<T> layer = make_layer(kernel, sizes, inputs, noise, zone, lengths, reset, traced);
    set_saved(layer, saved);
    set_gradients(layer, kernel, gradients);
    const long states = layer.directions * kernel.states;
    Addresses from(grads, 1 + states), total(totals, nb::len(totals) ? states : 0);
    from.next(layer.d_output);
    for (long i = 0; i < layer.directions; i++) {
      from.next(layer.direction[i].d_state_n, kernel.states);
      if (nb::len(totals)) total.next(layer.direction[i].total, kernel.states);
    }
    nb::gil_scoped_release release;
    backward(layer, kernel);
  });

  struct Steps {
    const CellKernel<T>& kernel;
    std::unique_ptr<Stepwise<T>> native;
  };
  nb::class_<Steps> steps(module, named("Stepwise").c_str());
  steps.def("__init__", [](Steps* self, const std::string& name, const Numbers7& sizes, const nb::list& inputs,
                           Address lengths, const nb::list& saved) {
    const CellKernel<T>& kernel = kernel_of<T>(name);
    Layer<T> layer = make_layer(kernel, sizes, inputs, nb::list(), {}, lengths, 0, false);
    set_saved(layer, saved);
    new (self) Steps{kernel, make_stepwise<T>(layer, kernel)};
  });
  // before the first backward
  steps.def("set_gradients", [](Steps& self, Address d_output, const nb::list& gradients) {
    self.native->layer.d_output = real<const T>(d_output);
    set_gradients(self.native->layer, self.kernel, gradients);
  });
  using Release = nb::call_guard<nb::gil_scoped_release>;
  steps.def("forward", [](Steps& self, long t) { self.native->forward(t); }, Release());
  steps.def("backward", [](Steps& self, long t) { self.native->backward(t); }, Release());
  steps.def("finish", [](Steps& self) { self.native->finish(); }, Release());

  nb::class_<Stream<T>> stream(module, named("Stream").c_str());
  stream.def("__init__", [](Stream<T>* self, const std::string& name) { new (self) Stream<T>{kernel_of<T>(name), {}, {}, {}}; });
  stream.def("add", &Stream<T>::add);
  stream.def("keep", [](const Stream<T>& self) {
    std::unique_ptr<Stream<T>> kept(new Stream<T>{self.kernel, self.layers, {}, {}});
    for (std::size_t l = 0; l < self.layers.size(); l++) kept->panels.emplace_back();
    return kept.release();
  }, nb::rv_policy::take_ownership);
  stream.def("step", &Stream<T>::step);

  // Whether a step that saves nothing takes W x + b in the place of x
  module.def(named("takes_input_projection").c_str(), [](const std::string& name, long hidden) {
    return kernel_of<T>(name).takes_input_projection(hidden);
  });
  // plane, value_row and state_row of a kernel, in elements
  module.def(named("row_sizes").c_str(), [](const std::string& name, long hidden) {
    const CellKernel<T>& kernel = kernel_of<T>(name);
    const Sizes<T> size = kernel.sizes(hidden);
    return nb::make_tuple(size.plane, size.value_row, kernel.states > 1 ? size.state_row : 0);
  });
}

template <class T>
void bind_attention(nb::module_& module, const std::string& suffix) {
  // Sizes and tensors as in struct Attend, by name; N queries.
  module.def(
      ("attend" + suffix).c_str(),
      [](long rows, long sequences, long places, long size, long out, long most, int threads, Address query, Address key,
         Address value, Address v, Address base, Address num_queries, Address start, Address count, Address weights,
         Address result, Address d_result, Address d_weights, Address d_query, Address d_key, Address d_value,
         Address d_base, Address d_v) {
        Attend<T> call;
        call.sequences = sequences, call.places = places, call.size = size, call.out = out, call.most = most;
        call.query = real<T>(query), call.query_row = size, call.key = real<T>(key), call.value = real<T>(value);
        call.v = real<T>(v), call.base = real<T>(base), call.base_row = out;
        call.num_queries = counts(num_queries), call.start = counts(start), call.count = counts(count);
        call.weights = real<T>(weights), call.result = real<T>(result);
        call.d_result = real<T>(d_result), call.d_weights = real<T>(d_weights);
        call.d_query = real<T>(d_query), call.d_key = real<T>(d_key), call.d_value = real<T>(d_value);
        call.d_base = real<T>(d_base), call.d_v = real<T>(d_v);
        long queries = 0;
        for (long b = 0; b < sequences; b++) {
          const long from = call.start[b], count = call.count[b];
          if (from < 0 || count < 0 || count > most || from + count > places)
            throw std::out_of_range("attend: a sequence has places that are not there");
          if (call.num_queries[b] < 0) throw std::out_of_range("attend: a sequence has fewer than no queries");
          queries += call.num_queries[b];
        }
        if (queries != rows) throw std::out_of_range("attend: the sequences have more or fewer queries than there are");
        nb::gil_scoped_release release;
        attend<T>(call, threads);
      },
      nb::kw_only(), nb::arg("rows"), nb::arg("sequences"), nb::arg("places"), nb::arg("size"), nb::arg("out"),
      nb::arg("most"), nb::arg("threads"), nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("v"),
      nb::arg("base"), nb::arg("num_queries"), nb::arg("start"), nb::arg("count"), nb::arg("weights"), nb::arg("result"),
      nb::arg("d_result") = 0, nb::arg("d_weights") = 0, nb::arg("d_query") = 0, nb::arg("d_key") = 0,
      nb::arg("d_value") = 0, nb::arg("d_base") = 0, nb::arg("d_v") = 0);

  using A = AdditiveAttentionStep<T>;
  nb::class_<A> step(module, ("AdditiveAttentionStep" + suffix).c_str());
  step.def("__init__", [](A* self, long query, long size, long out, Address weight, Address bias, Address v) {
    new (self) A{query, size, out, weight, bias, v, {}, {}};
  });
  step.def("run", &A::run, nb::call_guard<nb::gil_scoped_release>());
}

template <class T>
void bind_output(nb::module_& module, const std::string& suffix) {
  nb::class_<Output<T>> output(module, ("Output" + suffix).c_str());
  using O = Output<T>;
  output.def(
      "__init__",
      [](O* self, long tokens, long features, long classes, int threads) {
        new (self) O();
        self->tokens = tokens, self->features = features, self->classes = classes, self->threads = threads;
      },
      nb::arg("tokens"), nb::arg("features"), nb::arg("classes"), nb::arg("threads"));
  output.def_rw("ignore_index", &O::ignore_index).def_rw("smoothing", &O::smoothing).def_rw("mean", &O::mean);
  pointer(output, "hidden", &O::hidden);
  pointer(output, "weight", &O::weight);
  pointer(output, "bias", &O::bias);
  pointer(output, "targets", &O::targets);
  pointer(output, "scale", &O::scale);
  pointer(output, "losses", &O::losses);
  pointer(output, "d_hidden", &O::d_hidden);
  pointer(output, "d_weight", &O::d_weight);
  pointer(output, "d_bias", &O::d_bias);
  output.def("run", [](const O& self) { cross_entropy(self); }, nb::call_guard<nb::gil_scoped_release>());

  using P = OutputLayer<T>;
  nb::class_<P> layer(module, ("OutputLayer" + suffix).c_str());
  layer.def("__init__", [](P* self, long size, long vocab, Address weight, Address bias) {
    new (self) P{size, vocab, weight, bias, {}, {}};
  });
  layer.def("log_softmax", &P::log_softmax, nb::call_guard<nb::gil_scoped_release>());
  layer.def("topk", &P::topk);

  // log_probs (N, V); uniform (N); tokens, values and found (N): out
  module.def(("sample" + suffix).c_str(), [](const Samplers& samplers, long rows, long vocab, Address log_probs,
                                             Array<const double> uniform, Array<std::int64_t> tokens, Array<T> values,
                                             Array<bool> found, int threads) {
    const SampleCall<T> call{rows, vocab, real<T>(log_probs), uniform.data(), uniform.stride(0),
                             tokens.data(), values.data(), found.data()};
    nb::gil_scoped_release release;
    sample<T>(call, samplers.list, threads);
  });
}

template <class T>
void bind_training(nb::module_& module, const std::string& suffix) {
  module.def(("dropout" + suffix).c_str(), [](long places, long times, std::uint64_t seed, double rate,
                                              Address x, Address y, int threads) {
    const Dropout<T> call{places, times, seed, rate, reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y)};
    dropout<T>(call, threads);
  }, nb::call_guard<nb::gil_scoped_release>());

  // (pointer, how many numbers) of each tensor
  module.def(("squares" + suffix).c_str(), [](const std::vector<std::pair<Address, long>>& tensors, int threads) {
    List<Numbers<T>> numbers;
    for (const auto& [data, count] : tensors) numbers.push_back({reinterpret_cast<const T*>(data), count});
    nb::gil_scoped_release release;
    return squares<T>(numbers, threads);
  });

  // n elements whose memory returns to the pool with the tensor: new pages for a layer's saved values cost too much
  module.def(("empty_from_pool" + suffix).c_str(), [](long n) {
    struct Block {
      std::size_t bytes;
      void* data = nullptr;
      explicit Block(std::size_t size) : bytes(size) { data = Pool::shared().take(bytes); }
      ~Block() { Pool::shared().give(data, bytes); }
    };
    auto block = std::make_unique<Block>(std::size_t(n) * sizeof(T));
    T* data = static_cast<T*>(block->data);
    nb::capsule owner(block.get(), [](void* p) noexcept { delete static_cast<Block*>(p); });
    block.release();
    return nb::ndarray<nb::pytorch, T, nb::ndim<1>>(data, {std::size_t(n)}, owner);
  });
}

template <class T>
void bind(nb::module_& module, const std::string& suffix) {
  bind_layer<T>(module, suffix);
  bind_attention<T>(module, suffix);
  bind_output<T>(module, suffix);
  bind_training<T>(module, suffix);
}

// Multiply-adds per second, in units of 10⁹ operations, that `threads` threads reach when they do nothing else.
double peak(int threads) {
  auto seconds = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  constexpr long rounds = 400000;
  double best = 0;
  for (int attempt = 0; attempt < 20; attempt++) {
    const double start = seconds();
    parallel(threads, [&](int, int) {
      Vec<float> sum[10] = {}, a = splat<float>(1.0001f), b = splat<float>(1e-9f);
      pin(a), pin(b);
      for (long k = 0; k < rounds; k++) {
#pragma GCC unroll 10
        for (int i = 0; i < 10; i++) sum[i] = sum[i] * a + b;
#pragma GCC unroll 10
        for (int i = 0; i < 10; i++) pin(sum[i]);
      }
    });
    best = std::max(best, 2. * 10 * lanes<float> * rounds * threads / (seconds() - start) * 1e-9);
  }
  return best;
}

}  // namespace

NB_MODULE(CAROUSEL_MODULE, module) {
  nb::set_leak_warnings(false);  // a graph that is alive at exit holds what its steps need, and torch does not free it
  nb::class_<Samplers>(module, "Samplers").def(nb::init<const std::vector<std::pair<int, double>>&>());
  bind<float>(module, "32");
  bind<double>(module, "64");
  module.def("set_torch", &Torch::set, nb::arg("classes"), nb::arg("exchange").none(), nb::arg("empty"), nb::arg("float32"),
             nb::arg("float64"), nb::arg("modes"), nb::arg("forward_ad"));
  nb::class_<Plan>(module, "Plan")
      .def(nb::init<const std::string&, const std::array<long, 5>&, const nb::list&, const std::vector<double>&>())
      .def("sequence", &Plan::sequence, nb::arg("own"), nb::arg("x").none(), nb::arg("state").none(), nb::arg("threads"))
      .def("fits", &Plan::fits, nb::arg("own"), nb::arg("x").none(), nb::arg("state").none())
      .def("is_plain", [](const Plan&) { return Torch::is_plain(); })
      .def("step", &Plan::step, nb::arg("own"), nb::arg("x").none(), nb::arg("state").none(), nb::arg("threads"))
      .def("cell", &Plan::cell, nb::arg("own"), nb::arg("x").none(), nb::arg("state").none(), nb::arg("threads"))
      .def("train_cell", &Plan::train_cell, nb::arg("own"), nb::arg("x").none(), nb::arg("state").none(), nb::arg("threads"))
      .def("cell_backward", &Plan::cell_backward);
  bind_programs(module);
  module.def("kernels", &kernel_names);
  module.def("describe", &describe);
  // For tests: after n more allocations of the kernels one fails; returns how many were left (negative: none was to fail)
  module.def("fail_allocation_after", &Allocations::fail_after);
  module.def("blocks_in_use", [] { return Pool::shared().in_use(); });  // of the pool, since the first call
  module.def("peak", &peak, nb::call_guard<nb::gil_scoped_release>());
}
