// The LSTM: see cells/lstm.py.
#pragma once

#include "recurrent/kernel.hpp"

namespace carousel {

template <class T>
struct LSTM : LSTMKind<T> {
  enum Gate { I, F, G, O };
  enum State { H, C };
  static constexpr int gates = 4, planes = 4;
  static constexpr const char* gate_names[] = {"i", "f", "g", "o"};
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
    const V c = f * s.old[C] + i * g;
    s.now[C] = c, s.now[H] = o * tanh<T>(c);
    s.at[I] = i, s.at[F] = f, s.at[G] = g, s.at[O] = o;
  }

  static CAROUSEL_INLINE void states_again(Back<LSTM, T>& b) { b.now[C] = b.at[F] * b.old[C] + b.at[I] * b.at[G]; }

  static CAROUSEL_INLINE void backward(Back<LSTM, T>& b) {
    const V i = b.at[I], f = b.at[F], g = b.at[G], o = b.at[O];
    const V c_ = b.old[C], dh = b.d_now[H];
    const V s = tanh<T>(b.now[C]);
    b.m = o * s;
    const V d_o = dh * s;
    const V dc = b.d_now[C] + dh * o * d_tanh(s);
    const V di = dc * g;
    const V df = dc * c_;
    const V dg = dc * i;
    b.d[I] = di * d_sigmoid(i), b.d[F] = df * d_sigmoid(f), b.d[G] = dg * d_tanh(g), b.d[O] = d_o * d_sigmoid(o);
    b.d_old[C] = dc * f;
    for (int q = 0; q < gates; q++) b.sum[q] += b.d[q];
  }
};

CAROUSEL_KERNEL("lstm", LSTM);

}  // namespace carousel
