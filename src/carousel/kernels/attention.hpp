// The scores of additive attention, v · tanh(q + k) for every query q and key k of a sequence, and their derivative.
//
// In torch the sums q + k of all pairs stand in memory, and their tanh again, D numbers for each pair. Here they never
// exist: a pair's sum is gone as soon as it is added up, and made again for the derivative. What is past a sequence's
// end, among queries or keys, is not computed at all.
#pragma once

#include <algorithm>
#include <cmath>

#include "predict.hpp"

namespace carousel {

// What one call is given. B sequences of at most T queries and S keys with D numbers each.
template <class T>
struct Scores {
  long batch, queries, keys, size;  // B, T, S, D
  const T* query;                   // (B, T, D): numbers side by side, sequences and queries as far apart as
  long query_stride[2];             // these say
  const T* key;                     // (B, S, D)
  const T* v;                       // (D)
  const std::int64_t* query_count;  // (B): how many queries are real; null: all
  const std::int64_t* key_count;    // (B): how many keys are
  T* scores;                        // (B, T, S), 0 past an end; null in a backward call
  const T* d_scores;                // (B, T, S)
  T* d_query;                       // (B, T, D), laid out like query
  T* d_key;                         // (B, S, D)
  T* d_v;                           // (B, D): each sequence's part
};

// One query before n keys of D numbers: as many tanh at once hide each other's divisions.
template <int n, class T>
void score(const T* q, const T* k, const T* v, long D, T* out) {
  const long whole = D / lanes<T> * lanes<T>;
  Vec<T> sum[n] = {};
  for (long i = 0; i < whole; i += lanes<T>) {
    const Vec<T> a = load<T>(q + i), w = load<T>(v + i);
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) sum[j] += w * tanh<T>(a + load<T>(k + j * D + i));
  }
  if (whole < D) {
    const int rest = int(D - whole);
    const Vec<T> a = load_some<T>(q + whole, rest), w = load_some<T>(v + whole, rest);
    for (int j = 0; j < n; j++) sum[j] += w * tanh<T>(a + load_some<T>(k + j * D + whole, rest));
  }
  for (int j = 0; j < n; j++) out[j] = total<T>(sum[j]);
}

template <class T>
void scores(const T* q, const T* keys, long count, const T* v, long D, T* out) {
  long s = 0;
  for (; s + 4 <= count; s += 4) score<4>(q, keys + s * D, v, D, out + s);
  for (; s < count; s++) score<1>(q, keys + s * D, v, D, out + s);
}

template <class T>
class Additive {
 public:
  explicit Additive(const Scores<T>& call) : call(call), whole(call.size / lanes<T> * lanes<T>) {}

  // Sequence b, both ways.
  void forward(long b) const {
    const long T_ = count(call.query_count, b, call.queries), S_ = count(call.key_count, b, call.keys);
    T* row = call.scores + b * call.queries * call.keys;
    std::fill_n(row, call.queries * call.keys, T(0));
    for (long t = 0; t < T_; t++, row += call.keys) {
      scores(call.query + place(b, t), key(b, 0), S_, call.v, call.size, row);
    }
  }

  void backward(long b) const {
    const long D = call.size, T_ = count(call.query_count, b, call.queries), S_ = count(call.key_count, b, call.keys);
    for (long t = 0; t < call.queries; t++) std::fill_n(call.d_query + place(b, t), D, T(0));
    std::fill_n(call.d_key + b * call.keys * D, call.keys * D, T(0));
    std::fill_n(call.d_v + b * D, D, T(0));
    for (long s = 0; s < S_; s++)
      for (long t = 0; t < T_; t++) {
        const T d = call.d_scores[(b * call.queries + t) * call.keys + s];
        if (d == 0) continue;
        T *dq = call.d_query + place(b, t), *dk = call.d_key + (b * call.keys + s) * D;
        T* dv = call.d_v + b * D;
        const T *q = call.query + place(b, t), *k = key(b, s);
        for (long i = 0; i < whole; i += lanes<T>) derive<false>(d, q + i, k + i, call.v + i, dq + i, dk + i, dv + i, 0);
        if (whole < D)
          derive<true>(d, q + whole, k + whole, call.v + whole, dq + whole, dk + whole, dv + whole, int(D - whole));
      }
  }

 private:
  const Scores<T>& call;
  const long whole;

  static long count(const std::int64_t* counts, long b, long most) {
    return counts ? std::clamp<long>(counts[b], 0, most) : most;
  }
  long place(long b, long t) const { return b * call.query_stride[0] + t * call.query_stride[1]; }
  const T* key(long b, long s) const { return call.key + (b * call.keys + s) * call.size; }

  template <bool tail>
  static void derive(T d, const T* q, const T* k, const T* v, T* dq, T* dk, T* dv, int n) {
    const Vec<T> y = tanh<T>(load_n<tail>(q, n) + load_n<tail>(k, n));
    const Vec<T> inner = d * load_n<tail>(v, n) * d_tanh(y);
    store_n<tail>(dq, load_n<tail>(dq, n) + inner, n);
    store_n<tail>(dk, load_n<tail>(dk, n) + inner, n);
    store_n<tail>(dv, load_n<tail>(dv, n) + d * y, n);
  }
};

// A search's step from the layers' output to the vector that predicts a token: the same attention, its softmax and its
// context, and tanh(U y + context + b), where the context is that of values which W has been applied to already.
template <class T>
struct Look {
  long rows, each, keys, query, size, out;  // N = B·each, S, H, D, O
  const T* y;                               // (N, H)
  const T* weight;                          // (D + O, H): what makes queries of y, then U
  const T* bias;                            // (D + O)
  const T* key;                             // (B, S, D)
  const T* v;                               // (D)
  const T* value;                           // (B, S, O)
  const std::int64_t* count;                // (B): how many places are real; null: all
  T* vectors;                               // (N, O)
};

template <class T>
class Looking {
 public:
  Looking(const Look<T>& call, OutputPanels<T>& panels) : call(call), panels(panels), width(call.size + call.out) {
    panels.reserve(width, call.query);
    maps.reserve(call.rows * width);
    for (long n = 0; n < call.rows; n++) y.push_back(call.y + n * call.query), to.push_back(maps + n * width);
  }

  void run(const Team& team) {
    long p0, p1;
    team.share(ceil_div(width, panel<T>), p0, p1);
    panels.pack(call.weight, call.bias, width, call.query, p0, p1);
    const Packed<T> W{panels.weight, call.query, nullptr, width, panels.bias};
    multiply<T>(call.rows, y.data(), 0, W, p0, p1, to.data(), Into::store);
    team.sync();
    std::vector<T> weights(call.keys);
    for (long n = team.rank; n < call.rows; n += team.size) look(n, weights.data());
  }

 private:
  const Look<T>& call;
  OutputPanels<T>& panels;
  const long width;
  Buffer<T> maps;  // (N, D + O)
  std::vector<const T*> y;
  std::vector<T*> to;

  void look(long n, T* weight) const {
    const long b = n / call.each, D = call.size, O = call.out;
    const long S = call.count ? std::clamp<long>(call.count[b], 0, call.keys) : call.keys;
    scores(to[n], call.key + b * call.keys * D, S, call.v, D, weight);
    T top = -std::numeric_limits<T>::infinity(), sum = 0;
    for (long s = 0; s < S; s++) top = weight[s] > top ? weight[s] : top;
    for (long s = 0; s < S; s++) sum += weight[s] = std::exp(weight[s] - top);
    for (long s = 0; s < S; s++) weight[s] /= sum;
    const T *from = to[n] + D, *value = call.value + b * call.keys * O;
    T* vector = call.vectors + n * O;
    long i = 0;
    for (; i + 4 * lanes<T> <= O; i += 4 * lanes<T>) {
      Vec<T> a[4];
      for (int k = 0; k < 4; k++) a[k] = load<T>(from + i + k * lanes<T>);
      for (long s = 0; s < S; s++)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) a[k] += weight[s] * load<T>(value + s * O + i + k * lanes<T>);
      for (int k = 0; k < 4; k++) store<T>(vector + i + k * lanes<T>, tanh<T>(a[k]));
    }
    for (; i < O; i += lanes<T>) {
      const int some = int(std::min<long>(lanes<T>, O - i));
      Vec<T> a = load_some<T>(from + i, some);
      for (long s = 0; s < S; s++) a += weight[s] * load_some<T>(value + s * O + i, some);
      store_some<T>(vector + i, tanh<T>(a), some);
    }
  }
};

template <class T>
void look(const Look<T>& call, OutputPanels<T>& panels, int threads) {
  if (call.rows == 0) return;
  if (double(call.rows) * double(call.size + call.out) * double(call.query) < double(1 << 16)) threads = 1;
  Barrier barrier(threads);
  Looking<T> looking(call, panels);
  parallel(threads, [&](int rank, int size) { looking.run(Team{barrier, rank, size}); });
  panels.keep();
}

template <class T>
void additive(const Scores<T>& call, int threads) {
  const double pairs = double(call.batch) * double(call.queries) * double(call.keys);
  if (pairs * double(call.size) < double(1 << 14)) threads = 1;
  parallel(threads, [&](int rank, int size) {
    const Additive<T> my(call);
    for (long b = rank; b < call.batch; b += size) call.scores ? my.forward(b) : my.backward(b);
  });
}

}  // namespace carousel
