// Every cell and option, the output layer and attention, on awkward shapes, in arrays of exactly the size that layer.hpp,
// output.hpp and attention.hpp promise. Built with AddressSanitizer and UndefinedBehaviorSanitizer: what it checks is
// that no access strays, and that results are numbers.
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "binding/kernels.hpp"

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

template <class T>
bool check(const char* name, long steps, long batch, long input, long hidden, int threads, unsigned options) {
  const CellKernel<T>& cell = *find_kernel<T>(name);
  const Sizes<T> size(cell.planes, hidden);
  auto has = [&](int bit) { return (options >> bit & 1) != 0; };
  const bool projects = has(0) && cell.has_c && hidden > 1, save = has(1);
  const long H = hidden, P = projects ? (hidden + 1) / 2 : hidden, G = cell.gates, D = has(2) ? 2 : 1, TB = steps * batch;
  Arrays<T> a;
  Layer<T> layer;
  layer.steps = steps, layer.batch = batch, layer.input = input, layer.hidden = H, layer.projected = P;
  layer.directions = D, layer.threads = threads;
  layer.x = a.some(TB * input), layer.output = a.room(TB * D * P);
  if (steps == 1 && !save && D == 1 && has(10)) layer.inputs = a.lengths(batch, batch - 1), layer.parents = a.lengths(batch, batch - 1);
  if (has(3)) layer.lengths = a.lengths(batch, steps);
  if (has(4)) layer.reset = a.flags(TB);
  if (has(5)) layer.zone_h = T(0.2), layer.zone_c = T(0.3);
  for (long k = 0; k < D; k++) {
    Direction<T>& d = layer.direction[k];
    d.weight_ih = a.some(G * H * input), d.weight_hh = a.some(G * H * P);
    if (has(6)) d.bias_ih = a.some(G * H), d.bias_hh = a.some(G * H);
    if (projects) d.weight_hr = a.some(P * H);
    if (cell.peepholes) d.weight_ch = a.some(cell.peepholes * H);
    if (cell.whole_rows) {
      d.norm_ih_weight = a.some(G * H), d.norm_ih_bias = a.some(G * H), d.norm_hh_weight = a.some(G * H);
      d.norm_hh_bias = a.some(G * H), d.norm_c_weight = a.some(H), d.norm_c_bias = a.some(H);
    }
    if (has(7)) d.h_0 = a.some(batch * P);
    if (has(7) && cell.has_c) d.c_0 = a.some(batch * H);
    if (has(4) && has(7)) d.initial_h = a.some(P);
    if (has(4) && has(7) && cell.has_c) d.initial_c = a.some(H);
    if (has(8)) d.mask = a.some(batch * P);
    if (has(9)) d.zone_h = a.flags(TB * P);
    if (has(9) && cell.has_c) d.zone_c = a.flags(TB * H);
    d.h_n = a.room(batch * P);
    if (cell.has_c) d.c_n = a.room(batch * H);
    if (save) d.values = a.scratch(TB * size.value_row);
    if (save && cell.has_c) d.cells = a.scratch(TB * size.cell_row);
  }
  Panels<T> panels;
  if (D == 1 && !save) layer.direction[0].panels = &panels;  // kept, made by the first run and read by the second
  run_forward(layer, cell);
  if (layer.direction[0].panels) run_forward(layer, cell);
  if (save) {
    layer.d_output = a.some(TB * D * P);
    layer.d_x = a.room(TB * input);
    for (long k = 0; k < D; k++) {
      Direction<T>& d = layer.direction[k];
      d.d_h_n = a.some(batch * P), d.d_h_0 = a.room(batch * P);
      if (cell.has_c) d.d_c_n = a.some(batch * H), d.d_c_0 = a.room(batch * H), d.d_initial_c = a.room(H);
      d.d_initial_h = a.room(P);
      d.d_weight_ih = a.room(G * H * input), d.d_weight_hh = a.room(G * H * P);
      if (d.bias_ih) d.d_bias_ih = a.room(G * H), d.d_bias_hh = a.room(G * H);
      if (projects) d.d_weight_hr = a.room(P * H);
      if (cell.peepholes) d.d_weight_ch = a.room(cell.peepholes * H);
      if (cell.whole_rows) {
        d.d_norm_ih_weight = a.room(G * H), d.d_norm_ih_bias = a.room(G * H), d.d_norm_hh_weight = a.room(G * H);
        d.d_norm_hh_bias = a.room(G * H), d.d_norm_c_weight = a.room(H), d.d_norm_c_bias = a.room(H);
      }
      if (has(7)) d.total_h = a.scratch(TB * P), d.total_c = cell.has_c ? a.scratch(TB * H) : nullptr;
    }
    run_backward(layer, cell);
    if (D == 1 && !has(4) && !has(5) && !has(8) && !has(9)) {  // the same a step a call, twice back
      std::vector<std::int64_t> lengths(batch, steps);
      if (layer.lengths) std::copy_n(layer.lengths, batch, lengths.begin());
      std::sort(lengths.rbegin(), lengths.rend());
      layer.lengths = lengths.data();
      const auto walk = make_walk(layer, cell);
      for (long t = 0; t < steps; t++) walk->forward(t);
      for (int again = 0; again < 2; again++) {
        for (long t = steps - 1; t >= 0; t--) walk->backward(t);
        walk->finish();
      }
    }
  }
  if (a.finite()) return true;
  std::printf("%s: T=%ld B=%ld I=%ld H=%ld threads=%d options=%x: not a number\n", name, steps, batch, input, hidden,
              threads, options);
  return false;
}

// Log-probabilities of a few rows, and choices from them.
template <class T>
bool check_generation(long rows, long size, long vocab, int threads) {
  Arrays<T> a;
  const Prediction<T> said{rows, size, vocab, a.some(rows * size), a.some(vocab * size),
                           threads == 1 ? nullptr : a.some(vocab), a.room(rows * vocab)};
  OutputPanels<T> panels;
  for (int again = 0; again < 2; again++) run_predict(said, panels, 1 + (threads + again) % 3);
  const long k = 1 + long(random_numbers() % std::min(vocab, 7L));
  std::vector<std::int64_t> best(rows * k), never{0, vocab / 2};
  const Ranking<T> asked{rows,   size,       vocab,       k, said.h, said.weight, said.bias, never.data(),
                         vocab > k + 1 ? 2 : 0, a.room(rows * k), best.data()};
  OutputPanels<T> own;
  for (int again = 0; again < 2; again++) run_rank(asked, own, 1 + (threads + again) % 3);
  bool right = true;
  for (std::int64_t token : best) right &= token >= 0 && token < vocab;
  const double some = double(1 + random_numbers() % vocab);
  for (const std::vector<Sampler>& samplers : {
           std::vector<Sampler>{},
           {{Sampling::top_k, 1}},
           {{Sampling::top_k, some}, {Sampling::top_p, 0.8}},
           {{Sampling::temperature, 0.5}, {Sampling::top_p, 0.5}, {Sampling::random_k, 3}},
       }) {
    std::vector<double> uniform(2 * rows);
    for (double& u : uniform) u = random_numbers() / 4294967296.;
    std::vector<std::int64_t> tokens(rows);
    std::unique_ptr<bool[]> found(new bool[rows]);
    const Choices<T> call{rows, vocab, said.log_probs, uniform.data(), 2, tokens.data(), a.room(rows), found.get()};
    run_choose(call, samplers, threads);
    for (long n = 0; n < rows; n++) right &= found[n] && tokens[n] >= 0 && tokens[n] < vocab;
  }
  if (right && a.finite()) return true;
  std::printf("generation: N=%ld D=%ld V=%ld threads=%d: wrong\n", rows, size, vocab, threads);
  return false;
}

template <class T>
bool check_output(long tokens, long features, long classes, int threads, unsigned options) {
  auto has = [&](int bit) { return (options >> bit & 1) != 0; };
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
  run_output(call);
  if (a.finite()) return true;
  std::printf("output: N=%ld D=%ld V=%ld threads=%d options=%x: not a number\n", tokens, features, classes, threads,
              options);
  return false;
}

// Attention and its gradients; with options, keys, additive scores, a base, gradients of weights, and sequences that
// share their places. Then a search's step.
template <class T>
bool check_attention(long batch, long queries, long keys, long size, int threads, unsigned options) {
  auto has = [&](int bit) { return (options >> bit & 1) != 0; };
  Arrays<T> a;
  const std::int64_t *asked = a.lengths(batch, queries), *count = a.lengths(batch, keys);
  std::vector<std::int64_t> start;
  long rows = 0, places = 0;
  for (long b = 0; b < batch; b++) {
    start.push_back(has(4) ? 0 : places);
    rows += asked[b], places = has(4) ? std::max<long>(places, count[b]) : places + count[b];
  }
  const long out = keys + 1;
  Attend<T> call;
  call.sequences = batch, call.places = places, call.size = size, call.out = out, call.most = keys;
  call.query = a.some(rows * size), call.query_row = size, call.value = a.some(places * out);
  if (has(0)) call.key = a.some(places * size);
  if (has(0) && has(1)) call.v = a.some(size);
  if (has(2)) call.base = a.some(rows * out), call.base_row = out;
  call.asked = asked, call.start = start.data(), call.count = count;
  call.weights = a.room(rows * keys), call.result = a.room(rows * out);
  run_attend(call, threads);
  call.d_result = a.some(rows * out);
  if (has(3)) call.d_weights = a.some(rows * keys);
  call.d_query = a.room(rows * size), call.d_value = a.room(places * out);
  if (call.key) call.d_key = a.room(places * size);
  if (call.v) call.d_v = a.room(batch * size);
  if (call.base) call.d_base = a.room(rows * out);
  run_attend(call, threads);
  if (call.v) {
    const long wide = batch;
    const Look<T> look{rows,     batch,        wide,       size,  out,   keys, a.some(rows * wide), a.some((size + out) * wide),
                       a.some(size + out), call.key, call.v, call.value, asked, start.data(), count, a.room(rows * out)};
    OutputPanels<T> panels;
    for (int again = 0; again < 2; again++) run_look(look, panels, threads);
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
  run_dropout(call, threads);
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
  const long shapes[][4] = {{1, 1, 1, 1}, {1, 3, 2, 5}, {1, 9, 2, 16}, {3, 5, 7, 9}, {4, 13, 17, 33}, {2, 6, 16, 16}, {7, 2, 3, 19}};
  long calls = 0, wrong = 0;
  for (const char* cell : {"elman-tanh", "elman-relu", "elman-sigmoid", "lstm", "peephole", "coupled",
                           "coupled-peephole", "layernorm", "gru", "gru-reset-before"})
    for (const auto& s : shapes)
      for (int k = 0; k < 24; k++) {
        const unsigned options = k == 0 ? 0 : k == 1 ? 0x7ff : unsigned(random_numbers()) & 0x7ff;
        const int threads = 1 + k % 3;
        wrong += !check<float>(cell, s[0], s[1], s[2], s[3], threads, options);
        wrong += !check<double>(cell, s[0], s[1], s[2], s[3], threads, options);
        calls += 2;
      }
  // weights too large for threads to share the rows: they share the units
  for (const char* cell : {"lstm", "layernorm", "gru", "gru-reset-before"})
    for (unsigned options : {0x002u, 0x0cbu, 0x0c7u, 0x3ffu}) wrong += !check<float>(cell, 2, 9, 3, 451, 2, options), calls++;
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
