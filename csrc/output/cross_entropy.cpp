// The output layer of a language model in one pass over the tokens: x = W h + b, softmax, cross-entropy with its
// derivative. The matrix of all logits never exists.
//
// A block of tokens at a time, its logits are held as (classes, tokens). So the three products need no copy of them:
//     x  = W · hᵀ          W as it is given, h in panels
//     dW = δ · h           δ = p − y stands where x stood
//     dhᵀ = Wᵀ · δ         δ in place as the second factor; W is turned over once a call
// and the softmax runs over the rows with a token in each lane. Since the loss is one number, its derivative is known
// up to a factor as soon as the softmax is: δ is made while x is still in the cache, and x is never made again.
//
// The threads of a team share the classes: each holds its rows of W, x, δ and dW, and they exchange a token's maximum
// and sum, and their parts of dh, at one barrier a block. With few classes there are several teams that share the
// tokens, each with a dW of its own; these are added at the end, in one order.
#include "output/cross_entropy.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/gemm.hpp"
#include "core/threads.hpp"

namespace carousel {

namespace {

// What is known of the logits x of `lanes` tokens: the largest, Σ e^{x − top} and Σ x.
template <class T>
struct Seen {
  // not −∞: where every logit is −∞ so far, the differences are to be −∞ and not NaN
  Vec<T> top = splat<T>(std::numeric_limits<T>::lowest()), sum = {}, total = {};

  void add(const Seen& other) {
    const Vec<T> higher = other.top > top ? other.top : top;
    sum = sum * decay<T>(top - higher) + other.sum * decay<T>(other.top - higher);
    top = higher;
    total += other.total;
  }
};

template <class T>
class CrossEntropy {
 public:
  explicit CrossEntropy(const Output<T>& call)
      : call(call), D(call.features), V(call.classes), train(call.d_hidden || call.d_weight || call.d_bias),
        privates(call.threads) {
    barriers.reserve(call.threads + 1);
    for (int k = 0; k <= call.threads; k++) barriers.emplace_back(region, call.threads);
    for (long n = 0; n < call.tokens; n++) {
      const std::int64_t target = call.targets[n];
      if (target == call.ignore_index) {
        call.losses[n] = 0;
        if (call.d_hidden) std::fill_n(call.d_hidden + n * D, D, T(0));
        continue;
      }
      if (target < 0 || target >= V)
        throw std::out_of_range("linear_cross_entropy: targets holds " + std::to_string(target) +
                                ", accepted are 0 to " + std::to_string(V - 1) + " and ignore_index = " +
                                std::to_string(call.ignore_index));
      tokens.push_back(n);
    }
    threads = double(tokens.size()) * double(D) * double(V) < double(1 << 16) ? 1 : call.threads;
    const int m = members(threads);
    const long bytes = ceil_div(V, m) * long(sizeof(T)), at_once = std::clamp<long>(enough / bytes, fewest, most);
    panels = ceil_div(long(tokens.size()), panel<T>);
    blocks = std::min(panels, up(ceil_div(panels * panel<T>, at_once), threads / m));
    block = blocks ? ceil_div(panels, blocks) * panel<T> : 0;
    row = spread(block);
    seen.reserve(2 * threads * 4 * block);
    if (call.d_hidden) parts.reserve(2 * threads * D * row);
  }

  int threads;
  Region region;

  void run(int rank, int size) {
    const int m = members(size), groups = size / m, group = rank / m;
    const Team team{barriers[1 + group], rank % m, m};
    if (train && group && !team.rank) privates[group].reserve(V * (D + 1));
    Share my(*this, team, group);
    for (long b = group; b < blocks; b += groups) {
      my.begin(b, b / groups);
      my.logits();
      team.sync();
      my.collect(my.before);
      my.losses();
      if (train) my.gradients();
    }
    if (!train) return;
    team.sync();
    my.collect(my.now);
    barriers[0].wait(rank, size);
    add_up(rank, size, groups);
  }

 private:
  // Tokens are taken `most` at a time, so that W and dW are seldom read; fewer where their logits, of a thread's
  // classes, would need more memory than `enough`.
  static constexpr long most = 256, fewest = 64, enough = 8 << 20;
  static constexpr long chunk = 24 * tile_rows;  // classes whose logits are measured while they are in the cache
  static constexpr long deep = 4;                // chunks that go into one product for dh

  const Output<T>& call;
  const long D, V;
  const bool train;
  List<long> tokens;     // those that count
  long panels, blocks, block;   // of tokens; block is the most tokens of one
  long row;                     // from one class's logits to the next one's
  Buffer<T> seen;               // (2, threads, 4, block): top, sum, total, and x of the target, of a thread's classes
  Buffer<T> parts;              // (2, threads, D, row): of dhᵀ. With two to take turns, one barrier a block is enough
  List<Buffer<T>> privates;      // (V·D + V): dW and db of every team but the first
  List<Barrier> barriers;        // of all threads, then of each team

  // Threads in a team: all of them, unless there are so few classes that each would have next to none.
  int members(int size) const {
    int m = size;
    while (m > 1 && (size % m || V < 96L * m)) m--;
    return m;
  }

  // Rows this long, an odd number of cache lines, put a column of panels into all sets of the first-level cache.
  static long spread(long n) {
    constexpr long line = 64 / long(sizeof(T));
    return (ceil_div(n, line) | 1) * line;
  }

  struct Block {
    long first = 0, count = 0, turn = 0;  // tokens; how many blocks the team has had before
  };
  Block block_at(long b, long turn) const {
    const long first = panels * b / blocks * panel<T>, end = panels * (b + 1) / blocks * panel<T>;
    return {first, std::min(long(tokens.size()), end) - first, turn};
  }

  T* d_weight(int group) const { return group && call.d_weight ? privates[group] + V : call.d_weight; }
  T* d_bias(int group) const { return group && call.d_bias ? static_cast<T*>(privates[group]) : call.d_bias; }

  // The gradients of all teams into the first one's.
  void add_up(int rank, int size, int groups) {
    auto add = [&](long n, auto of) {
      T* to = of(0);
      if (!to) return;
      const long a = n * rank / size, z = n * (rank + 1) / size;
      if (!blocks) std::fill(to + a, to + z, T(0));
      for (int g = 1; g < std::min<long>(groups, blocks); g++) {
        const T* from = of(g);
        for (long k = a; k < z; k++) to[k] += from[k];
      }
    };
    add(V * D, [&](int g) { return d_weight(g); });
    add(V, [&](int g) { return d_bias(g); });
  }

  // One thread's classes, and what it holds of the block at hand.
  struct Share {
    const CrossEntropy& all;
    const Output<T>& call;
    const Team& team;
    const int group;
    const long D, V, row;
    long v0, v1;        // classes
    Block now, before;  // the block at hand, and the one whose dh is to be collected
    long n = 0, columns = 0;  // tokens of this block, and rounded up to panels
    Buffer<T> x;          // (v1 − v0, row), or a chunk of it without gradients: x, then e^{x − top}, then δ
    Buffer<T> tops;       // (chunks, block): what was subtracted
    Buffer<T> bias;       // (v1 − v0)
    Buffer<T> hidden;     // (block, D)
    Buffer<T> h_columns;  // (panels of tokens, D, panel)
    Buffer<T> h_rows;     // (panels of D, n, panel)
    Buffer<T> turned;     // (D, turned_row): Wᵀ
    Buffer<T> top;        // (block): the largest logit of all classes
    Buffer<T> scale;      // (block): what the token's loss counts
    Buffer<T> factor;     // (block): scale / Σ e^{x − top}
    Buffer<T> to_p;       // (block): from e^{x − top of a chunk} to scale·p
    long turned_row = 0;
    List<const T*> w_rows, x_rows, turned_rows;
    List<T*> to_x, to_weight, to_part;

    Share(const CrossEntropy& all, const Team& team, int group)
        : all(all), call(all.call), team(team), group(group), D(all.D), V(all.V), row(all.row) {
      team.share(ceil_div(V, tile_rows), v0, v1);
      v0 *= tile_rows, v1 = std::min(V, v1 * tile_rows);
      const long rows = v1 - v0, block = all.block, chunks = ceil_div(rows, chunk);
      x.reserve((all.train ? rows : std::min(rows, chunk)) * row);
      tops.reserve(chunks * block);
      bias.zero(rows);
      if (call.bias) std::copy_n(call.bias + v0, rows, static_cast<T*>(bias));
      hidden.reserve(block * D);
      h_columns.reserve(block * D);
      for (Buffer<T>* b : {&top, &scale, &factor, &to_p}) b->reserve(block);
      for (long r = 0; r < rows; r++) {
        w_rows.push_back(call.weight + (v0 + r) * D);
        to_x.push_back(x + (all.train ? r : r % chunk) * row);
      }
      x_rows.assign(to_x.begin(), to_x.end());
      if (call.d_weight) h_rows.reserve(up(D, panel<T>) * block);
      if (call.d_hidden) {
        turned_row = spread(rows);
        turned.reserve(D * turned_row);
        transpose<T>(call.weight + v0 * D, D, rows, D, turned, turned_row);
        for (long d = 0; d < D; d++) turned_rows.push_back(turned + d * turned_row);
      }
    }

    T* seen(int rank, int what) const {
      return all.seen + ((now.turn % 2 * all.threads + group * team.size + rank) * 4 + what) * all.block;
    }
    T* part(int rank, long turn) const {
      return all.parts + (turn % 2 * all.threads + group * team.size + rank) * D * row;
    }
    long token(long t) const { return all.tokens[now.first + t]; }
    long target(long t) const { return long(call.targets[token(t)]); }

    // The block's rows of h, in the two layouts. Columns past the last token repeat it, so that whatever is done to
    // them could happen to a real one.
    void begin(long b, long turn) {
      before = now, now = all.block_at(b, turn);
      n = now.count, columns = up(n, panel<T>);
      for (long t = 0; t < columns; t++) std::copy_n(call.hidden + token(std::min(t, n - 1)) * D, D, hidden + t * D);
      for (long t = 0; t < columns; t += panel<T>)
        transpose<T>(hidden + t * D, D, panel<T>, D, h_columns + t * D, panel<T>);
      if (call.d_weight) pack_rows<T>(n, D, [&](long t) { return hidden + t * D; }, 0, ceil_div(D, panel<T>), h_rows);
    }

    // x of all classes, chunk by chunk and panel by panel, each measured as soon as it is made.
    void logits() {
      const Packed<T> h{h_columns, D, nullptr, columns, nullptr};
      T *top = seen(team.rank, 0), *sum = seen(team.rank, 1), *total = seen(team.rank, 2), *hit = seen(team.rank, 3);
      std::fill_n(hit, columns, T(0));
      for (long r0 = 0, c = 0; r0 < v1 - v0; r0 += chunk, c++) {
        const long rows = std::min(chunk, v1 - v0 - r0);
        for (long t = 0; t < columns; t += panel<T>) {
          multiply<T>(rows, w_rows.data() + r0, 0, h, t / panel<T>, t / panel<T> + 1, to_x.data() + r0, Into::store);
          for (long k = t; k < std::min(n, t + panel<T>); k++) {
            const long r = target(k) - v0;
            if (r >= r0 && r < r0 + rows) hit[k] = to_x[r][k] + bias[r];
          }
          Seen<T> here[2];
          if (all.train) measure<true>(r0, rows, t, here);
          else measure<false>(r0, rows, t, here);
          for (int k = 0; k < 2; k++) {
            const long at = t + k * lanes<T>;
            store<T>(tops + c * all.block + at, here[k].top);
            if (c) here[k].add({load<T>(top + at), load<T>(sum + at), load<T>(total + at)});
            store<T>(top + at, here[k].top);
            store<T>(sum + at, here[k].sum);
            store<T>(total + at, here[k].total);
          }
        }
      }
    }

    // One panel of a chunk: its maximum, then the exponentials, which take the place of x if they are to be kept.
    template <bool keep>
    void measure(long r0, long rows, long t, Seen<T>* here) {
      T* from = to_x[r0] + t;
      const T* b = bias + r0;
      Seen<T> a0, a1;
      for (long r = 0; r < rows; r++) {
        const Vec<T> x0 = load<T>(from + r * row) + b[r], x1 = load<T>(from + r * row + lanes<T>) + b[r];
        a0.top = x0 > a0.top ? x0 : a0.top, a1.top = x1 > a1.top ? x1 : a1.top;
      }
      for (long r = 0; r < rows; r++) {
        T* at = from + r * row;
        const Vec<T> x0 = load<T>(at) + b[r], x1 = load<T>(at + lanes<T>) + b[r];
        const Vec<T> e0 = decay<T>(x0 - a0.top), e1 = decay<T>(x1 - a1.top);
        a0.total += x0, a1.total += x1;
        a0.sum += e0, a1.sum += e1;
        if (keep) store<T>(at, e0), store<T>(at + lanes<T>, e1);
      }
      here[0] = a0, here[1] = a1;
    }

    // The threads' knowledge put together, in one order: the losses, and what makes probabilities of exponentials.
    void losses() {
      const double even = call.smoothing, V = double(this->V);
      const T share = call.mean ? T(1. / double(all.tokens.size())) : T(1);
      for (long t = 0; t < columns; t += lanes<T>) {
        Seen<T> whole;
        Vec<T> hits = {};
        for (int k = 0; k < team.size; k++) {
          whole.add({load<T>(seen(k, 0) + t), load<T>(seen(k, 1) + t), load<T>(seen(k, 2) + t)});
          hits += load<T>(seen(k, 3) + t);
        }
        store<T>(top + t, whole.top);
        for (long k = t; k < std::min(n, t + lanes<T>); k++) {
          const long at = token(k);
          const double top = whole.top[k - t];
          double loss = std::log(double(whole.sum[k - t])) + (1 - even) * (top - double(hits[k - t]));
          if (even != 0) loss += even * (top - double(whole.total[k - t]) / V);
          if (!team.rank) call.losses[at] = T(loss);
          scale[k] = call.scale ? call.scale[at] : share;
          factor[k] = scale[k] / whole.sum[k - t];
        }
      }
      std::fill(scale + n, scale + columns, T(0));
      std::fill(factor + n, factor + columns, T(0));
    }

    void gradients() {
      const long rows = v1 - v0;
      to_weight.clear(), to_part.clear();
      if (call.d_weight)
        for (long v = v0; v < v1; v++) to_weight.push_back(all.d_weight(group) + v * D);
      if (call.d_hidden)
        for (long d = 0; d < D; d++) to_part.push_back(part(team.rank, now.turn) + d * row);
      for (long r0 = 0; r0 < rows; r0 += deep * chunk) {
        const long count = std::min(deep * chunk, rows - r0);
        for (long r = r0; r < r0 + count; r += chunk) deltas(r, std::min(chunk, rows - r));
        if (call.d_weight) {
          const Packed<T> h{h_rows, n, nullptr, D, nullptr};
          multiply<T>(count, x_rows.data() + r0, 0, h, 0, ceil_div(D, panel<T>), to_weight.data() + r0,
                      now.turn ? Into::add : Into::store);
        }
        if (call.d_hidden) {
          const Packed<T> delta{x_rows[r0], count, nullptr, columns, nullptr, row};
          multiply<T>(D, turned_rows.data(), r0, delta, 0, columns / panel<T>, to_part.data(),
                      r0 ? Into::add : Into::store);
        }
      }
    }

    // δ = p − y of one chunk, with the token's factor.
    void deltas(long r0, long rows) {
      const T *tops = this->tops + r0 / chunk * all.block, even = T(call.smoothing / double(V));
      T* d_bias = all.d_bias(group);
      for (long t = 0; t < columns; t += lanes<T>)
        store<T>(to_p + t, load<T>(factor + t) * decay<T>(load<T>(tops + t) - load<T>(top + t)));
      for (long r = r0; r < r0 + rows; r++) {
        T* delta = to_x[r];
        Vec<T> sum = {};
        for (long t = 0; t < columns; t += lanes<T>) {
          const Vec<T> d = load<T>(delta + t) * load<T>(to_p + t) - load<T>(scale + t) * even;
          store<T>(delta + t, d);
          sum += d;
        }
        if (d_bias) d_bias[v0 + r] = now.turn ? d_bias[v0 + r] + total<T>(sum) : total<T>(sum);
      }
      const T own = T(1 - call.smoothing);
      for (long t = 0; t < n; t++) {
        const long r = target(t) - v0;
        if (r < r0 || r >= r0 + rows) continue;
        to_x[r][t] -= scale[t] * own;
        if (d_bias) d_bias[v0 + r] -= scale[t] * own;
      }
    }

    // dh of a block: the threads' parts in one order, each thread adding up and turning over some of the features.
    void collect(const Block& block) {
      if (!call.d_hidden || !block.count) return;
      long d0, d1;
      team.share(D, d0, d1);
      T* sum = part(0, block.turn) + d0 * row;
      for (int k = 1; k < team.size; k++) {
        const T* other = part(k, block.turn) + d0 * row;
        for (long j = 0; j < (d1 - d0) * row; j++) sum[j] += other[j];
      }
      transpose<T>(sum, row, d1 - d0, block.count, hidden, D);  // the copy of h has been used
      for (long t = 0; t < block.count; t++)
        std::copy_n(hidden + t * D, d1 - d0, call.d_hidden + all.tokens[block.first + t] * D + d0);
    }
  };
};

}  // namespace

template <class T>
void cross_entropy(const Output<T>& call) {
  CrossEntropy<T> all(call);
  all.region.run(all.threads, [&](int rank, int size) { all.run(rank, size); });
}

template void cross_entropy(const Output<float>&);
template void cross_entropy(const Output<double>&);

}  // namespace carousel
