// The choice of the next token: a chain of samplers on rows of log-probabilities, then one draw a row.
//
// The twin of decoding/samplers.py, in its order and with its names. Where that handles a batch at once, this has one
// row in the first-level cache from beginning to end.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "predict.hpp"

namespace carousel {

enum class Sampling { temperature, top_k, random_k, top_p };

struct Sampler {
  Sampling kind;
  double value;  // t, k, k or p
};

template <class T>
struct Choices {
  long rows, vocab;
  const T* log_probs;     // (N, V), -inf for never
  const double* uniform;  // (N), in [0, 1), `stride` apart; null: zeros
  long stride;
  std::int64_t* tokens;  // (N)
  T* values;             // (N): the log-probabilities of the tokens
  bool* found;           // (N): whether there was anything to draw from
};

// One row's candidates, each with the weight exp(scale · value), and the memory that they need.
template <class T>
class Draw {
 public:
  Draw(const T* row, long vocab) : values(row), count(vocab) {}

  // Whether there is a token; a row with a NaN has none.
  bool choose(const std::vector<Sampler>& samplers, double uniform, std::int64_t& token, T& value) {
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
  std::vector<Item> kept;      // (count), once anything was left out
  std::vector<T> kept_values;  // (count): theirs, where `values` then points
  bool ranked = false;         // best first; otherwise in the vocabulary's order
  bool even = false;           // what is in weighs the same
  bool nan = false;
  double scale = 1;
  std::vector<T> weights;
  std::vector<double> ends;

  void take() {
    kept_values.resize(kept.size());
    for (std::size_t j = 0; j < kept.size(); j++) kept_values[j] = kept[j].value;
    values = kept_values.data(), count = long(kept.size());
  }

  // The k best, best first, without those that are never.
  void narrow(long k) {
    if (ranked) {
      count = std::min(count, k);
      return;
    }
    const bool all = kept.empty();
    std::vector<Item> heap;  // the worst of the best on top
    heap.reserve(std::min(k, count) + 1);
    T bar = never;  // what a candidate must exceed: a later equal comes after
    auto offer = [&](long j) {
      const T value = values[j];
      if (value != value) nan = true;
      if (!(value > bar)) return;
      heap.push_back({value, all ? std::int32_t(j) : kept[j].token});
      std::push_heap(heap.begin(), heap.end());
      if (long(heap.size()) > k) std::pop_heap(heap.begin(), heap.end()), heap.pop_back();
      if (long(heap.size()) == k) bar = heap.front().value;
    };
    constexpr long stride = 4 * lanes<T>;
    long j = 0;
    for (; j + stride <= count; j += stride) {
      auto hit = ~(load<T>(values + j) <= bar);  // NaN is a hit
      for (int n = 1; n < 4; n++) hit |= ~(load<T>(values + j + n * lanes<T>) <= bar);
      if (!any(hit)) continue;
      for (long i = j; i < j + stride; i++) offer(i);
    }
    for (; j < count; j++) offer(j);
    std::sort_heap(heap.begin(), heap.end());
    kept = std::move(heap);
    ranked = true;
    take();
  }

  template <class Mask>
  static CAROUSEL_INLINE bool any(const Mask& mask) {
    std::uint64_t part[sizeof(Mask) / 8], found = 0;
    std::memcpy(part, &mask, sizeof mask);
    for (std::uint64_t p : part) found |= p;
    return found != 0;
  }

  // The fewest best that together have p of the weight.
  void keep(double p) {
    weigh();
    double need = 0;
    for (long j = 0; j < count; j += segment) need += sum(j, std::min(count, j + segment));
    need *= p;
    if (need != need) nan = true;
    if (nan) return;
    if (ranked) {
      double so_far = 0;
      long last = 0;
      while (last < count - 1 && (so_far += weights[last]) < need) last++;
      count = std::min(count, last + 1);
      return;
    }
    std::vector<Item> items;  // `token` is the place, until all is done
    for (long j = 0; j < count; j++)
      if (values[j] > never) items.push_back({values[j], std::int32_t(j)});
    long from = 0, to = long(items.size());
    while (to - from > 1) {  // the last one kept is in [from, to), all before are better, all after worse
      const long mid = (from + to) / 2;
      std::nth_element(items.begin() + from, items.begin() + mid, items.begin() + to);
      double better = 0;
      for (long j = from; j < mid; j++) better += weights[items[j].token];
      if (better >= need) to = mid;
      else need -= better, from = mid;
    }
    items.resize(to);
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.token < b.token; });
    if (!kept.empty())
      for (Item& item : items) item.token = kept[item.token].token;
    kept = std::move(items);
    take();
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

template <class T>
void choose(const Choices<T>& call, const std::vector<Sampler>& samplers, int threads) {
  if (call.rows * call.vocab < 1 << 14) threads = 1;
  parallel(int(std::min<long>(threads, std::max(1L, call.rows))), [&](int rank, int size) {
    for (long n = call.rows * rank / size; n < call.rows * (rank + 1) / size; n++)
      call.found[n] = Draw<T>(call.log_probs + n * call.vocab, call.vocab)
                          .choose(samplers, call.uniform ? call.uniform[n * call.stride] : 0, call.tokens[n], call.values[n]);
  });
}

}  // namespace carousel
