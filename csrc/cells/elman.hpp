// The Elman network: see cells/elman.py.
#pragma once

#include "recurrent/kernel.hpp"

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
  enum State { H };
  static constexpr int gates = 1, planes = 1;
  static constexpr const char* gate_names[] = {"h"};
  static constexpr int d_planes = 1, x_plane = 0, h_plane = 0;
  static constexpr int x_order[] = {0}, h_order[] = {0};
  static constexpr int sums = 1, bias_ih[] = {0}, bias_hh[] = {0};

  static CAROUSEL_INLINE void step(Step<Elman, T>& s) {
    const Vec<T> h = Phi::template value<T>(s.x[0] + s.u[0]);
    s.now[H] = h, s.at[0] = h;
  }

  static CAROUSEL_INLINE void backward(Back<Elman, T>& b) {
    b.d[0] = b.d_now[H] * Phi::template derivative<T>(b.at[0]);
    b.sum[0] += b.d[0];
  }
};

template <class T>
using ElmanTanh = Elman<T, Tanh>;
template <class T>
using ElmanRelu = Elman<T, Relu>;
template <class T>
using ElmanSigmoid = Elman<T, Sigmoid>;

CAROUSEL_KERNEL("elman-tanh", ElmanTanh);
CAROUSEL_KERNEL("elman-relu", ElmanRelu);
CAROUSEL_KERNEL("elman-sigmoid", ElmanSigmoid);

}  // namespace carousel
