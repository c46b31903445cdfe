// The output layer of a beam search: the k best of log softmax(W h + b) in each row, and nothing else.
//
// A beam looks at a handful of a row's V log-probabilities, so they are never written down: some columns at a time, the
// logits of some rows are made, counted and ranked while they are in the cache. Each thread has a range of the
// vocabulary; in the end the rows are shared, and what the threads know of a row is put together. As in predict.hpp, W is
// packed unless there are only a few rows.
#pragma once

#include "predict.hpp"

namespace carousel {

template <class T>
struct Ranking {
  long rows, size, vocab, k;  // N, D, V, k ≤ V
  const T* h;                 // (N, D)
  const T* weight;            // (V, D)
  const T* bias;              // (V); null: none
  const std::int64_t* never;  // (nevers): tokens that are counted but not chosen
  long nevers;
  T* values;             // (N, k): best first, -inf where there are fewer; NaN if a logit of the row is one
  std::int64_t* tokens;  // (N, k): among equals the lower first; 0 where there are fewer
};

template <class T>
class Ranker {
  static constexpr long wide = 8 * panel<T>, most_rows = 54 * tile_rows;  // logits at a time: in the second-level cache
  static constexpr T nothing = -std::numeric_limits<T>::infinity(), far = Exponential<T>::limit / 2;

 public:
  Ranker(const Ranking<T>& call, OutputPanels<T>& panels, int threads)
      : call(call), panels(panels), seen(call.rows * threads), best(call.rows * threads * call.k) {
    for (long n = 0; n < call.rows; n++) h.push_back(call.h + n * call.size);
    if (!brief(call.rows)) panels.reserve(call.vocab, call.size);
  }

  void run(const Team& team) {
    long p0, p1;
    team.share(ceil_div(call.vocab, panel<T>), p0, p1);
    if (!brief(call.rows)) panels.pack(call.weight, call.bias, call.vocab, call.size, p0, p1);
    const long parts = ceil_div(call.rows, most_rows), at_once = wide / panel<T>;
    Buffer<T> logits;
    logits.reserve(std::min(call.rows, most_rows) * wide);
    std::vector<T*> to;
    for (long n = 0; n < std::min(call.rows, most_rows); n++) to.push_back(logits + n * wide);
    for (long part = 0; part < parts; part++) {
      const long from = call.rows * part / parts, rows = call.rows * (part + 1) / parts - from;
      for (long p = p0; p < p1; p += at_once) {
        const long count = std::min(at_once, p1 - p), v = p * panel<T>;
        const Packed<T> W{panels.weight + v * call.size, call.size, nullptr, count * panel<T>, panels.bias + v};
        if (brief(call.rows)) dot(v, count * panel<T>, to.data());
        else multiply<T>(rows, h.data() + from, 0, W, 0, count, to.data(), Into::store);
        for (long n = 0; n < rows; n++) look(place(team.rank, from + n), to[n], v, count * panel<T>);
      }
    }
    team.sync();
    for (long n = team.rank; n < call.rows; n += team.size) conclude(n, team.size);
  }

 private:
  // Σ e^{x − base} of what was seen. The base is a logit near the greatest: no other is `far` above it.
  struct Seen {
    T base = std::numeric_limits<T>::lowest(), sum = 0;
    bool fresh = true;

    void raise(T to) {
      fresh = false;
      if (to > base) sum *= std::exp(base - to), base = to;
    }
  };
  struct Item {
    T value = nothing;
    std::int64_t token = 0;
  };
  const Ranking<T>& call;
  OutputPanels<T>& panels;
  std::vector<Seen> seen;  // (threads, N)
  std::vector<Item> best;  // (threads, N, k)
  std::vector<const T*> h;

  long place(int rank, long n) const { return rank * call.rows + n; }  // threads write far from one another

  // `count` logits of every row, the first that of token v, from W as it is.
  void dot(long v, long count, T* const* to) const {
    for (long j = 0; j < count; j += lanes<T>) {
      const int some = int(std::clamp<long>(call.vocab - v - j, 0, lanes<T>));
      for (long n = 0; n < call.rows; n++) {
        Vec<T> x = splat<T>(nothing);
        if (some) {
          const Vec<T> sum = dots<T>(call.weight + (v + j) * call.size, call.size, some, h[n], call.size);
          for (int i = 0; i < some; i++) x[i] = sum[i] + (call.bias ? call.bias[v + j + i] : T(0));
        }
        store<T>(to[n] + j, x);
      }
    }
  }

  // `count` logits of a row, the first that of token v.
  void look(long at, const T* x, long v, long count) {
    Seen& my = seen[at];
    Item* items = best.data() + at * call.k;
    Vec<T> most = splat<T>(nothing), part = {};
    auto add = [&] {
      for (long j = 0; j < count; j += lanes<T>) {
        const Vec<T> a = load<T>(x + j);
        most = a > most ? a : most;
        part += decay<T>(a - my.base);
      }
    };
    if (my.fresh) {
      for (long j = 0; j < count; j += lanes<T>) {
        const Vec<T> a = load<T>(x + j);
        most = a > most ? a : most;
      }
      my.raise(greatest<T>(most));
    }
    add();
    const T top = greatest<T>(most);
    if (top > my.base + far) my.raise(top), part = Vec<T>{}, add();
    my.sum += total<T>(part);
    if (!(top > items[call.k - 1].value)) return;
    for (long j = 0; j < count; j += lanes<T>)
      for (unsigned better = lanes_where<T>(load<T>(x + j) > items[call.k - 1].value); better; better &= better - 1) {
        const long i = j + __builtin_ctz(better);  // the bar may have risen meanwhile
        if (x[i] > items[call.k - 1].value && !forbidden(v + i)) insert(items, {x[i], v + i});
      }
  }

  bool forbidden(std::int64_t token) const { return std::find(call.never, call.never + call.nevers, token) != call.never + call.nevers; }

  void insert(Item* items, Item item) const {
    long place = call.k - 1;
    for (; place > 0 && items[place - 1].value < item.value; place--) items[place] = items[place - 1];
    items[place] = item;
  }

  void conclude(long n, int parts) const {
    Seen whole;
    for (int k = 0; k < parts; k++) whole.base = std::max(whole.base, seen[place(k, n)].base);
    for (int k = 0; k < parts; k++) whole.sum += seen[place(k, n)].sum * std::exp(seen[place(k, n)].base - whole.base);
    const T total = whole.base + std::log(whole.sum);
    std::vector<long> next(parts, 0);  // of each thread's list
    for (long j = 0; j < call.k; j++) {
      int from = 0;
      auto head = [&](int k) { return next[k] < call.k ? best[place(k, n) * call.k + next[k]] : Item{}; };
      for (int k = 1; k < parts; k++)
        if (head(k).value > head(from).value) from = k;
      const Item item = head(from);
      next[from]++;
      call.values[n * call.k + j] = item.value - total, call.tokens[n * call.k + j] = item.token;
    }
  }
};

template <class T>
void rank(const Ranking<T>& call, OutputPanels<T>& panels, int threads) {
  if (call.rows == 0) return;
  if (double(call.rows) * call.size * call.vocab < double(1 << 16)) threads = 1;
  Barrier barrier(threads);
  Ranker<T> ranker(call, panels, threads);
  parallel(threads, [&](int rank, int size) { ranker.run(Team{barrier, rank, size}); });
  if (!brief(call.rows)) panels.keep();
}

}  // namespace carousel
