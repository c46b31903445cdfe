// Attention in one call: the scores of all queries and keys of a sequence, their softmax, the mean of the values that it
// weighs, and the derivative of it all.
//
// Nothing is computed for padding, because there is none: the queries of all sequences stand one sequence after the other,
// and so do keys and values.
//
// In torch the sums q + k of additive attention stand in memory for all pairs, and their tanh again, D numbers for each
// pair. Here they never exist: a pair's sum is gone as soon as it is added up, and made again for the derivative.
#include "attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/threads.hpp"

namespace carousel {

namespace {

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

// tanh(q + k) = 1 − 2 / (1 + e^{2q} e^{2k}). So the exponentials of queries and keys, each made once, spare every pair
// its own. `e` has them, and says whether they may be used: not where a product of two pairs could be too large.
template <class T>
struct Exponentials {
  Buffer<T> e;  // (rows, D)
  long D = 0;
  bool fit = false;

  void make(const T* from, long stride, long rows, long size) {
    D = size, fit = true;
    const long whole = D / lanes<T> * lanes<T>;
    for (long r = 0; r < rows; r++) {
      for (long i = 0; i < whole; i += lanes<T>) some<false>(from + r * stride + i, e + r * D + i, 0);
      if (whole < D) some<true>(from + r * stride + whole, e + r * D + whole, int(D - whole));
    }
  }
  const T* operator[](long r) const { return e + r * D; }

 private:
  template <bool tail>
  CAROUSEL_INLINE void some(const T* from, T* to, int n) {
    constexpr T limit = Exponential<T>::limit / 8;
    const Vec<T> x = load_n<tail>(from, n);
    Vec<T> scale, q;
    exponential<T>(clamp<T>(x + x, Exponential<T>::limit), scale, q);
    store_n<tail>(to, scale + scale * q, n);
    fit &= !lanes_where<T>(~((x <= limit) & (x >= -limit)));  // NaN does not fit
  }
};

// As `score`, from exponentials; `all` is the sum of v. Two vectors share a division: a/p + b/q = (aq + bp) / pq.
template <int n, class T>
void score_exponentials(const T* q, const T* k, const T* v, long D, T all, T* out) {
  constexpr long two = 2 * lanes<T>;
  const long whole = D / two * two;
  Vec<T> sum[n] = {};
  for (long i = 0; i < whole; i += two) {
    const Vec<T> q0 = load<T>(q + i), q1 = load<T>(q + i + lanes<T>), v0 = load<T>(v + i), v1 = load<T>(v + i + lanes<T>);
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
      const Vec<T> p0 = q0 * load<T>(k + j * D + i) + T(1), p1 = q1 * load<T>(k + j * D + i + lanes<T>) + T(1);
      sum[j] += (v0 * p1 + v1 * p0) / (p0 * p1);
    }
  }
  for (long i = whole; i < D; i += lanes<T>) {
    const int rest = int(std::min<long>(lanes<T>, D - i));
    const Vec<T> a = load_some<T>(q + i, rest), w = load_some<T>(v + i, rest);
    for (int j = 0; j < n; j++) sum[j] += w / (a * load_some<T>(k + j * D + i, rest) + T(1));
  }
  for (int j = 0; j < n; j++) out[j] = all - 2 * total<T>(sum[j]);
}

// The scores of queries before the keys of a sequence. Few queries are quicker without the keys' exponentials.
template <class T>
class Scoring {
 public:
  Exponentials<T> queries, keys;

  // At most `num_queries` queries before `places` keys of D numbers.
  Scoring(const T* v, long D, long num_queries, long places) : v(v), D(D) {
    for (long i = 0; i < D; i++) all += v[i];
    queries.e.reserve(num_queries * D), keys.e.reserve(places * D);
  }

  void begin(const T* query, long stride, long num_queries, const T* key, long places) {
    this->query = query, this->stride = stride, this->key = key;
    const bool many = num_queries >= 3;
    if (many) queries.make(query, stride, num_queries, D), keys.make(key, D, places, D);
    quick = many && queries.fit && keys.fit;
  }

  // Whether the exponentials stand for the numbers.
  bool exponential() const { return quick; }

  void score(long t, long places, T* out) const {
    long s = 0;
    for (; s + 4 <= places; s += 4) some<4>(t, s, out + s);
    for (; s < places; s++) some<1>(t, s, out + s);
  }

 private:
  const T *v, *query = nullptr, *key = nullptr;
  const long D;
  long stride = 0;
  T all = 0;
  bool quick = false;

  template <int n>
  void some(long t, long s, T* out) const {
    if (quick) score_exponentials<n>(queries[t], keys[s], v, D, all, out);
    else carousel::score<n>(query + t * stride, key + s * D, v, D, out);
  }
};

// v · row for each of `count` rows.
template <class T>
void products(const T* v, const T* rows, long count, long size, T* out) {
  for (long s = 0; s < count; s += lanes<T>) {
    const int some = int(std::min<long>(lanes<T>, count - s));
    store_some<T>(out + s, dots<T>(rows + s * size, size, some, v, size), some);
  }
}

// Σ w row over `count` rows and their weights, `step` and `stride` apart: take(i, sum, n) gets n numbers of it from i on.
template <class T, class Take>
void weigh(long count, const T* w, long step, const T* rows, long stride, long size, const Take& take) {
  constexpr int some = 4;
  long i = 0;
  for (; i + some * lanes<T> <= size; i += some * lanes<T>) {
    Vec<T> sum[some] = {};
    for (long j = 0; j < count; j++)
#pragma GCC unroll 4
      for (int k = 0; k < some; k++) sum[k] += w[j * step] * load<T>(rows + j * stride + i + k * lanes<T>);
#pragma GCC unroll 4
    for (int k = 0; k < some; k++) take(i + k * lanes<T>, sum[k], lanes<T>);
  }
  for (; i < size; i += lanes<T>) {
    const int n = int(std::min<long>(lanes<T>, size - i));
    Vec<T> sum = {};
    for (long j = 0; j < count; j++) sum += w[j * step] * load_some<T>(rows + j * stride + i, n);
    take(i, sum, n);
  }
}

template <class T>
CAROUSEL_INLINE Vec<T> load_up_to(const T* p, int n) {
  return n == lanes<T> ? load<T>(p) : load_some<T>(p, n);
}

template <class T>
CAROUSEL_INLINE void store_up_to(T* p, Vec<T> v, int n) {
  if (n == lanes<T>) store<T>(p, v);
  else store_some<T>(p, v, n);
}

// One thread's part of a call: sequence by sequence, both ways.
template <class T>
class Attending {
 public:
  explicit Attending(const Attend<T>& call) : call(call), D(call.size), O(call.out), S(call.most) {
    long longest = 0;
    for (long b = 0, n = 0; b < call.sequences; b++) {
      first.push_back(n);
      n += call.num_queries[b];
      longest = std::max<long>(longest, call.num_queries[b]);
    }
    if (call.v) scoring.emplace(call.v, D, longest, S);
    if (!call.d_result) return;
    d_scores.reserve(longest * S);
    if (call.v) slopes.reserve(D), seen.reserve(D);
  }

  void forward(long b) {
    const long n = call.num_queries[b], here = places(b);
    compare(b);
    for (long t = 0; t < n; t++) {
      T* w = weights(b, t);
      if (!call.key) std::copy_n(query(b, t), here, w);
      else if (call.v) scoring->score(t, here, w);
      else products(query(b, t), key(b), here, D, w);
      soften(w, here);
      std::fill(w + here, w + S, T(0));
      const T* base = call.base ? call.base + (first[b] + t) * call.base_row : nullptr;
      T* to = call.result + (first[b] + t) * O;
      weigh(here, w, 1, value(b), O, O, [&](long i, Vec<T> sum, int some) {
        store_up_to<T>(to + i, base ? tanh<T>(load_up_to(base + i, some) + sum) : sum, some);
      });
    }
  }

  // What it adds to the gradients of keys and values is added to what is there.
  void backward(long b) {
    const long n = call.num_queries[b], here = places(b);
    if (call.base)
      for (long k = first[b] * O; k < (first[b] + n) * O; k++) call.d_base[k] = call.d_result[k] * d_tanh(call.result[k]);
    const T* d_context = (call.base ? call.d_base : call.d_result) + first[b] * O;
    T sum = 0;
    for (long t = 0; t < n; t++) {
      T *d = d_scores + t * S, mean = 0;
      const T* w = weights(b, t);
      products(d_context + t * O, value(b), here, O, d);
      if (call.d_weights)
        for (long s = 0; s < here; s++) d[s] += call.d_weights[(first[b] + t) * S + s];
      for (long s = 0; s < here; s++) mean += w[s] * d[s];
      for (long s = 0; s < here; s++) sum += d[s] = w[s] * (d[s] - mean);
    }
    for (long s = 0; s < here; s++)
      weigh(n, weights(b, 0) + s, S, d_context, O, O, adder(call.d_value + (call.start[b] + s) * O));
    T *d_query = call.d_query + first[b] * D, *d_key = call.key ? call.d_key + call.start[b] * D : nullptr;
    if (!call.key) {
      std::fill_n(d_query, n * D, T(0));
      for (long t = 0; t < n; t++) std::copy_n(d_scores + t * S, here, d_query + t * D);
    } else if (call.v) {
      compare(b);
      if (scoring->exponential()) additive<true>(b, n, here, sum, d_query, d_key);
      else additive<false>(b, n, here, sum, d_query, d_key);
    } else {
      for (long t = 0; t < n; t++)
        weigh(here, d_scores + t * S, 1, key(b), D, D, [&](long i, Vec<T> part, int some) {
          store_up_to<T>(d_query + t * D + i, part, some);
        });
      for (long s = 0; s < here; s++)
        weigh(n, d_scores + s, S, query(b, 0), call.query_row, D, adder(d_key + s * D));
    }
  }

 private:
  const Attend<T>& call;
  const long D, O, S;
  List<long> first;  // (B): a sequence's first query
  std::optional<Scoring<T>> scoring;
  Buffer<T> d_scores;      // (queries, S)
  Buffer<T> slopes, seen;  // (D): of one key, and of all

  // How many places of its sequence a query sees.
  long places(long b) const { return call.key ? call.count[b] : std::min<long>(call.count[b], D); }
  const T* query(long b, long t) const { return call.query + (first[b] + t) * call.query_row; }
  const T* key(long b) const { return call.key + call.start[b] * D; }
  const T* value(long b) const { return call.value + call.start[b] * O; }
  T* weights(long b, long t) const { return call.weights + (first[b] + t) * S; }

  void compare(long b) {
    if (call.v) scoring->begin(query(b, 0), call.query_row, call.num_queries[b], key(b), places(b));
  }

  // Scores become weights.
  static void soften(T* w, long count) {
    T top = -std::numeric_limits<T>::infinity(), sum = 0;
    for (long s = 0; s < count; s++) top = w[s] > top ? w[s] : top;
    for (long s = 0; s < count; s += lanes<T>) {
      const int some = int(std::min<long>(lanes<T>, count - s));
      store_up_to<T>(w + s, decay<T>(load_up_to(w + s, some) - top), some);
    }
    for (long s = 0; s < count; s++) sum += w[s];
    for (long s = 0; s < count; s++) w[s] /= sum;
  }

  static auto adder(T* to) {
    return [to](long i, Vec<T> sum, int n) { store_up_to<T>(to + i, load_up_to(to + i, n) + sum, n); };
  }

  // The derivative of v · tanh(q + k). With r = (1 − tanh(q + k)) / 2, which is 1 / (1 + e^{2q} e^{2k}), tanh′ is
  // 4 r (1 − r); so the factor 4v waits until the sums are made.
  template <bool exponential>
  void additive(long b, long n, long here, T sum, T* d_query, T* d_key) {
    std::fill_n(d_query, n * D, T(0));
    std::fill_n(seen + 0, D, T(0));
    for (long s = 0; s < here; s++) {
      std::fill_n(slopes + 0, D, T(0));
      const T* k = exponential ? scoring->keys[s] : key(b) + s * D;
      long t = 0;
      for (; t + 2 <= n; t += 2) pairs<exponential, 2>(b, t, s, k, d_query + t * D);
      if (t < n) pairs<exponential, 1>(b, t, s, k, d_query + t * D);
      for (long i = 0; i < D; i++) d_key[s * D + i] += 4 * call.v[i] * slopes[i];
    }
    for (long t = 0; t < n; t++)
      for (long i = 0; i < D; i++) d_query[t * D + i] *= 4 * call.v[i];
    for (long i = 0; i < D; i++) call.d_v[b * D + i] = sum - 2 * seen[i];
  }

  // Key s and m queries from t on.
  template <bool exponential, int m>
  void pairs(long b, long t, long s, const T* k, T* d_query) const {
    const T *q[m], *d = d_scores + t * S + s;
    for (int j = 0; j < m; j++) q[j] = exponential ? scoring->queries[t + j] : query(b, t + j);
    const long whole = D / lanes<T> * lanes<T>;
    for (long i = 0; i < whole; i += lanes<T>) pairs<exponential, m, false>(q, k, d, d_query, i, 0);
    if (whole < D) pairs<exponential, m, true>(q, k, d, d_query, whole, int(D - whole));
  }

  template <bool exponential, int m, bool tail>
  CAROUSEL_INLINE void pairs(const T* const* q, const T* k, const T* d, T* d_query, long i, int n) const {
    const Vec<T> key = load_n<tail>(k + i, n);
    Vec<T> r[m], slope = load_n<tail>(slopes + i, n), all = load_n<tail>(seen + i, n);
    for (int j = 0; j < m; j++) {
      const Vec<T> query = load_n<tail>(q[j] + i, n);
      r[j] = exponential ? query * key + T(1) : T(0.5) - T(0.5) * tanh<T>(query + key);
    }
    if (exponential && m == 2) {  // which share a division
      const Vec<T> both = T(1) / (r[0] * r[m - 1]), other = r[0];
      r[0] = r[m - 1] * both, r[m - 1] = other * both;
    } else if (exponential) {
      r[0] = T(1) / r[0];
    }
    for (int j = 0; j < m; j++) {
      const Vec<T> part = d[j * S] * r[j], inner = part - part * r[j];
      store_n<tail>(d_query + j * D + i, load_n<tail>(d_query + j * D + i, n) + inner, n);
      slope += inner, all += part;
    }
    store_n<tail>(slopes + i, slope, n);
    store_n<tail>(seen + i, all, n);
  }
};

}  // namespace

template <class T>
void attend(const Attend<T>& call, int threads) {
  long queries = 0;
  List<std::pair<long, long>> places;  // of each sequence: from, to
  for (long b = 0; b < call.sequences; b++) {
    queries += call.num_queries[b];
    if (call.count[b]) places.emplace_back(call.start[b], call.start[b] + call.count[b]);
  }
  std::sort(places.begin(), places.end());
  bool apart = true;  // else two sequences' threads could add to one place
  for (std::size_t k = 1; k < places.size(); k++) apart &= places[k].first >= places[k - 1].second;
  const double work = double(queries) * double(call.most) * double(call.size + call.out);
  if (work < double(1 << 14) || (call.d_result && !apart)) threads = 1;
  Region region;
  Barrier barrier(region, threads);
  region.run(threads, [&](int rank, int size) {
    const Team team{barrier, rank, size};
    Attending<T> my(call);
    if (!call.d_result) {
      for (long b = rank; b < call.sequences; b += size) my.forward(b);
      return;
    }
    auto clear = [&](T* to, long n) {
      long from, end;
      team.share(n, from, end);
      if (to) std::fill(to + from, to + end, T(0));
    };
    clear(call.d_key, call.places * call.size);
    clear(call.d_value, call.places * call.out);
    team.sync();
    for (long b = rank; b < call.sequences; b += size) my.backward(b);
  });
}

template <class T>
void attend_step(const AttendStep<T>& call, OutputPanels<T>& panels, int threads) {
  if (call.rows == 0) return;
  const long width = call.size + call.out;
  if (double(call.rows) * double(width) * double(call.query) < double(1 << 16)) threads = 1;
  panels.reserve(width, call.query);
  Buffer<T> maps, weights;
  maps.reserve(call.rows * width), weights.reserve(call.rows * call.most);
  List<const T*> y;
  List<T*> to;
  for (long n = 0; n < call.rows; n++) y.push_back(call.y + n * call.query), to.push_back(maps + n * width);
  Attend<T> inner;
  inner.sequences = call.sequences, inner.size = call.size, inner.out = call.out, inner.most = call.most;
  inner.query = maps, inner.base = maps + call.size, inner.query_row = inner.base_row = width;
  inner.key = call.key, inner.v = call.v, inner.value = call.value;
  inner.num_queries = call.num_queries, inner.start = call.start, inner.count = call.count;
  inner.weights = weights, inner.result = call.vectors;
  Region region;
  Barrier barrier(region, threads);
  region.run(threads, [&](int rank, int size) {
    const Team team{barrier, rank, size};
    long p0, p1;
    team.share(ceil_div(width, panel<T>), p0, p1);
    panels.pack(call.weight, call.bias, width, call.query, p0, p1);
    const Packed<T> W{panels.weight, call.query, nullptr, width, panels.bias};
    multiply<T>(call.rows, y.data(), 0, W, p0, p1, to.data(), Into::store);
    team.sync();
    Attending<T> my(inner);
    for (long b = rank; b < inner.sequences; b += size) my.forward(b);
  });
  panels.keep();
}

template void attend(const Attend<float>&, int);
template void attend_step(const AttendStep<float>&, OutputPanels<float>&, int);
template void attend(const Attend<double>&, int);
template void attend_step(const AttendStep<double>&, OutputPanels<double>&, int);

}  // namespace carousel
