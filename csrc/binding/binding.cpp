// The Python module: pointers in, nothing out. One module is built for each instruction set.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <stdexcept>

#include "binding/kernels.hpp"

namespace nb = nanobind;
using namespace carousel;

namespace {

template <class Class, class Pointer>
void pointer(nb::class_<Class>& bound, const char* name, Pointer Class::*field) {
  bound.def_prop_rw(
      name, [field](const Class& self) { return reinterpret_cast<std::uintptr_t>(self.*field); },
      [field](Class& self, std::uintptr_t address) { self.*field = reinterpret_cast<Pointer>(address); });
}

template <class T>
const CellKernel<T>& kernel_of(const std::string& cell) {
  if (const CellKernel<T>* kernel = find_kernel<T>(cell)) return *kernel;
  throw std::invalid_argument("no kernel for cell '" + cell + "'");
}

// The first call that makes what later ones only read runs alone; before and after it any number may run at once.
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

// A stack of layers, one direction, that runs one step a call: all of it in one go, outputs are the states. With
// `panels` it keeps its weights as the first step of many rows has packed them; without, every step reads them anew.
template <class T>
struct Stream {
  std::string cell;
  std::vector<Layer<T>> layers;
  std::deque<Panels<T>> panels;  // one a layer; or none
  Once packing;

  // x (B, I) of the first layer; h (L, B, P), c (L, B, H): null stands for zeros; h_n, c_n: out, as h and c. With
  // `inputs` (B) x has `words` rows, and with `parents` (B) h and c have `olds`: each sequence names those it takes.
  // `driven`: x is the first layer's W x + b, (·, G·H).
  void step(long batch, int threads, std::uintptr_t x, std::uintptr_t h, std::uintptr_t c, std::uintptr_t h_n,
            std::uintptr_t c_n, std::uintptr_t inputs, std::uintptr_t parents, long words, long olds, bool driven) {
    const CellKernel<T>& kernel = kernel_of<T>(cell);
    const auto* reads = reinterpret_cast<const std::int64_t*>(inputs);
    const auto* follows = reinterpret_cast<const std::int64_t*>(parents);
    for (long b = 0; b < batch; b++) {
      if (reads && (reads[b] < 0 || reads[b] >= words)) throw std::out_of_range("step: an input that is not there");
      if (follows && (follows[b] < 0 || follows[b] >= olds)) throw std::out_of_range("step: a parent that is not there");
    }
    nb::gil_scoped_release release;
    auto real = [](std::uintptr_t address) { return reinterpret_cast<T*>(address); };
    std::vector<Layer<T>> now = layers;  // calls from several threads must not meet
    packing.run(!panels.empty() && !brief(batch), [&] {
      const T* input = real(x);
      for (std::size_t l = 0; l < now.size(); l++) {
        Layer<T>& layer = now[l];
        Direction<T>& d = layer.direction[0];
        const long P = layer.projected * long(l), H = layer.hidden * long(l);
        layer.steps = 1, layer.batch = batch, layer.x = input, layer.output = d.h_n = real(h_n) + batch * P;
        layer.threads = threads;
        layer.inputs = l == 0 ? reads : nullptr, layer.parents = follows;
        if (l == 0 && driven) layer.drive = real(x);
        if (!panels.empty()) d.panels = &panels[l];
        d.h_0 = h ? real(h) + olds * P : nullptr;
        if (kernel.has_c) d.c_0 = c ? real(c) + olds * H : nullptr, d.c_n = real(c_n) + batch * H;
        run_forward(layer, kernel);
        input = layer.output;
      }
    });
  }
};

// The output layer, with its weights kept as the first call of many rows has packed them.
template <class T>
struct Predicting {
  long size, vocab;
  std::uintptr_t weight, bias;  // (V, D); (V) or null
  OutputPanels<T> panels;
  Once packing;

  // h (N, D); log_probs (N, V): out
  void run(long rows, int threads, std::uintptr_t h, std::uintptr_t log_probs) {
    auto real = [](std::uintptr_t address) { return reinterpret_cast<T*>(address); };
    const Prediction<T> call{rows, size, vocab, real(h), real(weight), real(bias), real(log_probs)};
    packing.run(!brief(rows), [&] { run_predict<T>(call, panels, threads); });
  }

  // h (N, D); never: tokens that are not chosen; values (N, k) and tokens (N, k): out
  void best(long rows, long k, int threads, Array<const std::int64_t> never, std::uintptr_t h, std::uintptr_t values,
            std::uintptr_t tokens) {
    auto real = [](std::uintptr_t address) { return reinterpret_cast<T*>(address); };
    const Ranking<T> call{rows, size, vocab, k, real(h), real(weight), real(bias), never.data(), long(never.size()),
                          real(values), reinterpret_cast<std::int64_t*>(tokens)};
    nb::gil_scoped_release release;
    packing.run(!brief(rows), [&] { run_rank<T>(call, panels, threads); });
  }
};

// Additive attention in a search, with its weights kept as the first call has packed them.
template <class T>
struct AdditiveLook {
  long query, size, out;
  std::uintptr_t weight, bias, v;  // (D + O, H), (D + O), (D)
  OutputPanels<T> panels;
  Once packing;

  // y (N, H); key (M, D), value (M, O); asked, start and count (B); vectors (N, O): out
  void run(long rows, long sequences, long most, int threads, std::uintptr_t y, std::uintptr_t key, std::uintptr_t value,
           std::uintptr_t asked, std::uintptr_t start, std::uintptr_t count, std::uintptr_t vectors) {
    auto real = [](std::uintptr_t address) { return reinterpret_cast<T*>(address); };
    auto counts = [](std::uintptr_t address) { return reinterpret_cast<const std::int64_t*>(address); };
    const Look<T> call{rows,          sequences,  query,     size,    out,         most,          real(y),
                       real(weight),  real(bias), real(key), real(v), real(value), counts(asked), counts(start),
                       counts(count), real(vectors)};
    packing.run(true, [&] { run_look<T>(call, panels, threads); });
  }
};

// A chain of samplers, read once: pairs of a kind (a number of `Sampling`) and its value.
struct Samplers {
  std::vector<Sampler> list;

  explicit Samplers(const std::vector<std::pair<int, double>>& pairs) {
    for (const auto& [kind, value] : pairs) list.push_back({Sampling(kind), value});
  }
};

template <class T>
void bind(nb::module_& module, const std::string& suffix) {
  nb::class_<Direction<T>> direction(module, ("Direction" + suffix).c_str());
  using D = Direction<T>;
  pointer(direction, "weight_ih", &D::weight_ih);
  pointer(direction, "weight_hh", &D::weight_hh);
  pointer(direction, "bias_ih", &D::bias_ih);
  pointer(direction, "bias_hh", &D::bias_hh);
  pointer(direction, "weight_hr", &D::weight_hr);
  pointer(direction, "weight_ch", &D::weight_ch);
  pointer(direction, "norm_ih_weight", &D::norm_ih_weight);
  pointer(direction, "norm_ih_bias", &D::norm_ih_bias);
  pointer(direction, "norm_hh_weight", &D::norm_hh_weight);
  pointer(direction, "norm_hh_bias", &D::norm_hh_bias);
  pointer(direction, "norm_c_weight", &D::norm_c_weight);
  pointer(direction, "norm_c_bias", &D::norm_c_bias);
  pointer(direction, "h_0", &D::h_0);
  pointer(direction, "c_0", &D::c_0);
  pointer(direction, "initial_h", &D::initial_h);
  pointer(direction, "initial_c", &D::initial_c);
  pointer(direction, "mask", &D::mask);
  pointer(direction, "zone_h", &D::zone_h);
  pointer(direction, "zone_c", &D::zone_c);
  pointer(direction, "h_n", &D::h_n);
  pointer(direction, "c_n", &D::c_n);
  pointer(direction, "values", &D::values);
  pointer(direction, "cells", &D::cells);
  pointer(direction, "d_h_n", &D::d_h_n);
  pointer(direction, "d_c_n", &D::d_c_n);
  pointer(direction, "d_h_0", &D::d_h_0);
  pointer(direction, "d_c_0", &D::d_c_0);
  pointer(direction, "d_initial_h", &D::d_initial_h);
  pointer(direction, "d_initial_c", &D::d_initial_c);
  pointer(direction, "d_weight_ih", &D::d_weight_ih);
  pointer(direction, "d_weight_hh", &D::d_weight_hh);
  pointer(direction, "d_bias_ih", &D::d_bias_ih);
  pointer(direction, "d_bias_hh", &D::d_bias_hh);
  pointer(direction, "d_weight_hr", &D::d_weight_hr);
  pointer(direction, "d_weight_ch", &D::d_weight_ch);
  pointer(direction, "d_norm_ih_weight", &D::d_norm_ih_weight);
  pointer(direction, "d_norm_ih_bias", &D::d_norm_ih_bias);
  pointer(direction, "d_norm_hh_weight", &D::d_norm_hh_weight);
  pointer(direction, "d_norm_hh_bias", &D::d_norm_hh_bias);
  pointer(direction, "d_norm_c_weight", &D::d_norm_c_weight);
  pointer(direction, "d_norm_c_bias", &D::d_norm_c_bias);
  pointer(direction, "total_h", &D::total_h);
  pointer(direction, "total_c", &D::total_c);

  nb::class_<Layer<T>> layer(module, ("Layer" + suffix).c_str());
  using L = Layer<T>;
  layer.def(
      "__init__",
      [](L* self, long steps, long batch, long input, long hidden, long projected, long directions, int threads) {
        new (self) L();
        self->steps = steps, self->batch = batch, self->input = input, self->hidden = hidden;
        self->projected = projected, self->directions = directions, self->threads = threads;
      },
      nb::arg("steps"), nb::arg("batch"), nb::arg("input"), nb::arg("hidden"), nb::arg("projected"),
      nb::arg("directions"), nb::arg("threads"));
  layer.def_rw("zone_h", &L::zone_h).def_rw("zone_c", &L::zone_c).def_rw("traced", &L::traced);
  pointer(layer, "x", &L::x);
  pointer(layer, "lengths", &L::lengths);
  pointer(layer, "reset", &L::reset);
  pointer(layer, "output", &L::output);
  pointer(layer, "d_output", &L::d_output);
  pointer(layer, "d_x", &L::d_x);
  layer.def("direction", [](L& self, long index) -> D& { return self.direction[index]; },
            nb::rv_policy::reference_internal);
  layer.def("forward", [](const L& self, const std::string& cell) {
    const CellKernel<T>& kernel = kernel_of<T>(cell);
    nb::gil_scoped_release release;
    run_forward(self, kernel);
  });
  layer.def("backward", [](const L& self, const std::string& cell) {
    const CellKernel<T>& kernel = kernel_of<T>(cell);
    nb::gil_scoped_release release;
    run_backward(self, kernel);
  });
  struct Walked {
    std::unique_ptr<Walking<T>> walk;
  };
  nb::class_<Walked> walked(module, ("Walk" + suffix).c_str());
  walked.def("__init__", [](Walked* self, const L& layer, const std::string& cell) {
    new (self) Walked{make_walk<T>(layer, kernel_of<T>(cell))};
  });
  walked.def_prop_ro("layer", [](Walked& self) -> L& { return self.walk->layer; }, nb::rv_policy::reference_internal);
  walked.def("forward", [](Walked& self, long t) { self.walk->forward(t); }, nb::call_guard<nb::gil_scoped_release>());
  walked.def("backward", [](Walked& self, long t) { self.walk->backward(t); }, nb::call_guard<nb::gil_scoped_release>());
  walked.def("finish", [](Walked& self) { self.walk->finish(); }, nb::call_guard<nb::gil_scoped_release>());

  nb::class_<Stream<T>> stream(module, ("Stream" + suffix).c_str());
  stream.def("__init__", [](Stream<T>* self, const std::string& cell) { new (self) Stream<T>{cell, {}, {}, {}}; });
  stream.def("add", [](Stream<T>& self, const L& layer) { self.layers.push_back(layer); });
  stream.def("keep", [](const Stream<T>& self) {
    Stream<T>* kept = new Stream<T>{self.cell, self.layers, {}, {}};
    for (std::size_t l = 0; l < self.layers.size(); l++) kept->panels.emplace_back();
    return kept;
  }, nb::rv_policy::take_ownership);
  stream.def("step", &Stream<T>::step);

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
  output.def("run", [](const O& self) { run_output(self); }, nb::call_guard<nb::gil_scoped_release>());

  // N, B, M, D, O, S; then the pointers of Attend in their order
  module.def(("attend" + suffix).c_str(), [](std::array<long, 6> n, std::array<std::uintptr_t, 17> at, int threads) {
    auto real = [&](int k) { return reinterpret_cast<T*>(at[k]); };
    auto counts = [&](int k) { return reinterpret_cast<const std::int64_t*>(at[k]); };
    const Attend<T> call{n[1],     n[2],     n[3],      n[4],      n[5],      real(0), n[3],    real(1),
                         real(2),  real(3),  real(4),   n[4],      counts(5), counts(6), counts(7), real(8),
                         real(9),  real(10), real(11),  real(12),  real(13),  real(14), real(15), real(16)};
    long asked = 0;
    for (long b = 0; b < call.sequences; b++) {
      const long from = call.start[b], count = call.count[b];
      if (from < 0 || count < 0 || count > call.most || from + count > call.places)
        throw std::out_of_range("attend: a sequence has places that are not there");
      if (call.asked[b] < 0) throw std::out_of_range("attend: a sequence has fewer than no queries");
      asked += call.asked[b];
    }
    if (asked != n[0]) throw std::out_of_range("attend: the sequences have more or fewer queries than there are");
    nb::gil_scoped_release release;
    run_attend<T>(call, threads);
  });

  module.def(("dropout" + suffix).c_str(), [](long places, long times, std::uint64_t seed, double rate,
                                              std::uintptr_t x, std::uintptr_t y, int threads) {
    const Dropout<T> call{places, times, seed, rate, reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y)};
    run_dropout<T>(call, threads);
  }, nb::call_guard<nb::gil_scoped_release>());

  // (pointer, how many numbers) of each tensor
  module.def(("squares" + suffix).c_str(), [](const std::vector<std::pair<std::uintptr_t, long>>& tensors, int threads) {
    std::vector<Numbers<T>> numbers;
    for (const auto& [data, count] : tensors) numbers.push_back({reinterpret_cast<const T*>(data), count});
    nb::gil_scoped_release release;
    return run_squares<T>(numbers, threads);
  });

  using A = AdditiveLook<T>;
  nb::class_<A> look(module, ("AdditiveLook" + suffix).c_str());
  look.def("__init__", [](A* self, long query, long size, long out, std::array<std::uintptr_t, 3> at) {
    new (self) A{query, size, out, at[0], at[1], at[2], {}, {}};
  });
  look.def("run", &A::run, nb::call_guard<nb::gil_scoped_release>());

  using P = Predicting<T>;
  nb::class_<P> predicting(module, ("Predicting" + suffix).c_str());
  predicting.def("__init__", [](P* self, long size, long vocab, std::uintptr_t weight, std::uintptr_t bias) {
    new (self) P{size, vocab, weight, bias, {}, {}};
  });
  predicting.def("run", &P::run, nb::call_guard<nb::gil_scoped_release>());
  predicting.def("best", &P::best);

  // log_probs (N, V); uniform (N), found, tokens and values (N): out
  module.def(("choose" + suffix).c_str(), [](const Samplers& samplers, long rows, long vocab, std::uintptr_t log_probs,
                                             Array<const double> uniform, Array<std::int64_t> tokens, Array<T> values,
                                             Array<bool> found, int threads) {
    const Choices<T> call{rows, vocab, reinterpret_cast<const T*>(log_probs), uniform.data(), uniform.stride(0),
                          tokens.data(), values.data(), found.data()};
    nb::gil_scoped_release release;
    run_choose<T>(call, samplers.list, threads);
  });

  // n elements whose memory returns to the pool with the tensor: a layer's saved values, page by page, cost too much
  module.def(("block" + suffix).c_str(), [](long n) {
    struct Block {
      void* data;
      std::size_t bytes;
    };
    Block* block = new Block{nullptr, std::size_t(n) * sizeof(T)};
    block->data = Pool::shared().take(block->bytes);
    nb::capsule owner(block, [](void* p) noexcept {
      Block* block = static_cast<Block*>(p);
      Pool::shared().give(block->data, block->bytes);
      delete block;
    });
    return nb::ndarray<nb::pytorch, T, nb::ndim<1>>(static_cast<T*>(block->data), {std::size_t(n)}, owner);
  });
  // Of each gate, whether bias_hh is a part of W x + b; nothing where a step does not take that
  module.def(("drive" + suffix).c_str(), [](const std::string& cell, long hidden) {
    const CellKernel<T>& kernel = kernel_of<T>(cell);
    std::vector<bool> folds;
    for (int q = 0; q < kernel.gates && kernel.takes_drive(hidden); q++) folds.push_back(kernel.folds_bias(q));
    return folds;
  });
  // (plane, value_row, cell_row) of a cell, in elements
  module.def(("rows" + suffix).c_str(), [](const std::string& cell, long hidden) {
    const CellKernel<T>& kernel = kernel_of<T>(cell);
    const Sizes<T> size(kernel.planes, hidden);
    return nb::make_tuple(size.plane, size.value_row, kernel.has_c ? size.cell_row : 0);
  });
}

// Multiply-adds a second, in units of 10⁹ operations, that `threads` threads reach when they do nothing else.
double peak(int threads) {
  constexpr long rounds = 400000;
  double best = 0;
  for (int attempt = 0; attempt < 20; attempt++) {
    const double start = omp_get_wtime();
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
    best = std::max(best, 2. * 10 * lanes<float> * rounds * threads / (omp_get_wtime() - start) * 1e-9);
  }
  return best;
}

}  // namespace

NB_MODULE(CAROUSEL_MODULE, module) {
  nb::set_leak_warnings(false);  // a graph that is alive at exit holds what its steps need, and torch does not take it down
  nb::class_<Samplers>(module, "Samplers").def(nb::init<const std::vector<std::pair<int, double>>&>());
  bind<float>(module, "32");
  bind<double>(module, "64");
  module.def("peak", &peak, nb::call_guard<nb::gil_scoped_release>());
}
