// The Elman network: see cells/elman.py.
#pragma once

#include "recurrent/cell.hpp"

namespace carousel {

// φ, and φ′ in terms of h = φ(a)
struct Tanh {
  template <class T>
  static CAROUSEL_INLINE Vec<T> value(Vec<T> a) { return tanh<T>(a); }
  template <class T>
  static CAROUSEL_INLINE Vec<T> derivative(Vec<T> h) { return d_tanh(h); }
};
struct Relu {
  template <class T>
  static CAROUSEL_INLINE Vec<T> value(Vec<T> a) { return relu<T>(a); }
  template <class T>
  static CAROUSEL_INLINE Vec<T> derivative(Vec<T> h) { return h > T(0) ? splat<T>(1) : Vec<T>{}; }
};
struct Sigmoid {
  template <class T>
  static CAROUSEL_INLINE Vec<T> value(Vec<T> a) { return sigmoid<T>(a); }
  template <class T>
  static CAROUSEL_INLINE Vec<T> derivative(Vec<T> h) { return d_sigmoid(h); }
};

template <class T, class Phi>
struct Elman : Plain<T> {
  static constexpr int gates = 1, planes = 1;
  static constexpr int d_planes = 1, x_plane = 0, h_plane = 0;
  static constexpr int x_order[] = {0}, h_order[] = {0};
  static constexpr int sums = 1, bias_ih[] = {0}, bias_hh[] = {0};

  static CAROUSEL_INLINE void step(Step<Elman, T>& s) {
    s.h = Phi::template value<T>(s.x[0] + s.u[0]);
    s.at[0] = s.h;
  }

  static CAROUSEL_INLINE void backward(Back<Elman, T>& b) {
    b.d[0] = b.dh * Phi::template derivative<T>(b.at[0]);
    b.sum[0] += b.d[0];
  }
};

}  // namespace carousel
