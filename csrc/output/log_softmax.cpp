// The output layer for a few rows at a time: log softmax(W h + b).
//
// Few rows are products with W where it is. For more, W is packed, which pays because a search calls this many times.
// Each thread has a range of the vocabulary, from packing to log-probabilities; all that threads exchange is each row's
// share of the sum.
#include "output/log_softmax.hpp"

#include <cmath>

#include "core/threads.hpp"

namespace carousel {

namespace {

template <class T>
class LogSoftmax {
 public:
  LogSoftmax(const LogSoftmaxCall<T>& call, OutputPanels<T>& panels, int threads)
      : call(call), panels(panels), few(few_rows(call.rows)), tops(call.rows * threads), sums(call.rows * threads) {
    if (!few) {
      for (long n = 0; n < call.rows; n++) h.push_back(call.h + n * call.size), to.push_back(call.log_probs + n * call.vocab);
      panels.reserve(call.vocab, call.size);
    }
  }

  void run(const Team& team) {
    long p0, p1;
    team.share(count(), p0, p1);
    const long from = p0 * panel<T>, to = std::min(p1 * panel<T>, call.vocab);
    if (few) {
      dot(from, to);
    } else {
      panels.pack(call.weight, call.bias, call.vocab, call.size, p0, p1);
      const Packed<T> W{panels.weight, call.size, nullptr, call.vocab, panels.bias};
      multiply<T>(call.rows, h.data(), 0, W, p0, p1, this->to.data(), Into::store);
    }
    for (long n = 0; n < call.rows; n++) measure(n, from, to, tops[n * team.size + team.rank], sums[n * team.size + team.rank]);
    team.sync();
    for (long n = 0; n < call.rows; n++) {
      T top = tops[n * team.size], sum = 0;
      for (int k = 1; k < team.size; k++) top = std::max(top, tops[n * team.size + k]);
      for (int k = 0; k < team.size; k++)
        if (sums[n * team.size + k] != 0) sum += sums[n * team.size + k] * std::exp(tops[n * team.size + k] - top);
      const T total = top + std::log(sum);
      T* row = call.log_probs + n * call.vocab;
      long v = from;
      for (; v + lanes<T> <= to; v += lanes<T>) store<T>(row + v, load<T>(row + v) - total);
      for (; v < to; v++) row[v] -= total;
    }
  }

 private:
  const LogSoftmaxCall<T>& call;
  OutputPanels<T>& panels;
  const bool few;
  List<const T*> h;
  List<T*> to;
  List<T> tops, sums;  // (N, threads): the greatest of each range, and Σ exp(· − greatest)

  long count() const { return ceil_div(call.vocab, panel<T>); }

  void dot(long from, long to) const {
    for (long v = from; v < to; v += lanes<T>) {
      const int count = int(std::min<long>(lanes<T>, to - v));
      for (long n = 0; n < call.rows; n++) {
        const Vec<T> sum = dots<T>(call.weight + v * call.size, call.size, count, call.h + n * call.size, call.size);
        store_some<T>(call.log_probs + n * call.vocab + v, sum, count);
      }
    }
  }

  // Takes the measure of columns [from, to) of row n, the bias added where the product did not.
  void measure(long n, long from, long to, T& top, T& sum) const {
    T* row = call.log_probs + n * call.vocab;
    const T* bias = few ? call.bias : nullptr;
    Vec<T> most = splat<T>(-std::numeric_limits<T>::infinity()), part = {};
    const long whole = from + (to - from) / lanes<T> * lanes<T>;
    for (long v = from; v < whole; v += lanes<T>) {
      Vec<T> x = load<T>(row + v);
      if (bias) store<T>(row + v, x += load<T>(bias + v));
      most = most > x ? most : x;
    }
    top = greatest<T>(most);
    for (long v = whole; v < to; v++) {
      if (bias) row[v] += bias[v];
      top = top > row[v] ? top : row[v];
    }
    const T base = top == -std::numeric_limits<T>::infinity() ? T(0) : top;  // a range of nothing but -inf sums to 0
    for (long v = from; v < whole; v += lanes<T>) part += decay<T>(load<T>(row + v) - base);
    sum = total<T>(part);
    for (long v = whole; v < to; v++) sum += std::exp(row[v] - base);
  }
};

}  // namespace

template <class T>
void log_softmax(const LogSoftmaxCall<T>& call, OutputPanels<T>& panels, int threads) {
  if (call.rows == 0) return;
  if (double(call.rows) * call.size * call.vocab < double(1 << 16)) threads = 1;
  Region region;
  Barrier barrier(region, threads);
  LogSoftmax<T> all(call, panels, threads);
  region.run(threads, [&](int rank, int size) { all.run(Team{barrier, rank, size}); });
  if (!few_rows(call.rows)) panels.keep();
}

template void log_softmax(const LogSoftmaxCall<float>&, OutputPanels<float>&, int);
template void log_softmax(const LogSoftmaxCall<double>&, OutputPanels<double>&, int);

}  // namespace carousel
