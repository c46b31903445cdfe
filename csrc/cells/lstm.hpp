// The LSTM: see cells/lstm.py.
#pragma once

#include "recurrent/cell.hpp"

namespace carousel {

template <class T>
struct LSTM : LSTMKind<T> {
  enum Gate { I, F, G, O };
  static constexpr int gates = 4, planes = 4;
  static constexpr int d_planes = 4, x_plane = 0, h_plane = 0;
  static constexpr int x_order[] = {I, F, G, O}, h_order[] = {I, F, G, O};
  static constexpr int sums = 4, bias_ih[] = {I, F, G, O}, bias_hh[] = {I, F, G, O};
  using V = Vec<T>;

  static CAROUSEL_INLINE void step(Step<LSTM, T>& s) {
    const V *x = s.x, *u = s.u;
    const V i = sigmoid<T>(x[I] + u[I]);
    const V f = sigmoid<T>(x[F] + u[F]);
    const V g = tanh<T>(x[G] + u[G]);
    const V o = sigmoid<T>(x[O] + u[O]);
    s.c = f * s.c_ + i * g;
    s.h = o * tanh<T>(s.c);
    s.at[I] = i, s.at[F] = f, s.at[G] = g, s.at[O] = o;
  }

  static CAROUSEL_INLINE V cell(const V* at, V c_) { return at[F] * c_ + at[I] * at[G]; }

  static CAROUSEL_INLINE void backward(Back<LSTM, T>& b) {
    const V i = b.at[I], f = b.at[F], g = b.at[G], o = b.at[O];
    const V s = tanh<T>(b.c);
    b.m = o * s;
    const V d_o = b.dh * s;
    const V dc = b.dc + b.dh * o * d_tanh(s);
    const V di = dc * g;
    const V df = dc * b.c_;
    const V dg = dc * i;
    b.d[I] = di * d_sigmoid(i), b.d[F] = df * d_sigmoid(f), b.d[G] = dg * d_tanh(g), b.d[O] = d_o * d_sigmoid(o);
    b.dc_ = dc * f;
    for (int q = 0; q < gates; q++) b.sum[q] += b.d[q];
  }
};

}  // namespace carousel
