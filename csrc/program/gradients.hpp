// What a backward step leaves for the end of a chunk: the gradients of matrices and vectors that all sequences share, as
// sums over the chunk's rows.
#pragma once

#include "core/gemm.hpp"
#include "core/pool.hpp"
#include "core/threads.hpp"
#include "recurrent/layer.hpp"

namespace carousel {

// δ of some values in every row, `columns` of them; several matrices and vectors may need them.
template <class T>
struct Delta {
  List<const T*> rows;
  long columns;
};

// to (M, N) += δᵀ arg, with the M columns of δ from `column` on.
template <class T>
struct MatrixSum {
  std::size_t delta, arg;
  long column, rows;
  T* to;
  bool waits = false;  // for other threads, which may still add to the same numbers
};

// to += Σ δ
template <class T>
struct VectorSum {
  std::size_t delta;
  long column, width;
  T* to;
  bool waits = false;
};

template <class T>
class Gradients {
 public:
  std::vector<Delta<T>> deltas;
  std::vector<List<const T*>> args;
  std::vector<long> widths;  // of args
  std::vector<MatrixSum<T>> matrices;
  std::vector<VectorSum<T>> vectors;

  explicit Gradients(long most) : most(most), turned_row(padded<T>(most)) {}

  // When all is declared: memory.
  void reserve() {
    long columns = 0, panels = 0;
    for (const Delta<T>& d : deltas) starts.push_back(columns), columns += d.columns;
    for (long w : widths) packed_at.push_back(panels), panels += ceil_div(w, panel<T>) * most * panel<T>;
    mark(matrices, [&](const MatrixSum<T>& m) { return m.rows * widths[m.arg]; });
    mark(vectors, [](const VectorSum<T>& v) { return v.width; });
    if (matrices.empty()) return;
    turned.reserve(std::max(1L, columns) * turned_row);
    packed.reserve(std::max(1L, panels));
  }

  // The lists of `deltas` and `args` have n rows each. When it returns, δ and arguments are no longer needed.
  void add(const Team& team, long n) {
    if (!n) return;
    for (const VectorSum<T>& v : vectors) {
      if (v.waits) team.sync();
      sum(team, v, n);
    }
    for (std::size_t k = 0; k < deltas.size() && turned; k++) turn(team, k, n);
    for (std::size_t k = 0; k < args.size(); k++) {
      long from, to;
      team.share(ceil_div(widths[k], panel<T>), from, to);
      pack_rows<T>(n, widths[k], [&](long r) { return args[k][r]; }, from, to, packed + packed_at[k]);
    }
    team.sync();
    List<const T*> a;
    List<T*> c;
    for (const MatrixSum<T>& m : matrices) {
      if (m.waits) team.sync();
      long from, to;
      team.share(m.rows, from, to);
      a.clear(), c.clear();
      for (long r = from; r < to; r++) {
        a.push_back(turned + (starts[m.delta] + m.column + r) * turned_row);
        c.push_back(m.to + r * widths[m.arg]);
      }
      const Packed<T> w{packed + packed_at[m.arg], n, nullptr, widths[m.arg], nullptr};
      multiply<T>(to - from, a.data(), 0, w, 0, ceil_div(widths[m.arg], panel<T>), c.data(), Into::add);
    }
  }

 private:
  const long most, turned_row;
  std::vector<long> starts, packed_at;
  Buffer<T> turned;  // (columns of all δ, rows)
  Buffer<T> packed;  // args in panels

  // Each thread has a part of every sum, and not the same of two that overlap.
  template <class Sum, class Count>
  static void mark(std::vector<Sum>& sums, const Count& count) {
    std::size_t first = 0;  // since the last wait
    for (std::size_t k = 0; k < sums.size(); k++)
      for (std::size_t j = first; j < k; j++)
        if (sums[j].to < sums[k].to + count(sums[k]) && sums[k].to < sums[j].to + count(sums[j])) {
          sums[k].waits = true, first = k;
          break;
        }
  }

  void sum(const Team& team, const VectorSum<T>& v, long n) const {
    constexpr long L = lanes<T>, together = 4;
    long from, to;
    team.share(ceil_div(v.width, L), from, to);
    to = std::min(v.width, to * L), from *= L;
    const List<const T*>& rows = deltas[v.delta].rows;
    for (; from + together * L <= to; from += together * L) {
      Vec<T> all[together] = {};
      for (long r = 0; r < n; r++)
#pragma GCC unroll 4
        for (long i = 0; i < together; i++) all[i] += load<T>(rows[r] + v.column + from + i * L);
      for (long i = 0; i < together; i++) store<T>(v.to + from + i * L, load<T>(v.to + from + i * L) + all[i]);
    }
    for (; from < to; from += L) {
      const int count = int(std::min(L, to - from));
      Vec<T> all = {};
      for (long r = 0; r < n; r++) all += load_some<T>(rows[r] + v.column + from, count);
      store_some<T>(v.to + from, load_some<T>(v.to + from, count) + all, count);
    }
  }

  // A thread's part of the rows, turned over.
  void turn(const Team& team, std::size_t k, long n) const {
    constexpr long together = 64 / long(sizeof(T));  // rows of one cache line of δᵀ
    const Delta<T>& d = deltas[k];
    long from, to;
    team.share(ceil_div(n, together), from, to);
    to = std::min(n, to * together);
    for (long r = from * together; r < to;) {  // rows that follow one another at the same distance
      const long step = r + 1 < to ? d.rows[r + 1] - d.rows[r] : 0;
      long last = r + 1;
      while (last < to && d.rows[last] - d.rows[last - 1] == step) last++;
      transpose<T>(d.rows[r], step, last - r, d.columns, turned + starts[k] * turned_row + r, turned_row);
      r = last;
    }
  }
};

}  // namespace carousel
