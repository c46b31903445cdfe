// Every cell and option, the output layer, attention, sampling and dropout, on awkward shapes, in arrays of exactly the
// size that the headers state. Built with AddressSanitizer and UndefinedBehaviorSanitizer, or with ThreadSanitizer: what
// it checks is that no access strays, that no two threads race, that results are numbers, that gradients are those of
// finite differences, and that an allocation that fails is an exception and leaks nothing.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "attention/attention.hpp"
#include "output/cross_entropy.hpp"
#include "output/log_softmax.hpp"
#include "output/topk.hpp"
#include "program_cases.hpp"
#include "recurrent/grid.hpp"
#include "search/sample.hpp"
#include "training/dropout.hpp"

using namespace carousel;

namespace {

std::mt19937 random_numbers(0);

template <class T>
class Arrays {  // tensors of one call
 public:
  T* some(long n) {
    T* p = raw<T>(n);
    std::normal_distribution<double> normal(0, 0.3);
    for (long k = 0; k < n; k++) p[k] = T(normal(random_numbers));
    return p;
  }
  T* room(long n) {  // not a number until it is written
    T* p = raw<T>(n);
    std::fill_n(p, n, T(NAN));
    written.push_back({p, n});
    return p;
  }
  T* scratch(long n) { return raw<T>(n); }
  std::uint8_t* flags(long n) {
    std::uint8_t* p = raw<std::uint8_t>(n);
    for (long k = 0; k < n; k++) p[k] = random_numbers() % 3 == 0;
    return p;
  }
  std::int64_t* lengths(long n, long most) {
    std::int64_t* p = raw<std::int64_t>(n);
    for (long k = 0; k < n; k++) p[k] = long(random_numbers() % (most + 1));
    return p;
  }
  bool finite() const {
    for (const auto& [p, n] : written)
      for (long k = 0; k < n; k++)
        if (!std::isfinite(p[k])) return false;
    return true;
  }

 private:
  std::vector<std::shared_ptr<void>> owned;
  std::vector<std::pair<T*, long>> written;

  template <class E>
  E* raw(long n) {
    std::shared_ptr<E[]> memory(new E[std::max(n, 1L)]);
    owned.push_back(memory);
    return memory.get();
  }
};

// The options of a layer's call, as bits of a number.
enum Option { projection, saving, two_ways, with_lengths, with_reset, zone_rates, biases, with_state, dropout_mask, zone_masks, branches };
constexpr unsigned all_options = 0x7ff;
bool has(unsigned options, int option) { return (options >> option & 1) != 0; }

// A call of one layer, its tensors and those of its gradients.
template <class T>
struct LayerCase {
  const CellKernel<T>& cell;
  Arrays<T> a;
  Layer<T> layer;
  Panels<T> panels;
  std::vector<std::pair<T*, long>> inputs;  // what has a gradient
  std::vector<T*> gradients;                // where it goes, in the same order

  LayerCase(const std::string& name, long steps, long batch, long input, long hidden, int threads, unsigned options)
      : cell(*find_kernel<T>(name)) {
    const Sizes<T> size = cell.sizes(hidden);
    const bool projects = has(options, projection) && cell.projects && hidden > 1, save = has(options, saving);
    const long H = hidden, P = projects ? (hidden + 1) / 2 : hidden, G = cell.gates, D = has(options, two_ways) ? 2 : 1;
    const long TB = steps * batch;
    layer.steps = steps, layer.batch = batch, layer.input = input, layer.hidden = H, layer.projected = P;
    layer.directions = D, layer.threads = threads;
    layer.x = given(TB * input, layer.d_x, save), layer.output = a.room(TB * D * P);
    if (steps == 1 && !save && D == 1 && has(options, branches))
      layer.inputs = a.lengths(batch, batch - 1), layer.parents = a.lengths(batch, batch - 1);
    if (has(options, with_lengths)) layer.lengths = a.lengths(batch, steps);
    if (has(options, with_reset)) layer.reset = a.flags(TB);
    for (int k = 0; k < cell.states; k++)
      if (has(options, zone_rates)) layer.zone[k] = T(0.2) + T(k) / 10;
    for (long i = 0; i < D; i++) {
      Direction<T>& d = layer.direction[i];
      auto parameter = [&](int slot, long n) { d.parameter[slot] = given(n, d.d_parameter[slot], save); };
      parameter(slot::weight_ih, G * H * input), parameter(slot::weight_hh, G * H * P);
      if (has(options, biases)) parameter(slot::bias_ih, G * H), parameter(slot::bias_hh, G * H);
      if (projects) parameter(slot::weight_hr, P * H);
      for (int k = 0; k < cell.num_own; k++) parameter(slot::own + k, cell.own[k].vectors * H);
      for (int k = 0; k < cell.states; k++) {
        const long n = layer.state_size(k);
        if (has(options, with_state)) d.state_0[k] = given(batch * n, d.d_state_0[k], save);
        if (has(options, with_state) && layer.reset) d.initial[k] = given(n, d.d_initial[k], save);
        if (has(options, zone_masks)) d.zone[k] = a.flags(TB * n);
        d.state_n[k] = a.room(batch * n);
        if (save) d.d_state_n[k] = a.some(batch * n);
        if (save && has(options, with_state)) d.total[k] = a.scratch(TB * n);
      }
      if (has(options, dropout_mask)) d.mask = a.some(batch * P);
      if (save) d.values = a.scratch(TB * size.value_row);
      if (save && cell.states > 1) d.states = a.scratch(TB * size.state_row);
    }
    if (save) layer.d_output = a.some(TB * D * P);
    if (D == 1 && !save) layer.direction[0].panels = &panels;  // kept, packed by the first run and read by the second
  }

  // Σ output·d_output + Σ state_n·d_state_n after a forward call.
  double loss() {
    forward(layer, cell);
    double sum = 0;
    for (long k = 0; k < layer.steps * layer.batch * layer.directions * layer.projected; k++)
      sum += double(layer.output[k]) * double(layer.d_output[k]);
    for (long i = 0; i < layer.directions; i++)
      for (int k = 0; k < cell.states; k++)
        for (long j = 0; j < layer.batch * layer.state_size(k); j++)
          sum += double(layer.direction[i].state_n[k][j]) * double(layer.direction[i].d_state_n[k][j]);
    return sum;
  }

  // The same layer one step per call, and back twice, where that is possible.
  void stepwise(unsigned options) {
    if (layer.directions != 1 || layer.reset || has(options, zone_rates) || has(options, zone_masks) || layer.direction[0].mask)
      return;
    std::vector<std::int64_t> lengths(layer.batch, layer.steps);
    if (layer.lengths) std::copy_n(layer.lengths, layer.batch, lengths.begin());
    std::sort(lengths.rbegin(), lengths.rend());
    Layer<T> sorted = layer;
    sorted.lengths = lengths.data();
    const auto steps = make_stepwise(sorted, cell);
    for (long t = 0; t < layer.steps; t++) steps->forward(t);
    for (int again = 0; again < 2; again++) {
      for (long t = layer.steps - 1; t >= 0; t--) steps->backward(t);
      steps->finish();
    }
  }

 private:
  T* given(long n, T*& gradient, bool save) {
    T* p = a.some(n);
    if (save) gradient = a.room(n), inputs.push_back({p, n}), gradients.push_back(gradient);
    return p;
  }
};

template <class T>
bool check(const std::string& name, long steps, long batch, long input, long hidden, int threads, unsigned options) {
  LayerCase<T> c(name, steps, batch, input, hidden, threads, options);
  forward(c.layer, c.cell);
  if (c.layer.direction[0].panels) forward(c.layer, c.cell);
  if (has(options, saving)) {
    backward(c.layer, c.cell);
    c.stepwise(options);
  }
  if (c.a.finite()) return true;
  std::printf("%s: T=%ld B=%ld I=%ld H=%ld threads=%d options=%x: not a number\n", name.c_str(), steps, batch, input,
              hidden, threads, options);
  return false;
}

// The gradients of every input against central finite differences, in double; stepwise ones too.
bool check_gradients(const std::string& name, long hidden, int threads, unsigned options) {
  LayerCase<double> c(name, 4, 3, 2, hidden, threads, options | 1u << saving);
  std::vector<std::vector<double>> found;
  auto keep = [&] {
    for (std::size_t i = 0; i < c.inputs.size(); i++)
      found.emplace_back(c.gradients[i], c.gradients[i] + c.inputs[i].second);
  };
  if (c.layer.lengths) {  // longest first, as the stepwise calls need
    auto* lengths = const_cast<std::int64_t*>(c.layer.lengths);
    lengths[0] = 4, lengths[1] = 2, lengths[2] = 0;
  }
  c.loss();
  backward(c.layer, c.cell);
  keep();
  double worst = 0;
  std::size_t place = 0;
  for (const auto& [p, n] : c.inputs) {
    for (long k = 0; k < n; k++) {
      constexpr double h = 1e-5;
      const double before = p[k];
      p[k] = before + h;
      const double more = c.loss();
      p[k] = before - h;
      const double less = c.loss();
      p[k] = before;
      const double expected = (more - less) / (2 * h), error = std::abs(found[place][k] - expected);
      worst = std::max(worst, error / (1 + std::abs(expected)));
    }
    place++;
  }
  c.loss();
  c.stepwise(options);
  for (std::size_t i = 0; i < c.inputs.size(); i++)
    for (long k = 0; k < c.inputs[i].second; k++)
      worst = std::max(worst, std::abs(c.gradients[i][k] - found[i][k]) / (1 + std::abs(found[i][k])));
  if (worst < 1e-6) return true;
  std::printf("%s: H=%ld threads=%d options=%x: a gradient is off by %.1e\n", name.c_str(), hidden, threads, options, worst);
  return false;
}

// Makes each allocation of a call fail in turn: every time std::bad_alloc arrives here, and nothing stays in use.
bool check_failures(const char* what, const std::function<void()>& call) {
  const long in_use = Pool::shared().in_use();
  for (long n = 0; n < 100000; n++) {
    Allocations::fail_after(n);
    bool failed = false;
    try {
      call();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    const bool reached = Allocations::fail_after(-1) < 0;
    if (failed != reached || Pool::shared().in_use() != in_use) {
      std::printf("%s: allocation %ld fails: %s\n", what, n, failed == reached ? "memory is not returned" : "no exception");
      return false;
    }
    if (!reached) return true;
  }
  return false;
}

// Log-probabilities of a few rows, the best of them, and samples from them.
template <class T>
bool check_generation(long rows, long size, long vocab, int threads) {
  Arrays<T> a;
  const LogSoftmaxCall<T> all{rows, size, vocab, a.some(rows * size), a.some(vocab * size),
                           threads == 1 ? nullptr : a.some(vocab), a.room(rows * vocab)};
  OutputPanels<T> panels;
  for (int again = 0; again < 2; again++) log_softmax(all, panels, 1 + (threads + again) % 3);
  const long k = 1 + long(random_numbers() % std::min(vocab, 7L));
  std::vector<std::int64_t> best(rows * k), never{0, vocab / 2};
  const TopKCall<T> some_of{rows,   size,       vocab,       k, all.h, all.weight, all.bias, never.data(),
                         vocab > k + 1 ? 2 : 0, a.room(rows * k), best.data()};
  OutputPanels<T> own;
  for (int again = 0; again < 2; again++) topk(some_of, own, 1 + (threads + again) % 3);
  bool right = true;
  for (std::int64_t token : best) right &= token >= 0 && token < vocab;
  const double some = double(1 + random_numbers() % vocab);
  for (const List<Sampler>& samplers : {
           List<Sampler>{},
           {{Sampling::top_k, 1}},
           {{Sampling::top_k, some}, {Sampling::top_p, 0.8}},
           {{Sampling::temperature, 0.5}, {Sampling::top_p, 0.5}, {Sampling::random_k, 3}},
       }) {
    std::vector<double> uniform(2 * rows);
    for (double& u : uniform) u = random_numbers() / 4294967296.;
    std::vector<std::int64_t> tokens(rows);
    std::unique_ptr<bool[]> found(new bool[rows]);
    const SampleCall<T> call{rows, vocab, all.log_probs, uniform.data(), 2, tokens.data(), a.room(rows), found.get()};
    sample(call, samplers, threads);
    for (long n = 0; n < rows; n++) right &= found[n] && tokens[n] >= 0 && tokens[n] < vocab;
  }
  if (right && a.finite()) return true;
  std::printf("generation: N=%ld D=%ld V=%ld threads=%d: wrong\n", rows, size, vocab, threads);
  return false;
}

template <class T>
bool check_output(long tokens, long features, long classes, int threads, unsigned options) {
  auto has = [&](int bit) { return ::has(options, bit); };
  Arrays<T> a;
  Output<T> call;
  call.tokens = tokens, call.features = features, call.classes = classes, call.threads = threads;
  call.hidden = a.some(tokens * features), call.weight = a.some(classes * features);
  call.ignore_index = has(0) ? 0 : -100;
  call.targets = a.lengths(tokens, classes - 1);
  call.losses = a.room(tokens);
  call.mean = has(1), call.smoothing = has(2) ? 0.1 : 0;
  if (has(3)) call.bias = a.some(classes), call.d_bias = a.room(classes);
  if (has(4)) call.scale = a.some(tokens);
  if (has(5)) call.d_hidden = a.room(tokens * features);
  if (has(6)) call.d_weight = a.room(classes * features);
  cross_entropy(call);
  if (a.finite()) return true;
  std::printf("output: N=%ld D=%ld V=%ld threads=%d options=%x: not a number\n", tokens, features, classes, threads,
              options);
  return false;
}

// Attention and its gradients; with options, keys, additive scores, a base, gradients of weights, and sequences that
// share their places. Then one step of a search.
template <class T>
bool check_attention(long batch, long queries, long keys, long size, int threads, unsigned options) {
  auto has = [&](int bit) { return ::has(options, bit); };
  Arrays<T> a;
  const std::int64_t *num_queries = a.lengths(batch, queries), *count = a.lengths(batch, keys);
  std::vector<std::int64_t> start;
  long rows = 0, places = 0;
  for (long b = 0; b < batch; b++) {
    start.push_back(has(4) ? 0 : places);
    rows += num_queries[b], places = has(4) ? std::max<long>(places, count[b]) : places + count[b];
  }
  const long out = keys + 1;
  Attend<T> call;
  call.sequences = batch, call.places = places, call.size = size, call.out = out, call.most = keys;
  call.query = a.some(rows * size), call.query_row = size, call.value = a.some(places * out);
  if (has(0)) call.key = a.some(places * size);
  if (has(0) && has(1)) call.v = a.some(size);
  if (has(2)) call.base = a.some(rows * out), call.base_row = out;
  call.num_queries = num_queries, call.start = start.data(), call.count = count;
  call.weights = a.room(rows * keys), call.result = a.room(rows * out);
  attend(call, threads);
  call.d_result = a.some(rows * out);
  if (has(3)) call.d_weights = a.some(rows * keys);
  call.d_query = a.room(rows * size), call.d_value = a.room(places * out);
  if (call.key) call.d_key = a.room(places * size);
  if (call.v) call.d_v = a.room(batch * size);
  if (call.base) call.d_base = a.room(rows * out);
  attend(call, threads);
  if (call.v) {
    const long wide = batch;
    const AttendStep<T> step{rows,     batch,        wide,       size,  out,   keys, a.some(rows * wide), a.some((size + out) * wide),
                       a.some(size + out), call.key, call.v, call.value, num_queries, start.data(), count, a.room(rows * out)};
    OutputPanels<T> panels;
    for (int again = 0; again < 2; again++) attend_step(step, panels, threads);
  }
  if (a.finite()) return true;
  std::printf("attention: B=%ld T=%ld S=%ld D=%ld threads=%d options=%x: not a number\n", batch, queries, keys, size,
              threads, options);
  return false;
}

template <class T>
bool check_dropout(long places, long times, int threads) {
  Arrays<T> a;
  const Dropout<T> call{places, times, random_numbers(), 0.3, a.some(places * times), a.room(places * times)};
  dropout(call, threads);
  if (a.finite()) return true;
  std::printf("dropout: places=%ld times=%ld threads=%d: not a number\n", places, times, threads);
  return false;
}

}  // namespace

int main() {
#if defined(__AVX512F__)
  const bool runs = __builtin_cpu_supports("avx512f");
#elif defined(__AVX2__)
  const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  const bool runs = true;
#endif
  if (!runs) return std::puts("skipped: this processor does not run this instruction set"), 0;
#if defined(__SANITIZE_THREAD__)
  constexpr int repeats = 6;  // and with threads always
#else
  constexpr int repeats = 24;
#endif
  const long shapes[][4] = {{1, 1, 1, 1}, {1, 3, 2, 5}, {1, 9, 2, 16}, {3, 5, 7, 9}, {4, 13, 17, 33}, {2, 6, 16, 16}, {7, 2, 3, 19}, {12, 14, 20, 40}};
  long calls = 0, wrong = 0;
  const std::vector<std::string> cells = kernel_names();
  for (const std::string& cell : cells)
    for (const auto& s : shapes)
      for (int k = 0; k < repeats; k++) {
        const unsigned options = k == 0 ? 0 : k == 1 ? all_options : unsigned(random_numbers()) & all_options;
        const int threads = repeats == 6 ? 2 + k % 2 : 1 + k % 3;
        wrong += !check<float>(cell, s[0], s[1], s[2], s[3], threads, options);
        wrong += !check<double>(cell, s[0], s[1], s[2], s[3], threads, options);
        calls += 2;
      }
#if !defined(__SANITIZE_THREAD__)
  for (const std::string& cell : cells)
    for (int k = 0; k < 12 && cell != "elman-relu"; k++) {  // ReLU has no derivative at 0
      const unsigned options = k == 0 ? 1u << with_state : k == 1 ? all_options : k == 2 ? all_options & ~(1u << zone_masks)
                               : k == 3 ? 1u << with_lengths | 1u << with_state | 1u << biases
                                        : unsigned(random_numbers()) & all_options;
      wrong += !check_gradients(cell, k % 2 ? 4 : 5, 1 + k % 2, options), calls++;
    }
#endif
  for (std::string cell : {"layernorm", "gru-reset-before", "four-states"})
    for (int threads : {1, 2})
      for (unsigned options : {1u << saving, all_options}) {
        LayerCase<float> c(cell, 8, 9, 24, 64, threads, options);
        c.layer.direction[0].panels = nullptr;  // which would stay in use
        wrong += !check_failures(cell.c_str(), [&] {
          forward(c.layer, c.cell);
          if (has(options, saving)) backward(c.layer, c.cell), c.stepwise(options);
        });
        calls++;
      }
  // weights too large for threads to share the rows: they share the units
  for (const char* cell : {"lstm", "layernorm", "gru", "gru-reset-before", "four-states"})
    for (unsigned options : {0x002u, 0x0cbu, 0x0c7u, 0x3ffu}) wrong += !check<float>(cell, 2, 9, 3, 451, 2, options), calls++;
  for (const auto& s : shapes)
    for (unsigned options = 0; options < 16; options++)
      for (int threads : {1, 2, 3}) {
        wrong += !check_program<float>(s[0], s[1], s[3], threads, options, random_numbers);
        wrong += !check_program<double>(s[0], s[1], s[3], threads, options, random_numbers);
        calls += 2;
      }
  for (int threads : {1, 2}) wrong += !check_program<double>(0, 3, 5, threads, 2, random_numbers), wrong += !check_program<float>(3, 0, 5, threads, 2, random_numbers), calls += 2;
  for (int threads : {1, 2}) {  // many columns: threads share them; and allocations that fail
    wrong += !check_program<float>(2, 3, 448, threads, 14, random_numbers), calls++;
    wrong += !check_program<double>(70, 9, 20, threads, 15, random_numbers), calls++;  // several chunks
    for (long batch : {1, 3})  // each step as far from the one before as the next
      for (unsigned options : {0u, 9u}) wrong += !check_program<float>(9, batch, 448, threads, options, random_numbers), calls++;
    ProgramCase<float> c(3, 5, 24, threads, 14, random_numbers);
    wrong += !check_failures("program", [&] { program_forward(c.program, c.call), program_backward(c.program, c.call); }), calls++;
  }
  for (long hidden : {1, 5, 24, 64, 448})
    for (long steps : {1, 3, 9})
      for (long batch : {1, 2, 5})
        for (int threads : {2, 3}) {
          wrong += !check_normed<float>(steps, batch, hidden, threads, random_numbers);
          wrong += !check_normed<double>(steps, batch, hidden, threads, random_numbers);
          calls += 2;
        }
  for (long rows : {1, 4, 5, 37})
    for (long size : {1, 7, 33})
      for (long vocab : {1, 9, 63, 1000})
        for (int threads : {1, 2, 3}) {
          wrong += !check_generation<float>(rows, size, vocab, threads);
          wrong += !check_generation<double>(rows, size, vocab, threads);
          calls += 2;
        }
  for (const auto& s : shapes)
    for (unsigned options = 0; options < 32; options++)
      for (int threads : {1, 2, 3}) {
        wrong += !check_attention<float>(s[0], s[1], s[2], s[3], threads, options);
        wrong += !check_attention<double>(s[0], s[1], s[2], s[3], threads, options);
        calls += 2;
      }
  // few classes and many, for one team of threads or several; one block of tokens or several
  const long outputs[][3] = {{1, 1, 1}, {5, 3, 2}, {33, 17, 40}, {70, 9, 191}, {300, 33, 195}, {600, 5, 97}, {65, 18, 600}};
  for (const auto& s : outputs)
    for (int k = 0; k < 24; k++) {
      const unsigned options = k == 0 ? 0 : k == 1 ? 0x7f : unsigned(random_numbers()) & 0x7f;
      wrong += !check_output<float>(s[0], s[1], s[2], 1 + k % 4, options);
      wrong += !check_output<double>(s[0], s[1], s[2], 1 + k % 4, options);
      calls += 2;
    }
  for (long places : {1, 127, 128, 129, 9000})
    for (long times : {1, 3})
      for (int threads : {1, 2, 3}) {
        wrong += !check_dropout<float>(places, times, threads) + !check_dropout<double>(places, times, threads);
        calls += 2;
      }
  std::printf("%ld calls, %ld wrong\n", calls, wrong);
  return wrong != 0;
}
