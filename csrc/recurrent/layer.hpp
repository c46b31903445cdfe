// What one call is given: one layer, one or two directions. Plain pointers; Python owns the memory.
//
// T steps, B sequences, I input size, H hidden size, P size of h (P = H without projection), D directions, G gates,
// S states. A null pointer stands for what is absent: a zero state, no bias, no mask, a gradient that is not needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/gemm.hpp"
#include "core/pool.hpp"
#include "core/threads.hpp"

namespace carousel {

constexpr int max_parameters = 16, max_states = 8;

// The parameters that the grid itself uses. A cell's own have the slots from `own` on, in the order it names them.
namespace slot {
enum : int { weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, own };
constexpr const char* names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"};
}  // namespace slot

// A direction's weights, packed for products of many rows. A call makes its own; a search keeps them from step to step.
template <class T>
struct Panels {
  Buffer<T> ih, hh, n, hr;
  bool made = false;
};

// Parameters and states are found by slot. State 0 is h, the output, of size P; the others have size H.
template <class T>
struct Direction {
  const T* parameter[max_parameters] = {};  // weight_ih (G·H, I), weight_hh (G·H, P), biases (G·H), weight_hr (P, H), …
  T* d_parameter[max_parameters] = {};      // as the parameters

  const T* state_0[max_states] = {};          // (B, P or H)
  const T* initial[max_states] = {};          // (P or H): the state after a reset
  const T* mask = nullptr;                    // (B, P): recurrent dropout, already scaled
  const std::uint8_t* zone[max_states] = {};  // (T, B, P or H): 1 keeps the previous value

  T* state_n[max_states] = {};  // (B, P or H)
  T* values = nullptr;          // (T, B, value_row): gates, in planes; null in a forward-only call
  T* states = nullptr;          // (T, B, state_row): states 1, 2, …, in planes

  const T* d_state_n[max_states] = {};  // (B, P or H)
  T* d_state_0[max_states] = {};        // (B, P or H)
  T* d_initial[max_states] = {};        // (P or H)
  T* total[max_states] = {};            // (T, B, P or H): ∂L/∂h_t with all that flows back in time; of another state
                                        // what comes from later steps, before this step's own h
  Panels<T>* panels = nullptr;          // kept from call to call; null: not kept
};

template <class T>
struct Layer {
  long steps = 0, batch = 0, input = 0, hidden = 0, projected = 0, directions = 1;
  int threads = 1;
  const T* x = nullptr;                  // (T, B, I)
  const std::int64_t* lengths = nullptr; // (B)
  const std::uint8_t* reset = nullptr;   // (T, B)
  // In a search sequences branch: several continue one, and many read the same word. What they share is computed once.
  const std::int64_t* inputs = nullptr;  // (B): the row of x, (·, I), that each reads, in a call of one step
  const T* input_projection = nullptr;   // (·, G·H): W x + b, computed before, in the place of x
  const std::int64_t* parents = nullptr; // (B): the row of state_0 that each continues
  T zone[max_states] = {};               // rates in evaluation; in training the directions have masks
  bool traced = true;                    // values and states are to be zero past a sequence's end
  T* output = nullptr;                   // (T, B, D·P)
  const T* d_output = nullptr;           // (T, B, D·P)
  T* d_x = nullptr;                      // (T, B, I)
  Direction<T> direction[2];

  long state_size(int k) const { return k ? hidden : projected; }
};

// Rows of buffers start on a cache line, and no two rows fall on the same set of the first-level cache.
template <class T>
long padded(long n) {
  n = up(n, 64 / long(sizeof(T)));
  return n * long(sizeof(T)) % 1024 == 0 ? n + 64 / long(sizeof(T)) : n;
}

// Sizes that follow from a cell and a hidden size. Units are taken in vectors, and two vectors are a block.
template <class T>
struct Sizes {
  long planes, states, hidden;
  long plane = up(hidden, lanes<T>);                       // one gate of one row
  long value_row = padded<T>(planes * plane + lanes<T>);  // the last vector is spare: for half panels, and see layernorm
  long state_row = padded<T>(std::max(1L, states - 1) * plane);  // states 1, 2, …
  long vectors = plane / lanes<T>;
  long blocks = ceil_div(vectors, 2);

  Sizes(long planes, long states, long hidden) : planes(planes), states(states), hidden(hidden) {}

  long state_at(int k) const { return (k - 1) * plane; }  // where state k ≥ 1 begins in a row of states

  long wide(long block) const { return std::min(2L, vectors - 2 * block); }  // vectors in a block
  // Panels of a product that has `gates` gates, before `block`.
  long panels(int gates, long block) const {
    return block < blocks || vectors % 2 == 0 ? block * gates : (blocks - 1) * gates + ceil_div(gates, 2);
  }
  // A thread's blocks: balanced in vectors, not in blocks.
  void share(const Team& team, long& from, long& to) const {
    auto edge = [&](int rank) { return rank == team.size ? blocks : (vectors * rank / team.size + 1) / 2; };
    from = edge(team.rank), to = edge(team.rank + 1);
  }
};

// When each row runs: time order, lengths, resets. The same for every cell.
template <class T>
class Schedule {
 public:
  const Layer<T>& layer;
  const bool reverse;

  Schedule(const Layer<T>& layer, bool reverse) : layer(layer), reverse(reverse), order(layer.batch) {
    std::iota(order.begin(), order.end(), 0L);
    if (layer.lengths)  // longest first: active rows are then the first ones
      std::stable_sort(order.begin(), order.end(), [&](long a, long b) { return length(a) > length(b); });
  }

  long parent(long b) const { return layer.parents ? layer.parents[b] : b; }
  long length(long b) const { return layer.lengths ? layer.lengths[b] : layer.steps; }
  long time(long s) const { return reverse ? layer.steps - 1 - s : s; }
  long before(long t) const { return reverse ? t + 1 : t - 1; }
  bool first(long t, long b) const { return reverse ? t == length(b) - 1 : t == 0; }
  // Whether the state before step t is replaced by the initial state: the cut lies before t, in the order of time.
  bool cut(long t, long b) const {
    if (!layer.reset) return false;
    const long at = reverse ? t + 1 : t;
    return at < length(b) && layer.reset[at * layer.batch + b];  // padding restarts nothing
  }

  // The rows of one of `size` threads, longest first; all rows where the batch is not split. `places` receives where
  // each stands among all rows.
  List<long> rows(int rank, int size, List<long>* places = nullptr) const {
    List<long> own;
    const long n = long(order.size());
    for (long j = 0; j < n; j++)
      if (layer.lengths ? j % size == rank : n * rank / size <= j && j < n * (rank + 1) / size) {
        own.push_back(order[j]);
        if (places) places->push_back(j);
      }
    return own;
  }

  // How many of `rows` are active at t.
  long active(const List<long>& rows, long t) const {
    if (!layer.lengths) return long(rows.size());
    return std::partition_point(rows.begin(), rows.end(), [&](long b) { return length(b) > t; }) - rows.begin();
  }

 private:
  List<long> order;
};

// Threads worth starting: to start and join them takes some microseconds, in which one thread multiplies so much, or
// reads so many weights.
template <class T>
int threads_for(const Layer<T>& layer, int gates) {
  const double rows = double(layer.steps) * layer.batch * layer.directions;
  const double weights = double(gates) * layer.hidden * (layer.input + layer.projected);
  return rows * weights < double(vector_bytes << 14) && weights * sizeof(T) < double(3 << 18) ? 1 : layer.threads;
}

// Whether threads share the rows (each runs alone, no barrier) or the units of a step (a barrier a step). A thread with
// rows of its own reads all of U in every step: from the second-level cache, or for so many rows that the third keeps up.
template <class T>
bool split_rows(const Layer<T>& layer, int gates, int threads) {
  const long weights = gates * layer.hidden * layer.projected * long(sizeof(T));
  return threads > 1 && ((layer.batch >= 4 * threads && weights <= (700L << 10)) ||
                         (layer.batch >= 24 * threads && weights <= (2L << 20)));
}

// Whether two directions run side by side, one to a team of threads.
template <class T>
bool directions_side_by_side(const Layer<T>& layer, int gates, int threads) {
  const long weights = gates * layer.hidden * layer.projected * long(sizeof(T));
  return layer.directions == 2 && threads > 1 && (weights <= (1200L << 10) || layer.batch < 8);
}

// Rows [·][gate·H + u] of weights, gates first … first+gates, into panels block by block: to (panels, depth, panel).
// In a whole block a panel is one gate of two vectors; in a half block it is two gates of one vector.
template <class T>
void pack_gates(const Sizes<T>& size, const T* weight, long depth, int first, int gates, long from, long to_block,
                T* to) {
  for (long block = from; block < to_block; block++) {
    const long wide = size.wide(block);
    T* base = to + size.panels(gates, block) * depth * panel<T>;
    if (wide == 2 && 2 * (block + 1) * lanes<T> <= size.hidden) {  // panels of neighbouring rows
      for (long q = 0; q < gates; q++)
        transpose<T>(weight + ((first + q) * size.hidden + block * panel<T>) * depth, depth, panel<T>, depth,
                     base + q * depth * panel<T>, panel<T>);
      continue;
    }
    for (long v = 0; v < up(gates * wide, 2); v++) {
      T* d = base + (v / 2) * depth * panel<T> + (v % 2) * lanes<T>;
      const long q = v / wide, u = (2 * block + v % wide) * lanes<T>;
      const long n = q < gates ? std::min<long>(lanes<T>, size.hidden - u) : 0;
      if (n < lanes<T>)
        for (long k = 0; k < depth; k++)
          for (int j = 0; j < lanes<T>; j++) d[k * panel<T> + j] = 0;
      if (n > 0) transpose<T>(weight + ((first + q) * size.hidden + u) * depth, depth, n, depth, d, panel<T>);
    }
  }
}

}  // namespace carousel
