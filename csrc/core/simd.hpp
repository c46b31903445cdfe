// Vectors of the instruction set this file is compiled for, and the functions cells apply to them.
//
// GCC and Clang vector extensions carry the arithmetic, so one source serves SSE2, AVX2, AVX-512 and others; only
// the width below differs. NaN passes through every function: comparisons are written so that NaN takes the branch
// that keeps it.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CAROUSEL_INLINE inline __attribute__((always_inline))

namespace carousel {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
constexpr int tile_rows = 12;  // 12×2 accumulators of 32 registers
#elif defined(__AVX2__)
constexpr int vector_bytes = 32;
constexpr int tile_rows = 6;  // 6×2 accumulators of 16 registers
#else
constexpr int vector_bytes = 16;
constexpr int tile_rows = 6;
#endif

template <class T>
struct Lanes {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <class T>
using Vec = typename Lanes<T>::type;

template <class T>
constexpr int lanes = vector_bytes / int(sizeof(T));

template <class T>
CAROUSEL_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
CAROUSEL_INLINE void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

// Whether each lane is one of the first n.
template <class T>
CAROUSEL_INLINE auto among_first(int n) {
  using Int = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Int Ints __attribute__((vector_size(vector_bytes)));
  Ints lane;
#pragma GCC unroll 16
  for (int j = 0; j < lanes<T>; j++) lane[j] = j;
  return lane < Int(n);
}

// The first n lanes; the others are zero.
template <class T>
CAROUSEL_INLINE Vec<T> first_lanes(Vec<T> v, int n) {
  return among_first<T>(n) ? v : Vec<T>{};
}

// The first n lanes; the others are zero, and memory past them is not touched.
template <class T>
CAROUSEL_INLINE Vec<T> load_some(const T* p, int n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p);
  else return _mm512_maskz_loadu_pd(__mmask8((1u << n) - 1), p);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return _mm256_maskload_ps(p, (__m256i)among_first<T>(n));
  else return _mm256_maskload_pd(p, (__m256i)among_first<T>(n));
#else
  T lane[lanes<T>] = {};
  for (int j = 0; j < n; j++) lane[j] = p[j];
  return load<T>(lane);
#endif
}

template <class T>
CAROUSEL_INLINE void store_some(T* p, Vec<T> v, int n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v);
  else _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), v);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) _mm256_maskstore_ps(p, (__m256i)among_first<T>(n), v);
  else _mm256_maskstore_pd(p, (__m256i)among_first<T>(n), v);
#else
  T lane[lanes<T>];
  store<T>(lane, v);
  for (int j = 0; j < n; j++) p[j] = lane[j];
#endif
}

// Whole vectors, or the first n lanes where `tail` says that fewer are there.
template <bool tail, class T>
CAROUSEL_INLINE Vec<T> load_n(const T* p, int n) {
  if constexpr (tail) return load_some<T>(p, n);
  return load<T>(p);
}

template <bool tail, class T>
CAROUSEL_INLINE void store_n(T* p, Vec<T> v, int n) {
  if constexpr (tail) store_some<T>(p, v, n);
  else store<T>(p, v);
}

template <class T>
CAROUSEL_INLINE Vec<T> splat(T a) {
  Vec<T> zero = {};
  return zero + a;
}

template <class T>
CAROUSEL_INLINE T total(Vec<T> v) {
  T lane[lanes<T>];
  store<T>(lane, v);
  for (int half = lanes<T> / 2; half; half /= 2)  // in pairs: a short chain of additions
    for (int j = 0; j < half; j++) lane[j] += lane[j + half];
  return lane[0];
}

template <class T>
CAROUSEL_INLINE T greatest(Vec<T> v) {
  T lane[lanes<T>], most;
  store<T>(lane, v);
  most = lane[0];
  for (int j = 1; j < lanes<T>; j++) most = most > lane[j] ? most : lane[j];
  return most;
}

// Which lanes of a comparison hold: lane i is bit i.
template <class T, class Mask>
CAROUSEL_INLINE unsigned lanes_where(const Mask& mask) {
  static_assert(sizeof(Mask) == sizeof(Vec<T>), "a comparison of vectors");
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_movepi32_mask(reinterpret_cast<const __m512i&>(mask));
  else return _mm512_movepi64_mask(reinterpret_cast<const __m512i&>(mask));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return unsigned(_mm256_movemask_ps(reinterpret_cast<const __m256&>(mask)));
  else return unsigned(_mm256_movemask_pd(reinterpret_cast<const __m256d&>(mask)));
#else
  unsigned bits = 0;
  for (int i = 0; i < lanes<T>; i++) bits |= unsigned(mask[i] != 0) << i;
  return bits;
#endif
}

// Keeps a value in a register: without it GCC folds the load into each multiply and the tile loses a third of its speed.
template <class V>
CAROUSEL_INLINE void pin(V& v) {
#if defined(__x86_64__)
  asm volatile("" : "+v"(v));
#endif
}

// e^x = 2ⁿ (1 + q), with n an integer and |x − n ln 2| ≤ ln 2 / 2; q = e^r − 1 keeps full relative accuracy near 0.
template <class T>
struct Exponential;

constexpr double factorial(int n) { return n < 2 ? 1. : n * factorial(n - 1); }

template <>
struct Exponential<float> {
  using Int = std::int32_t;
  static constexpr float magic = 12582912.f;  // 1.5·2²³: adding it rounds to an integer held in the low bits
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr int mantissa = 23;
  static constexpr Int bias = 127;
  static constexpr float limit = 87.f;  // 2ⁿ stays a normal number
  static constexpr int terms = 7;
};

template <>
struct Exponential<double> {
  using Int = std::int64_t;
  static constexpr double magic = 6755399441055744.0;  // 1.5·2⁵²
  static constexpr double ln2_high = 6.93145751953125e-1, ln2_low = 1.42860682030941723212e-6;
  static constexpr int mantissa = 52;
  static constexpr Int bias = 1023;
  static constexpr double limit = 707.;
  static constexpr int terms = 13;
};

// The lesser and the greater, with x where x is NaN: x86's own instructions do so for their second operand.
template <class T>
CAROUSEL_INLINE Vec<T> at_most(T limit, Vec<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_min_ps(splat<T>(limit), x);
  else return _mm512_min_pd(splat<T>(limit), x);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return _mm256_min_ps(splat<T>(limit), x);
  else return _mm256_min_pd(splat<T>(limit), x);
#else
  return limit < x ? splat<T>(limit) : x;
#endif
}

template <class T>
CAROUSEL_INLINE Vec<T> at_least(T limit, Vec<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_max_ps(splat<T>(limit), x);
  else return _mm512_max_pd(splat<T>(limit), x);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return _mm256_max_ps(splat<T>(limit), x);
  else return _mm256_max_pd(splat<T>(limit), x);
#else
  return limit > x ? splat<T>(limit) : x;
#endif
}

template <class T>
CAROUSEL_INLINE Vec<T> clamp(Vec<T> x, T limit) {
  return at_least<T>(-limit, at_most<T>(limit, x));
}

template <class T>
CAROUSEL_INLINE void exponential(Vec<T> x, Vec<T>& scale, Vec<T>& q) {
  using E = Exponential<T>;
  using Bits = std::make_unsigned_t<typename E::Int>;  // wraps where x is out of range
  typedef Bits Ints __attribute__((vector_size(vector_bytes)));
  const Vec<T> shifted = x * T(1.44269504088896340736) + E::magic;
  const Vec<T> n = shifted - E::magic;
  const Vec<T> r = (x - n * E::ln2_high) - n * E::ln2_low;
  scale = (Vec<T>)(((Ints)shifted << E::mantissa) + (Bits(E::bias) << E::mantissa));
  // Taylor: the next term is below half a unit in the last place. Paired, the terms wait less for one another.
  const Vec<T> r2 = r * r;
  Vec<T> p = r * T(1. / factorial(E::terms)) + T(1. / factorial(E::terms - 1));
#pragma GCC unroll 8
  for (int k = E::terms - 2; k >= 3; k -= 2) p = p * r2 + (r * T(1. / factorial(k)) + T(1. / factorial(k - 1)));
  q = p * r2 + r;
}

// e^x for x ≤ 0, and 0 where that would be below the smallest normal number; NaN stays.
template <class T>
CAROUSEL_INLINE Vec<T> decay(Vec<T> x) {
  Vec<T> scale, q;
  exponential<T>(x, scale, q);  // anything at all where x is out of range
  return x < -Exponential<T>::limit ? Vec<T>{} : scale + scale * q;
}

template <class T>
CAROUSEL_INLINE Vec<T> sigmoid(Vec<T> x) {
  Vec<T> scale, q;
  exponential<T>(clamp<T>(-x, Exponential<T>::limit), scale, q);
  return T(1) / (T(1) + (scale + scale * q));
}

template <class T>
CAROUSEL_INLINE Vec<T> tanh(Vec<T> x) {
  if constexpr (sizeof(T) == 4) {
    // an odd rational function (Eigen's coefficients), good to a few units in the last place up to where tanh is 1
    x = clamp<T>(x, 7.90531110763549805f);
    const Vec<T> x2 = x * x;
    Vec<T> p = x2 * -2.76076847742355e-16f + 2.00018790482477e-13f;
    p = p * x2 + -8.60467152213735e-11f;
    p = p * x2 + 5.12229709037114e-08f;
    p = p * x2 + 1.48572235717979e-05f;
    p = p * x2 + 6.37261928875436e-04f;
    p = p * x2 + 4.89352455891786e-03f;
    Vec<T> q = x2 * 1.19825839466702e-06f + 1.18534705686654e-04f;
    q = q * x2 + 2.26843463243900e-03f;
    q = q * x2 + 4.89352518554385e-03f;
    return x * p / q;
  } else {
    Vec<T> scale, q;
    exponential<T>(clamp<T>(x + x, T(44)), scale, q);  // tanh 22 is 1
    const Vec<T> e = (scale - T(1)) + scale * q;       // e^{2x} − 1
    return e / (e + T(2));
  }
}

template <class T>
CAROUSEL_INLINE Vec<T> relu(Vec<T> x) {
  return x < T(0) ? Vec<T>{} : x;
}

// σ′ and tanh′ in terms of the function's value.
template <class V>
CAROUSEL_INLINE V d_sigmoid(V y) {
  return y * (1 - y);
}

template <class V>
CAROUSEL_INLINE V d_tanh(V y) {
  return 1 - y * y;
}

}  // namespace carousel
