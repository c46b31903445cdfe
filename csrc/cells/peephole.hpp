// The peephole LSTM, diagonal: see cells/peephole.py.
#pragma once

#include "recurrent/cell.hpp"

namespace carousel {

template <class T>
struct Peephole : LSTMKind<T> {
  enum Gate { I, F, G, O };
  enum Look { P_I, P_F, P_O };
  static constexpr int gates = 4, planes = 4, parameters = 3, peepholes = 3;
  static constexpr int d_planes = 4, x_plane = 0, h_plane = 0;
  static constexpr int x_order[] = {I, F, G, O}, h_order[] = {I, F, G, O};
  static constexpr int sums = 7, bias_ih[] = {I, F, G, O}, bias_hh[] = {I, F, G, O};
  using V = Vec<T>;

  static const T* parameter(const Direction<T>& d, long hidden, int k) { return d.weight_ch + k * hidden; }

  static CAROUSEL_INLINE void step(Step<Peephole, T>& s) {
    const V *x = s.x, *u = s.u;
    const V p_i = s.p[P_I], p_f = s.p[P_F], p_o = s.p[P_O];
    const V i = sigmoid<T>(x[I] + u[I] + p_i * s.c_);
    const V f = sigmoid<T>(x[F] + u[F] + p_f * s.c_);
    const V g = tanh<T>(x[G] + u[G]);
    s.c = f * s.c_ + i * g;
    const V o = sigmoid<T>(x[O] + u[O] + p_o * s.c);
    s.h = o * tanh<T>(s.c);
    s.at[I] = i, s.at[F] = f, s.at[G] = g, s.at[O] = o;
  }

  static CAROUSEL_INLINE V cell(const V* at, V c_) { return at[F] * c_ + at[I] * at[G]; }

  static CAROUSEL_INLINE void backward(Back<Peephole, T>& b) {
    const V i = b.at[I], f = b.at[F], g = b.at[G], o = b.at[O];
    const V p_i = b.p[P_I], p_f = b.p[P_F], p_o = b.p[P_O];
    const V s = tanh<T>(b.c);
    b.m = o * s;
    const V d_o = b.dh * s;
    const V δ_o = d_o * d_sigmoid(o);
    const V dc = b.dc + b.dh * o * d_tanh(s) + δ_o * p_o;
    const V di = dc * g;
    const V df = dc * b.c_;
    const V dg = dc * i;
    const V δ_i = di * d_sigmoid(i), δ_f = df * d_sigmoid(f), δ_g = dg * d_tanh(g);
    b.d[I] = δ_i, b.d[F] = δ_f, b.d[G] = δ_g, b.d[O] = δ_o;
    b.dc_ = dc * f + δ_i * p_i + δ_f * p_f;
    for (int q = 0; q < gates; q++) b.sum[q] += b.d[q];
    b.sum[gates + P_I] += δ_i * b.c_;
    b.sum[gates + P_F] += δ_f * b.c_;
    b.sum[gates + P_O] += δ_o * b.c;
  }
};

}  // namespace carousel
