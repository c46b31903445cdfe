// The output layer for a few rows: log softmax(W h + b), with W read where it is.
//
// Packing W, as the large products do, would cost more than it saves: here the rows h are packed instead, and strips of
// (W hᵀ) turned over into place. Each thread has a range of the vocabulary, from its products to its log-probabilities;
// all that threads tell one another is each row's share of the sum.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "output.hpp"  // decay

namespace carousel {

template <class T>
struct Prediction {
  long rows, size, vocab;  // N, D, V
  const T* h;              // (N, D)
  const T* weight;         // (V, D)
  const T* bias;           // (V); null: none
  T* log_probs;            // (N, V)
};

template <class T>
CAROUSEL_INLINE T greatest(Vec<T> v) {
  T lane[lanes<T>], most;
  store<T>(lane, v);
  most = lane[0];
  for (int j = 1; j < lanes<T>; j++) most = most > lane[j] ? most : lane[j];
  return most;
}

template <class T>
class Predictor {
 public:
  Predictor(const Prediction<T>& call, int threads) : call(call), tops(call.rows * threads), sums(call.rows * threads) {
    if (brief()) return;
    const long N = call.rows, D = call.size, panels = ceil_div(N, panel<T>);
    packed.reserve(panels * D * panel<T>);
    for (long p = 0; p < panels; p++) {
      const long n = std::min<long>(panel<T>, N - p * panel<T>);
      T* to = packed + p * D * panel<T>;
      if (n < panel<T>) std::fill_n(to, D * panel<T>, T(0));
      transpose<T>(call.h + p * panel<T> * D, D, n, D, to, panel<T>);
    }
  }

  void run(const Team& team) {
    long from, to;
    team.share(ceil_div(call.vocab, lanes<T>), from, to);
    from *= lanes<T>, to = std::min(to * lanes<T>, call.vocab);
    if (brief()) dot(from, to);
    else multiply_strips(from, to);
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
  const Prediction<T>& call;
  Buffer<T> packed;           // (panels, D, panel): hᵀ
  std::vector<T> tops, sums;  // (N, threads): the greatest of each range, and Σ exp(· − greatest)

  bool brief() const { return call.rows <= 4; }

  void dot(long from, long to) const {
    for (long v = from; v < to; v += lanes<T>) {
      const int count = int(std::min<long>(lanes<T>, to - v));
      for (long n = 0; n < call.rows; n++) {
        const Vec<T> sum = dots<T>(call.weight + v * call.size, call.size, count, call.h + n * call.size, call.size);
        store_some<T>(call.log_probs + n * call.vocab + v, sum, count);
      }
    }
  }

  void multiply_strips(long from, long to) const {
    constexpr long strip = 48;  // rows of W: whole tiles, and of a size that stays in the first-level cache
    const long panels = ceil_div(call.rows, panel<T>), wide = panels * panel<T>;
    const Packed<T> B{packed, call.size, nullptr, wide, nullptr};
    Buffer<T> memory;
    memory.reserve(strip * wide);
    const T* A[strip];
    T* C[strip];
    for (long k = 0; k < strip; k++) C[k] = memory + k * wide;
    for (long v = from; v < to; v += strip) {
      const long count = std::min(strip, to - v);
      for (long k = 0; k < count; k++) A[k] = call.weight + (v + k) * call.size;
      multiply<T>(count, A, 0, B, 0, panels, C, Into::store);
      transpose<T>(memory, wide, count, call.rows, call.log_probs + v, call.vocab);
    }
  }

  // Adds the bias to columns [from, to) of row n, and takes their measure.
  void measure(long n, long from, long to, T& top, T& sum) const {
    T* row = call.log_probs + n * call.vocab;
    Vec<T> most = splat<T>(-std::numeric_limits<T>::infinity()), part = {};
    const long whole = from + (to - from) / lanes<T> * lanes<T>;
    for (long v = from; v < whole; v += lanes<T>) {
      Vec<T> x = load<T>(row + v);
      if (call.bias) store<T>(row + v, x += load<T>(call.bias + v));
      most = most > x ? most : x;
    }
    top = greatest<T>(most);
    for (long v = whole; v < to; v++) {
      if (call.bias) row[v] += call.bias[v];
      top = top > row[v] ? top : row[v];
    }
    const T base = top == -std::numeric_limits<T>::infinity() ? T(0) : top;  // a range of nothing but -inf sums to 0
    for (long v = from; v < whole; v += lanes<T>) part += decay<T>(load<T>(row + v) - base);
    sum = total<T>(part);
    for (long v = whole; v < to; v++) sum += std::exp(row[v] - base);
  }
};

template <class T>
void predict(const Prediction<T>& call, int threads) {
  if (call.rows == 0) return;
  if (double(call.rows) * call.size * call.vocab < double(1 << 16)) threads = 1;
  Barrier barrier(threads);
  Predictor<T> predictor(call, threads);
  parallel(threads, [&](int rank, int size) { predictor.run(Team{barrier, rank, size}); });
}

}  // namespace carousel
