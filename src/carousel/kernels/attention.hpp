// The scores of additive attention, v · tanh(q + k) for every query q and key k of a sequence, and their derivative.
//
// In torch the sums q + k of all pairs stand in memory, and their tanh again, D numbers for each pair. Here they never
// exist: a pair's sum is gone as soon as it is added up, and made again for the derivative. What is past a sequence's
// end, among queries or keys, is not computed at all.
#pragma once

#include <algorithm>

#include "layer.hpp"

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
      const T* q = call.query + place(b, t);
      long s = 0;
      for (; s + 4 <= S_; s += 4) score<4>(q, key(b, s), row + s);
      for (; s < S_; s++) score<1>(q, key(b, s), row + s);
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

  // One query before n keys: as many tanh at once hide each other's divisions.
  template <int n>
  void score(const T* q, const T* k, T* out) const {
    const long D = call.size;
    Vec<T> sum[n] = {};
    for (long i = 0; i < whole; i += lanes<T>) {
      const Vec<T> a = load<T>(q + i), v = load<T>(call.v + i);
#pragma GCC unroll 4
      for (int j = 0; j < n; j++) sum[j] += v * tanh<T>(a + load<T>(k + j * D + i));
    }
    if (whole < D) {
      const int rest = int(D - whole);
      const Vec<T> a = load_some<T>(q + whole, rest), v = load_some<T>(call.v + whole, rest);
      for (int j = 0; j < n; j++) sum[j] += v * tanh<T>(a + load_some<T>(k + j * D + whole, rest));
    }
    for (int j = 0; j < n; j++) out[j] = total<T>(sum[j]);
  }

  template <bool tail>
  static void derive(T d, const T* q, const T* k, const T* v, T* dq, T* dk, T* dv, int n) {
    const Vec<T> y = tanh<T>(load_n<tail>(q, n) + load_n<tail>(k, n));
    const Vec<T> inner = d * load_n<tail>(v, n) * d_tanh(y);
    store_n<tail>(dq, load_n<tail>(dq, n) + inner, n);
    store_n<tail>(dk, load_n<tail>(dk, n) + inner, n);
    store_n<tail>(dv, load_n<tail>(dv, n) + d * y, n);
  }
};

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
