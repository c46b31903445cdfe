// The output layer of a beam search: the k best of log softmax(W h + b) in each row, and nothing else.
//
// A beam needs a handful of a row's V log-probabilities, so they are never stored: some columns at a time, the
// logits of some rows are computed, summed and ranked while they are in the cache. Threads take one lot of columns after
// the other, so that none waits for a slower one; at the end the rows are shared, and what is known of a row is
// combined in the order of the columns, whichever thread had them. As in log_softmax.cpp, W is packed unless there are only a few
// rows.
#include "output/topk.hpp"

#include <atomic>
#include <cmath>

#include "core/threads.hpp"

namespace carousel {

namespace {

template <class T>
class TopK {
  static constexpr long wide = 8, most_rows = 54 * tile_rows;  // panels and rows whose logits stay in the second-level cache
  static constexpr T nothing = -std::numeric_limits<T>::infinity();

 public:
  TopK(const TopKCall<T>& call, OutputPanels<T>& panels, int threads)
      : call(call), panels(panels), few(few_rows(call.rows)), lots(ceil_div(call.vocab, wide * panel<T>)),
        row(up(lots, lanes<T>)), best(threads * call.rows * call.k) {
    for (long n = 0; n < call.rows; n++) h.push_back(call.h + n * call.size);
    if (!few) panels.reserve(call.vocab, call.size);
    tops.reserve(call.rows * row), sums.zero(call.rows * row);
    std::fill_n(T_of(tops), call.rows * row, std::numeric_limits<T>::lowest());
  }

  void run(const Team& team) {
    const long parts = ceil_div(call.rows, most_rows), most = ceil_div(call.rows, parts);
    Buffer<T> logits;
    logits.reserve(most * wide * panel<T>);
    List<T*> to;
    for (long n = 0; n < most; n++) to.push_back(logits + n * wide * panel<T>);
    for (long lot = next++; lot < lots; lot = next++) {
      const long p = lot * wide, count = std::min(wide, ceil_div(call.vocab, panel<T>) - p), v = p * panel<T>;
      if (!few) panels.pack(call.weight, call.bias, call.vocab, call.size, p, p + count);
      const Packed<T> W{panels.weight + v * call.size, call.size, nullptr, count * panel<T>, panels.bias + v};
      for (long part = 0; part < parts; part++) {
        const long from = call.rows * part / parts, rows = call.rows * (part + 1) / parts - from;
        if (few) dot(v, count * panel<T>, to.data());
        else multiply<T>(rows, h.data() + from, 0, W, 0, count, to.data(), Into::store);
        for (long n = 0; n < rows; n++) measure(team.rank, from + n, lot, to[n], v, count * panel<T>);
      }
    }
    team.sync();
    for (long n = team.rank; n < call.rows; n += team.size) conclude(n, team.size);
  }

 private:
  struct Item {
    T value = nothing;
    std::int64_t token = 0;

    bool before(const Item& other) const { return value > other.value || (value == other.value && token < other.token); }
  };
  const TopKCall<T>& call;
  OutputPanels<T>& panels;
  const bool few;
  const long lots, row;    // of columns; a row of what is known of them
  std::atomic<long> next{0};
  Buffer<T> tops, sums;    // (N, row): the greatest logit of a lot, Σ e^{x − greatest}
  List<Item> best;  // (threads, N, k)
  List<const T*> h;

  static T* T_of(const Buffer<T>& b) { return b; }

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

  // `count` logits of row n, the first that of token v.
  void measure(int rank, long n, long lot, const T* x, long v, long count) {
    Vec<T> most = splat<T>(std::numeric_limits<T>::lowest()), part = {};  // not −∞: see Seen in cross_entropy.cpp
    for (long j = 0; j < count; j += lanes<T>) {
      const Vec<T> a = load<T>(x + j);
      most = a > most ? a : most;
    }
    const T top = tops[n * row + lot] = greatest<T>(most);
    for (long j = 0; j < count; j += lanes<T>) part += decay<T>(load<T>(x + j) - top);
    sums[n * row + lot] = total<T>(part);
    Item* items = best.data() + (rank * call.rows + n) * call.k;
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
    const T *top = tops + n * row, *sum = sums + n * row;
    Vec<T> most = load<T>(top), all = {};
    for (long g = lanes<T>; g < row; g += lanes<T>) most = load<T>(top + g) > most ? load<T>(top + g) : most;
    const T greatest = carousel::greatest<T>(most);
    for (long g = 0; g < row; g += lanes<T>) all += load<T>(sum + g) * decay<T>(load<T>(top + g) - greatest);
    const T total = greatest + std::log(carousel::total<T>(all));
    List<long> next(parts, 0);  // of each thread's list
    for (long j = 0; j < call.k; j++) {
      int from = 0;
      auto head = [&](int k) { return next[k] < call.k ? best[(k * call.rows + n) * call.k + next[k]] : Item{}; };
      for (int k = 1; k < parts; k++)
        if (head(k).before(head(from))) from = k;
      const Item item = head(from);
      next[from]++;
      call.values[n * call.k + j] = item.value - total, call.tokens[n * call.k + j] = item.token;
    }
  }
};

}  // namespace

template <class T>
void topk(const TopKCall<T>& call, OutputPanels<T>& panels, int threads) {
  if (call.rows == 0) return;
  if (double(call.rows) * call.size * call.vocab < double(1 << 16)) threads = 1;
  Region region;
  Barrier barrier(region, threads);
  TopK<T> all(call, panels, threads);
  region.run(threads, [&](int rank, int size) { all.run(Team{barrier, rank, size}); });
  if (!few_rows(call.rows)) panels.keep();
}

template void topk(const TopKCall<float>&, OutputPanels<float>&, int);
template void topk(const TopKCall<double>&, OutputPanels<double>&, int);

}  // namespace carousel
