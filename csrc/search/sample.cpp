// The next token of each row: a chain of samplers on log-probabilities, then one draw.
//
// The twin of decoding/samplers.py, in its order and with its names. Where that handles a batch at once, this has one
// row in the first-level cache from beginning to end.
#include "search/sample.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/gemm.hpp"
#include "core/threads.hpp"

namespace carousel {

namespace {

// One row's candidates, each with the weight exp(scale · value), and the memory that they need.
template <class T>
class Draw {
 public:
  Draw(const T* row, long vocab) : values(row), count(vocab) {}

  // Whether there is a token; a row with a NaN has none.
  bool sample(const List<Sampler>& samplers, double uniform, std::int64_t& token, T& value) {
    token = 0, value = never;
    for (const Sampler& s : samplers) {
      if (s.kind == Sampling::temperature) scale = std::min(std::max(scale / s.value, 1e-30), 1e30);
      else if (s.kind == Sampling::top_p) s.value < 1 ? keep(s.value) : void();
      else narrow(long(s.value)), even |= s.kind == Sampling::random_k;
      if (nan) return false;
    }
    if (!count) return false;
    weigh();
    const long place = locate(uniform);
    if (place < 0) return false;
    token = ranked || kept.size() ? kept[place].token : place;
    value = values[place];
    return true;
  }

 private:
  struct Item {
    T value;
    std::int32_t token;
    bool operator<(const Item& other) const {  // the better comes first; among equals the lower token
      return value > other.value || (value == other.value && token < other.token);
    }
  };
  static constexpr T never = -std::numeric_limits<T>::infinity();
  static constexpr long segment = 64;

  const T* values;             // (count)
  long count;
  List<Item> kept;      // (count), once anything was left out
  List<T> kept_values;  // (count): theirs, where `values` then points
  bool ranked = false;         // best first; otherwise in the vocabulary's order
  bool even = false;           // what is in weighs the same
  bool nan = false;
  double scale = 1;
  List<T> weights;
  List<double> ends;

  // The k best, best first, without those that are never.
  void narrow(long k) {
    if (ranked) {
      count = std::min(count, k);
      return;
    }
    // Few reach the k-th best of the blocks' maxima, and all the best do. A block is every `blocks`-th candidate.
    const long blocks = up(std::max(4 * k, long(std::sqrt(double(count) * k))), lanes<T>), deep = count / blocks;
    T bar;
    if (deep < 2) {
      bar = reach(values, nullptr, count, double(k), 2 * double(k));
    } else {
      weights.resize(blocks);
      for (long b = 0; b < blocks; b += lanes<T>) {
        Vec<T> most = load<T>(values + b);
        for (long d = 1; d < deep; d++) {
          const Vec<T> x = load<T>(values + d * blocks + b);
          most = most > x ? most : x;
        }
        store<T>(weights.data() + b, most);
      }
      bar = reach(weights.data(), nullptr, blocks, double(k), 2 * double(k));
    }
    List<Item> left;
    left.reserve(k + k / 4);
    auto offer = [&](long j) {
      if (values[j] >= bar) left.push_back({values[j], name(j)});
      else nan |= values[j] != values[j];
    };
    constexpr long n = lanes<T>;
    auto hit = [&](long j) { return ~(load<T>(values + j) < bar); };  // NaN is a hit
    long j = 0;
    for (; j + 4 * n <= count; j += 4 * n) {
      if (!lanes_where<T>(hit(j) | hit(j + n) | hit(j + 2 * n) | hit(j + 3 * n))) continue;
      for (long v = j; v < j + 4 * n; v += n)
        if (lanes_where<T>(hit(v)))
          for (long i = v; i < v + n; i++) offer(i);
    }
    for (; j < count; j++) offer(j);
    if (long(left.size()) > k) std::nth_element(left.begin(), left.begin() + k, left.end()), left.resize(k);
    std::sort(left.begin(), left.end());
    ranked = true;
    take(left);
  }

  // The fewest best that together have p of the weight; among equals those that come first.
  void keep(double p) {
    weigh();
    double need = p * mass(values, weights.data(), count, never);
    if (need != need) nan = true;
    if (nan) return;
    if (ranked) {
      double so_far = 0;
      long last = 0;
      while (last < count - 1 && (so_far += weights[last]) < need) last++;
      count = std::min(count, last + 1);
      return;
    }
    const T bar = reach(values, weights.data(), count, need);
    need -= mass(values, weights.data(), count, number(order(bar) + 1));  // what equals of the bar must bring
    List<Item> left;
    left.reserve(count);
    for (long j = 0; j < count; j++) {
      if (!(values[j] >= bar)) continue;
      if (values[j] == bar) {
        if (need <= 0) continue;
        need -= weights[j];
      }
      left.push_back({values[j], name(j)});
    }
    take(left);
  }

  std::int32_t name(long j) const { return kept.empty() ? std::int32_t(j) : kept[j].token; }

  void take(List<Item>& left) {
    kept.swap(left);
    kept_values.resize(kept.size());
    for (std::size_t j = 0; j < kept.size(); j++) kept_values[j] = kept[j].value;
    values = kept_values.data(), count = long(kept.size());
  }

  // What those of `bar` or better weigh, one each without weights (n).
  static double mass(const T* values, const T* weights, long n, T bar) {
    constexpr long together = 4 * lanes<T>, most = 64 * together;  // sums of few numbers keep their accuracy
    double sum = 0;
    long j = 0;
    while (j + together <= n) {
      Vec<T> part[4] = {};
      for (const long end = std::min(n, j + most); j + together <= end; j += together)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
          const Vec<T> w = weights ? load<T>(weights + j + i * lanes<T>) : splat<T>(1);
          part[i] += load<T>(values + j + i * lanes<T>) < bar ? Vec<T>{} : w;
        }
      sum += total<T>((part[0] + part[1]) + (part[2] + part[3]));
    }
    for (; j < n; j++) sum += values[j] < bar ? T(0) : weights ? weights[j] : T(1);
    return sum;
  }

  // The greatest bar at which that is still `need`, or one at which it is no more than `most`; the lowest finite number if
  // there is none. By halves, over all numbers there are: that needs no sorting and no guess.
  static T reach(const T* values, const T* weights, long n, double need, double most = 0) {
    typename Exponential<T>::Int from = order(std::numeric_limits<T>::lowest()), to = order(-never);
    while (from + 1 < to) {
      const auto middle = from / 2 + to / 2 + (from % 2 + to % 2) / 2;
      const double found = mass(values, weights, n, number(middle));
      if (found >= need) from = middle;
      else to = middle;
      if (found >= need && found <= most) break;
    }
    return number(from);
  }

  // Numbers as integers in the same order, and back.
  static typename Exponential<T>::Int order(T number) {
    typename Exponential<T>::Int bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits < 0 ? bits ^ std::numeric_limits<decltype(bits)>::max() : bits;
  }
  static T number(typename Exponential<T>::Int bits) {
    T number;
    bits = bits < 0 ? bits ^ std::numeric_limits<decltype(bits)>::max() : bits;
    std::memcpy(&number, &bits, sizeof bits);
    return number;
  }

  // weights[j] = exp(scale · (values[j] − the best))
  void weigh() {
    weights.resize(count);
    if (even) {
      for (long j = 0; j < count; j++) weights[j] = values[j] > never;
      return;
    }
    T top = never;
    if (ranked) top = count ? values[0] : never;
    else {
      Vec<T> most = splat<T>(never);
      long j = 0;
      for (; j + lanes<T> <= count; j += lanes<T>) {
        const Vec<T> x = load<T>(values + j);
        most = most > x ? most : x;
      }
      top = greatest<T>(most);
      for (; j < count; j++) top = top > values[j] ? top : values[j];
    }
    top = std::max(top, T(-1e38));  // a row of nothing but -inf weighs nothing
    const T by = T(scale);
    long j = 0;
    for (; j + lanes<T> <= count; j += lanes<T>) store<T>(weights.data() + j, decay<T>((load<T>(values + j) - top) * by));
    if (j < count) {
      const int n = int(count - j);
      store_some<T>(weights.data() + j, decay<T>((load_some<T>(values + j, n) - top) * by), n);
    }
  }

  // Of the weights in [from, to), a segment or less: sums of few numbers keep rare tokens their chance.
  T sum(long from, long to) const {
    const T* w = weights.data();
    Vec<T> part = {};
    for (; from + lanes<T> <= to; from += lanes<T>) part += load<T>(w + from);
    T sum = total<T>(part);
    for (; from < to; from++) sum += w[from];
    return sum;
  }

  // The first place by which more than `share` of the weights' sum is reached; -1 if there is none.
  long locate(double share) {
    const long parts = ceil_div(count, segment);
    ends.resize(parts);
    double all = 0;
    for (long s = 0; s < parts; s++) ends[s] = all += sum(s * segment, std::min(count, (s + 1) * segment));
    const double bar = share * all;
    if (!(all > bar)) return -1;
    const long s = std::upper_bound(ends.begin(), ends.end(), bar) - ends.begin();
    double so_far = s ? ends[s - 1] : 0;
    long last = -1;  // rounding must not push it past the segment's last that weighs anything
    for (long j = s * segment; j < std::min(count, (s + 1) * segment); j++) {
      if (weights[j] > 0) last = j;
      if ((so_far += weights[j]) > bar) return j;
    }
    return last;
  }
};

}  // namespace

template <class T>
void sample(const SampleCall<T>& call, const List<Sampler>& samplers, int threads) {
  if (call.rows * call.vocab < 1 << 14) threads = 1;
  parallel(int(std::min<long>(threads, std::max(1L, call.rows))), [&](int rank, int size) {
    for (long n = call.rows * rank / size; n < call.rows * (rank + 1) / size; n++)
      call.found[n] = Draw<T>(call.log_probs + n * call.vocab, call.vocab)
                          .sample(samplers, call.uniform ? call.uniform[n * call.stride] : 0, call.tokens[n], call.values[n]);
  });
}

template void sample(const SampleCall<float>&, const List<Sampler>&, int);
template void sample(const SampleCall<double>&, const List<Sampler>&, int);

}  // namespace carousel
