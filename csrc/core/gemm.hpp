// Matrix products on packed panels.
//
// B is packed into panels of two vectors' width, K deep. A and C are given as row pointers, so that a gather (active
// rows, rows replaced by an initial state, a transposed copy) costs nothing more than a list. One micro-kernel,
// up to tile_rows × 2 vectors, serves every product of forward and backward.
#pragma once

#include <algorithm>

#include "core/simd.hpp"

namespace carousel {

template <class T>
constexpr int panel = 2 * lanes<T>;  // columns of a panel

inline long up(long n, long to) { return (n + to - 1) / to * to; }
inline long ceil_div(long n, long by) { return (n + by - 1) / by; }

// So few rows that packing the weights would cost more than it saves.
constexpr long most_few_rows = 4;
inline bool few_rows(long rows) { return rows <= most_few_rows; }

enum class Into { store, add };

// C[r][c0…], C[r][c1…] (=, +=) A[r][k0 … k0+K) B, for `rows` rows; c0 and c1 place the panel's two vectors, of which
// `vectors` are used.
// `bias` (panel) is added where C is stored. `ahead` is memory that the next tiles will read. A row of B follows the
// last one, or, in place in a wider matrix, stands `step` further.
template <class T, int rows, bool in_place, int vectors>
__attribute__((noinline)) void tile(long K, const T* const* A, long k0, const T* __restrict B, long step, T* const* C,
                                    long c0, long c1, Into into, const T* bias, const char* ahead) {
  using V = Vec<T>;
  if (!in_place) step = panel<T>;
  // few rows: several sums each, so that the multiply-adds do not wait for one another
  constexpr int sums = rows * vectors, chains = sums <= 2 ? 4 : sums <= 6 ? 2 : 1;
  constexpr int unroll = chains < 2 ? 2 : chains;
  V sum[chains][rows][vectors];
  const T* a[rows];
  const long columns[] = {c0, c1};
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
    a[r] = A[r] + k0;
#pragma GCC unroll 4
    for (int s = 0; s < chains; s++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) sum[s][r][v] = V{};
  }
  if (into == Into::add) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) __builtin_prefetch(C[r] + columns[v], 1);
  }
  long k = 0;
  for (; k + unroll <= K; k += unroll) {
    __builtin_prefetch(ahead, 0, 2);
    ahead += in_place ? unroll * step * long(sizeof(T)) : 64;
#pragma GCC unroll 4
    for (int j = 0; j < unroll; j++) {
      V b[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) {
        b[v] = load<T>(B + v * lanes<T>);
        pin(b[v]);
      }
      B += step;
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) {
        const T x = a[r][k + j];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[j % chains][r][v] += b[v] * x;
      }
    }
  }
  for (; k < K; k++, B += step) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const T x = a[r][k];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) sum[0][r][v] += load<T>(B + v * lanes<T>) * x;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      V all = sum[0][r][v];
#pragma GCC unroll 4
      for (int s = 1; s < chains; s++) all += sum[s][r][v];
      T* c = C[r] + columns[v];
      if (into == Into::add) all += load<T>(c);
      else if (bias) all += load<T>(bias + v * lanes<T>);
      store<T>(c, all);
    }
  }
}

template <class T>
using Tile = void (*)(long, const T* const*, long, const T*, long, T* const*, long, long, Into, const T*, const char*);

template <class T, bool in_place, int vectors>
constexpr Tile<T> tiles[] = {
    nullptr,
    tile<T, 1, in_place, vectors>,  tile<T, 2, in_place, vectors>,  tile<T, 3, in_place, vectors>,
    tile<T, 4, in_place, vectors>,  tile<T, 5, in_place, vectors>,  tile<T, 6, in_place, vectors>,
#if defined(__AVX512F__)
    tile<T, 7, in_place, vectors>,  tile<T, 8, in_place, vectors>,  tile<T, 9, in_place, vectors>,
    tile<T, 10, in_place, vectors>, tile<T, 11, in_place, vectors>, tile<T, 12, in_place, vectors>,
#endif
};

// A matrix packed for multiply(): `columns` names the C column of each of a panel's two vectors (null: they follow
// one another), `width` is the number of real columns in the latter case. A matrix of whole panels may also be used in
// place: `step` is then the length of its rows.
template <class T>
struct Packed {
  const T* data = nullptr;        // (panels, depth, panel)
  long depth = 0;                 // K
  const long* columns = nullptr;  // (panels, 2)
  long width = 0;
  const T* bias = nullptr;  // (panels, panel)
  long step = 0;            // data is (depth, step)
};

// C[m][…] (=, +=) A[m][a0 … a0+depth) B over rows m < M and panels p0 ≤ p < p1.
template <class T>
void multiply(long M, const T* const* A, long a0, const Packed<T>& B, long p0, long p1, T* const* C, Into into) {
  if (M <= 0 || p0 >= p1) return;
  // A panel may outgrow the first-level cache (the prefetch keeps ahead of it; splitting the sums costs more), but
  // these rows of A, that deep, should stay in the second-level cache.
  constexpr long deepest = 704 * 4 / long(sizeof(T)), most_rows = 24 * tile_rows;
  const Tile<T>* whole = B.step ? tiles<T, true, 2> : tiles<T, false, 2>;
  const long K = B.depth, parts = std::max(1L, ceil_div(K, deepest)), depth = up(ceil_div(std::max(K, 1L), parts), 2);
  for (long m0 = 0; m0 < M; m0 += most_rows) {
    const long rows = std::min(most_rows, M - m0), count = ceil_div(rows, tile_rows);
    const long base = rows / count, larger = rows % count;  // 20 rows are 5+5+5+5, not 6+6+6+2
    for (long k0 = 0; k0 == 0 || k0 < K; k0 += depth) {
      const long k = std::min(depth, K - k0);
      const Into how = k0 ? Into::add : into;
      for (long p = p0; p < p1; p++) {
        const T* b = B.data + (B.step ? k0 * B.step + p * panel<T> : (p * K + k0) * panel<T>);
        const long c0 = B.columns ? B.columns[2 * p] : p * panel<T>;
        const long c1 = B.columns ? B.columns[2 * p + 1] : c0 + lanes<T>;
        const T* bias = B.bias && !k0 ? B.bias + p * panel<T> : nullptr;
        const char* ahead = reinterpret_cast<const char*>(b + (B.step ? 1 : K) * panel<T>);
        const long half = B.step ? B.step * long(sizeof(T)) : k / 2 * 64;  // a tile looks at every other line
        const long left = B.columns ? panel<T> : std::min<long>(panel<T>, B.width - c0);
        const bool narrow = left <= lanes<T> && !B.step, edge = left < (narrow ? lanes<T> : panel<T>);
        const Tile<T>* tile = narrow ? tiles<T, false, 1> : whole;
        long m = m0;
        for (long i = 0; i < count; i++) {
          const int r = int(base + (i < larger));
          const char* next = ahead + (i & 1) * half;
          if (!edge) {
            tile[r](k, A + m, a0 + k0, b, B.step, C + m, c0, c1, how, bias, next);
          } else {  // fewer columns than a panel: through a copy, so that nothing past them is written
            alignas(64) T copy[tile_rows][panel<T>];
            T* rows_of_copy[tile_rows];
            for (int j = 0; j < r; j++) rows_of_copy[j] = copy[j];
            tile[r](k, A + m, a0 + k0, b, B.step, rows_of_copy, 0, lanes<T>, Into::store, bias, next);
            for (int j = 0; j < r; j++)
              for (long n = 0; n < left; n++) {
                T& c = C[m + j][c0 + n];
                c = how == Into::add ? c + copy[j][n] : copy[j][n];
              }
          }
          m += r;
        }
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------- packing

// A block of 32 bytes by 32 bytes turned over: to[j·to_ld + i] = from[i·from_ld + j].
template <class T>
CAROUSEL_INLINE void turn(const T* from, long from_ld, T* to, long to_ld) {
  constexpr int n = 32 / int(sizeof(T));
  typedef T Row __attribute__((vector_size(32)));
  Row r[n];
  for (int i = 0; i < n; i++) std::memcpy(&r[i], from + i * from_ld, 32);
  if constexpr (n == 4) {
    const Row a = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6), b = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
    const Row c = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6), d = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
    r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    r[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  } else {
    Row s[8], t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
      s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
      s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      t[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      t[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
      t[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
      t[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      r[i] = __builtin_shufflevector(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
      r[i + 4] = __builtin_shufflevector(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
  }
  for (int i = 0; i < n; i++) std::memcpy(to + i * to_ld, &r[i], 32);
}

// to[j·to_ld + i] = from[i·from_ld + j] for i < rows, j < columns.
template <class T>
void transpose(const T* from, long from_ld, long rows, long columns, T* to, long to_ld) {
  constexpr long n = 32 / long(sizeof(T)), line = 2 * n;  // a cache line of each row is used up before the next
  const long whole = rows / n * n;
  long j = 0;
  for (; j + line <= columns; j += line)
    for (long i = 0; i < whole; i += n) {
      turn<T>(from + i * from_ld + j, from_ld, to + j * to_ld + i, to_ld);
      turn<T>(from + i * from_ld + j + n, from_ld, to + (j + n) * to_ld + i, to_ld);
    }
  for (; j < columns; j++)
    for (long i = 0; i < whole; i++) to[j * to_ld + i] = from[i * from_ld + j];
  for (long i = whole; i < rows; i++)
    for (j = 0; j < columns; j++) to[j * to_ld + i] = from[i * from_ld + j];
}

// Rows of `from(k)` (null: zeros), `width` long, into panels p0 ≤ p < p1 of `depth` rows: to (panels, depth, panel).
template <class T, class Rows>
void pack_rows(long depth, long width, Rows from, long p0, long p1, T* to) {
  for (long p = p0; p < p1; p++) {
    T* d = to + p * depth * panel<T>;
    const long n0 = p * panel<T>, n = std::min<long>(panel<T>, width - n0);
    for (long k = 0; k < depth; k++, d += panel<T>) {
      const T* s = from(k);
      if (s && n == panel<T>) {
        store<T>(d, load<T>(s + n0));
        store<T>(d + lanes<T>, load<T>(s + n0 + lanes<T>));
      } else {
        for (long j = 0; j < panel<T>; j++) d[j] = s && j < n ? s[n0 + j] : T(0);
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------- one row

// Lane i is the sum of v[i]'s lanes: a vector of vectors turned over and added, without leaving the registers.
template <class T>
CAROUSEL_INLINE Vec<T> total_each(const Vec<T>* v) {
  using V = Vec<T>;
  if constexpr (lanes<T> == 4) {
    auto pairs = [](V a, V b) {
      return __builtin_shufflevector(a, b, 0, 4, 2, 6) + __builtin_shufflevector(a, b, 1, 5, 3, 7);
    };
    const V a = pairs(v[0], v[1]), b = pairs(v[2], v[3]);
    return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  } else if constexpr (sizeof(T) == 4 && lanes<T> == 8) {
    auto pairs = [](V a, V b) {
      return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
             __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    };
    auto fours = [](V a, V b) {
      return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
             __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    };
    const V a = fours(pairs(v[0], v[1]), pairs(v[2], v[3])), b = fours(pairs(v[4], v[5]), pairs(v[6], v[7]));
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  } else if constexpr (lanes<T> == 8) {
    auto pairs = [](V a, V b) {
      return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
             __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    };
    auto quarters = [](V a, V b) {
      return __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13) +
             __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
    };
    return quarters(quarters(pairs(v[0], v[1]), pairs(v[2], v[3])), quarters(pairs(v[4], v[5]), pairs(v[6], v[7])));
  } else {
    static_assert(lanes<T> == 16, "256 or 512 bits");
    auto pairs = [](V a, V b) {
      return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
             __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    };
    auto fours = [](V a, V b) {
      return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
             __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    };
    auto quarters = [](V a, V b) {
      return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
             __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    };
    V f[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) f[i] = fours(pairs(v[4 * i], v[4 * i + 1]), pairs(v[4 * i + 2], v[4 * i + 3]));
    return quarters(quarters(f[0], f[1]), quarters(f[2], f[3]));
  }
}

// Whether `dots` takes as many rows at once as a vector has lanes, and so is as fast as a product with a packed matrix.
template <class T>
constexpr bool whole_dots = vector_bytes >= 32;

// Whether a call with one row in each of its steps reads the recurrent weights as they are. With 512 bits a product with
// panels is faster, so that packing pays unless there are few steps.
constexpr long few_steps = 16;
template <class T>
bool one_row_unpacked(long steps) {
  return whole_dots<T> && (vector_bytes == 32 || steps <= few_steps);
}

// The lanes of sum[i] add up to row(i) times v, K long, for i < rows.
template <class T, int rows, class Row>
CAROUSEL_INLINE void lane_sums(Row row, const T* v, long K, Vec<T>* sum) {
  constexpr int n = lanes<T>;
  for (int i = 0; i < rows; i++) sum[i] = Vec<T>{};
  long k = 0;
  for (; k + n <= K; k += n) {
    const Vec<T> b = load<T>(v + k);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i] += b * load<T>(row(i) + k);
  }
  if (k < K) {
    const Vec<T> b = load_some<T>(v + k, int(K - k));
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i] += b * load_some<T>(row(i) + k, int(K - k));
  }
}

// Products with one vector, for calls too short to pay for packing: lane r is row r of W (count, ld) times v, K long. The
// terms are added in the same order in every lane.
template <class T>
Vec<T> dots(const T* W, long ld, int count, const T* v, long K) {
  constexpr int n = lanes<T>;
  if constexpr (whole_dots<T>) {
    Vec<T> sum[n];
    if (count == n) {
      lane_sums<T, n>([&](int i) { return W + i * ld; }, v, K, sum);
      return total_each<T>(sum);
    }
    lane_sums<T, n>([&](int i) { return W + std::min(i, count - 1) * ld; }, v, K, sum);
    return first_lanes<T>(total_each<T>(sum), count);
  } else {
    constexpr int together = 4;
    T result[n] = {};
    for (int r = 0; r < count; r += together) {
      Vec<T> sum[together];
      lane_sums<T, together>([&](int i) { return W + std::min(r + i, count - 1) * ld; }, v, K, sum);
      for (int i = 0; i < together && r + i < count; i++) result[r + i] = total<T>(sum[i]);
    }
    return load<T>(result);
  }
}

// out[n] (=, +=) Σ_k c[k] M[k][n] for from ≤ n < to: a vector times a matrix (K, ld) as it is.
template <class T>
void combine(long K, const T* c, const T* M, long ld, long from, long to, T* out, Into into) {
  if (from >= to) return;  // a thread without columns may begin past the last one
  constexpr int n = lanes<T>, together = 4;
  if (into == Into::store) std::fill(out + from, out + to, T(0));
  for (long k = 0; k < K; k += together) {
    const T *row = M + k * ld, *factor = c + k;
    const long rows = std::min<long>(together, K - k);
    long u = from;
    if (rows == together)
      for (; u + n <= to; u += n) {
        Vec<T> sum = load<T>(out + u);
#pragma GCC unroll 4
        for (int i = 0; i < together; i++) sum += load<T>(row + i * ld + u) * factor[i];
        store<T>(out + u, sum);
      }
    for (; u < to; u++)
      for (long i = 0; i < rows; i++) out[u] += row[i * ld + u] * factor[i];
  }
}

// out[r][n] = Σ_k d[k][r] x[k][n] for r < rows, n < width: a product over so few k that packing would cost more.
template <class T>
void outer(long K, const T* const* d, const T* const* x, long rows, long width, T* out) {
  constexpr long n = lanes<T>;
  for (long r = 0; r < rows; r++, out += width) {
    long u = 0;
    for (; u + n <= width; u += n) {
      Vec<T> sum = load<T>(x[0] + u) * d[0][r];
      for (long k = 1; k < K; k++) sum += load<T>(x[k] + u) * d[k][r];
      store<T>(out + u, sum);
    }
    for (; u < width; u++) {
      T sum = x[0][u] * d[0][r];
      for (long k = 1; k < K; k++) sum += x[k][u] * d[k][r];
      out[u] = sum;
    }
  }
}

}  // namespace carousel
