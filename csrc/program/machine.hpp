// The virtual machine: instructions on tiles of a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/simd.hpp"
#include "program/program.hpp"

namespace carousel {

// e^x over the whole range: infinite above it, 0 below.
template <class T>
CAROUSEL_INLINE Vec<T> exp_all(Vec<T> x) {
  Vec<T> scale, q;
  exponential<T>(clamp<T>(x * T(0.5), Exponential<T>::limit), scale, q);
  const Vec<T> root = scale + scale * q;
  return root * root;
}

template <class T, class F>
CAROUSEL_INLINE Vec<T> each_lane(Vec<T> x, const F& f) {
  T lane[lanes<T>];
  store<T>(lane, x);
  for (int i = 0; i < lanes<T>; i++) lane[i] = f(lane[i]);
  return load<T>(lane);
}

// log x for positive normal x by the mantissa's series: m = x / 2ⁿ in [√½, √2), log m = 2 atanh((m − 1) / (m + 1)).
template <class T>
CAROUSEL_INLINE Vec<T> log_positive(Vec<T> x) {
  using E = Exponential<T>;
  using Int = typename E::Int;
  typedef Int Ints __attribute__((vector_size(vector_bytes)));
  constexpr Int root = sizeof(T) == 4 ? Int(0x3f3504f3) : Int(0x3fe6a09e667f3bcdLL);  // √½
  const Ints bits = (Ints)x, shifted = bits - root;
  const Ints n = shifted >> E::mantissa;
  const Vec<T> m = (Vec<T>)(bits - (n << E::mantissa));
  const Vec<T> exponent = (Vec<T>)(n + (Ints)splat<T>(E::magic)) - E::magic;
  const Vec<T> s = (m - T(1)) / (m + T(1)), s2 = s * s;
  constexpr int terms = sizeof(T) == 4 ? 5 : 11;
  Vec<T> p = splat<T>(T(2.0 / (2 * terms + 1)));
#pragma GCC unroll 12
  for (int k = terms - 1; k >= 1; k--) p = p * s2 + T(2.0 / (2 * k + 1));
  p = p * s2 * s + s * T(2);
  return exponent * E::ln2_high + (exponent * E::ln2_low + p);
}

template <class T>
CAROUSEL_INLINE Vec<T> log_all(Vec<T> x) {
  const auto normal = (x >= std::numeric_limits<T>::min()) & (x <= std::numeric_limits<T>::max());
  const Vec<T> usual = log_positive<T>(normal ? x : splat<T>(T(1)));
  bool all = true;
  for (int i = 0; i < lanes<T>; i++) all &= normal[i] != 0;
  return all ? usual : each_lane<T>(x, [](T v) { return std::log(v); });
}

// log(1 + e^{−|x|}) + max(x, 0)
template <class T>
CAROUSEL_INLINE Vec<T> softplus_all(Vec<T> x) {
  const Vec<T> negative = x < T(0) ? x : -x, e = decay<T>(negative);
  // log(1 + e) for 0 ≤ e ≤ 1, exact also for a small e: log(u)·e / (u − 1) with u = 1 + e as it was rounded
  const Vec<T> u = e + T(1), less = u - T(1);
  const Vec<T> log_u = less == T(0) ? e : log_positive<T>(u) * e / (less == T(0) ? splat<T>(T(1)) : less);
  return log_u + relu<T>(x);
}

template <class T>
CAROUSEL_INLINE Vec<T> root_of(Vec<T> x) {
  Vec<T> r;
  for (int i = 0; i < lanes<T>; i++) r[i] = std::sqrt(x[i]);
  return r;
}

// One instruction on each of the rows: `operands` are loaded at k, and `result` is stored there.
#define CAROUSEL_ROWS(before, operands, result)                        \
  for (long r = 0; r < rows; r++, p += slots) {                        \
    T* o = p[i->out] + u0;                                             \
    before                                                             \
    for (long k = 0; k < n; k += L) {                                  \
      operands                                                         \
      store<T>(o + k, result);                                         \
    }                                                                  \
  }                                                                    \
  break;
#define CAROUSEL_ONE(name, result)                                     \
  case Opcode::name:                                                   \
    CAROUSEL_ROWS(const T* a = p[i->a] + u0;, const V x = load<T>(a + k);, result)
#define CAROUSEL_TWO(name, result)                                     \
  case Opcode::name:                                                   \
    CAROUSEL_ROWS(const T* a = p[i->a] + u0; const T* b = p[i->b] + u0;, \
                  const V x = load<T>(a + k); const V y = load<T>(b + k);, result)
#define CAROUSEL_THREE(name, result)                                   \
  case Opcode::name:                                                   \
    CAROUSEL_ROWS(const T* a = p[i->a] + u0; const T* b = p[i->b] + u0; const T* c = p[i->c] + u0;, \
                  const V x = load<T>(a + k); const V y = load<T>(b + k); const V z = load<T>(c + k);, result)
// The second operand is one number for the whole row.
#define CAROUSEL_SCALAR(name, result)                                  \
  case Opcode::name:                                                   \
    CAROUSEL_ROWS(const T* a = p[i->a] + u0; const V y = splat<T>(p[i->b][0]);, const V x = load<T>(a + k);, result)
#define CAROUSEL_SCALAR_THREE(name, result)                            \
  case Opcode::name:                                                   \
    CAROUSEL_ROWS(const T* a = p[i->a] + u0; const V y = splat<T>(p[i->b][0]); const T* c = p[i->c] + u0;, \
                  const V x = load<T>(a + k); const V z = load<T>(c + k);, result)

// Instructions first ≤ i < last on columns u0 … u0 + n of some rows; whole vectors, so up to a vector more. A row has its
// places at `first_row`, the next row `slots` further.
template <class T>
void execute(const Instruction* first, const Instruction* last, T* const* first_row, long slots, long rows, long u0, long n) {
  constexpr long L = lanes<T>;
  using V = Vec<T>;
  const V zero = {}, one = splat<T>(T(1));
  for (const Instruction* i = first; i < last; i++) {
    T* const* p = first_row;
    switch (Opcode(i->op)) {
      CAROUSEL_ONE(copy, x)
      case Opcode::splat: CAROUSEL_ROWS(const V x = splat<T>(p[i->a][0]);, , x)
      CAROUSEL_ONE(accumulate, load<T>(o + k) + x)
      CAROUSEL_TWO(add, x + y)
      CAROUSEL_TWO(sub, x - y)
      CAROUSEL_TWO(mul, x * y)
      CAROUSEL_TWO(div, x / y)
      CAROUSEL_ONE(neg, -x)
      CAROUSEL_ONE(sigmoid, sigmoid<T>(x))
      CAROUSEL_ONE(tanh, tanh<T>(x))
      CAROUSEL_ONE(relu, relu<T>(x))
      CAROUSEL_ONE(exp, exp_all<T>(x))
      CAROUSEL_ONE(log, log_all<T>(x))
      CAROUSEL_ONE(log1p, each_lane<T>(x, [](T v) { return std::log1p(v); }))
      CAROUSEL_ONE(expm1, each_lane<T>(x, [](T v) { return std::expm1(v); }))
      CAROUSEL_ONE(softplus, softplus_all<T>(x))
      CAROUSEL_ONE(sqrt, root_of<T>(x))
      CAROUSEL_ONE(rsqrt, one / root_of<T>(x))
      CAROUSEL_ONE(square, x * x)
      CAROUSEL_ONE(abs, x < zero ? -x : x)
      CAROUSEL_ONE(sign, x > zero ? one : (x < zero ? -one : x * zero))
      CAROUSEL_ONE(sin, each_lane<T>(x, [](T v) { return std::sin(v); }))
      CAROUSEL_ONE(cos, each_lane<T>(x, [](T v) { return std::cos(v); }))
      CAROUSEL_ONE(erf, each_lane<T>(x, [](T v) { return std::erf(v); }))
      case Opcode::pow:
        CAROUSEL_ROWS(const T* a = p[i->a] + u0; const T* b = p[i->b] + u0;, const V x = load<T>(a + k); const T power = b[k];
                      , each_lane<T>(x, [power](T v) { return std::pow(v, power); }))
      CAROUSEL_TWO(min, (x < y) | (x != x) ? x : y)
      CAROUSEL_TWO(max, (x > y) | (x != x) ? x : y)
      CAROUSEL_TWO(lt, x < y ? one : zero)
      CAROUSEL_TWO(le, x <= y ? one : zero)
      CAROUSEL_TWO(eq, x == y ? one : zero)
      CAROUSEL_THREE(where, x != zero ? y : z)
      CAROUSEL_TWO(d_sigmoid, x * (y * (one - y)))
      CAROUSEL_TWO(d_tanh, x * (one - y * y))
      CAROUSEL_THREE(mul_d_sigmoid, x * y * (z * (one - z)))
      CAROUSEL_THREE(mul_d_tanh, x * y * (one - z * z))
      CAROUSEL_TWO(accumulate_mul, load<T>(o + k) + x * y)
      CAROUSEL_THREE(muladd, x * y + z)
      CAROUSEL_THREE(mulsub, x * y - z)
      CAROUSEL_THREE(submul, z - x * y)
      CAROUSEL_TWO(sigmoid_sum, sigmoid<T>(x + y))
      CAROUSEL_TWO(tanh_sum, tanh<T>(x + y))
      CAROUSEL_SCALAR(add_scalar, x + y)
      CAROUSEL_SCALAR(sub_scalar, x - y)
      CAROUSEL_SCALAR(mul_scalar, x * y)
      CAROUSEL_SCALAR_THREE(muladd_scalar, x * y + z)
      CAROUSEL_SCALAR_THREE(mulsub_scalar, x * y - z)
      CAROUSEL_SCALAR_THREE(submul_scalar, z - x * y)
      case Opcode::sum:
      case Opcode::amax:
      case Opcode::dot: break;  // reductions are no instructions
    }
  }
}
#undef CAROUSEL_ROWS
#undef CAROUSEL_ONE
#undef CAROUSEL_TWO
#undef CAROUSEL_THREE
#undef CAROUSEL_SCALAR
#undef CAROUSEL_SCALAR_THREE

// The sum over a row of f(k, n): numbers k … k + n, a whole vector where n is that many.
template <class T, class F>
CAROUSEL_INLINE T sum_over(long n, const F& f) {
  constexpr long L = lanes<T>, together = 4;
  Vec<T> all[together] = {};
  long k = 0;
  for (; k + together * L <= n; k += together * L)
#pragma GCC unroll 4
    for (long i = 0; i < together; i++) all[i] += f(k + i * L, L);
  for (; k < n; k += L) all[0] += f(k, std::min(L, n - k));
  return total<T>((all[0] + all[1]) + (all[2] + all[3]));
}

template <class T>
T dot(const T* a, const T* b, long n) {
  return sum_over<T>(n, [&](long k, long count) {
    if (count == lanes<T>) return load<T>(a + k) * load<T>(b + k);
    return load_some<T>(a + k, int(count)) * load_some<T>(b + k, int(count));
  });
}

// Σ or the greatest of a row; NaN stays.
template <class T>
T reduce(int op, const T* row, long n) {
  if (Opcode(op) == Opcode::sum)
    return sum_over<T>(n, [&](long k, long count) { return count == lanes<T> ? load<T>(row + k) : load_some<T>(row + k, int(count)); });
  T most = row[0];
  for (long k = 1; k < n; k++) most = most > row[k] || most != most ? most : row[k];
  return most;
}

}  // namespace carousel
