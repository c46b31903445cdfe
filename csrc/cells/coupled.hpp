// The coupled LSTM, with and without peepholes: see cells/coupled.py.
#pragma once

#include "recurrent/cell.hpp"

namespace carousel {

template <class T, bool peephole>
struct Coupled : LSTMKind<T> {
  enum Gate { F, G, O };
  enum Look { P_F, P_O };
  static constexpr int gates = 3, planes = 3, parameters = peephole ? 2 : 0, peepholes = parameters;
  static constexpr int d_planes = 3, x_plane = 0, h_plane = 0;
  static constexpr int x_order[] = {F, G, O}, h_order[] = {F, G, O};
  static constexpr int sums = gates + peepholes, bias_ih[] = {F, G, O}, bias_hh[] = {F, G, O};
  using V = Vec<T>;

  static const T* parameter(const Direction<T>& d, long hidden, int k) { return d.weight_ch + k * hidden; }

  static CAROUSEL_INLINE void step(Step<Coupled, T>& s) {
    const V *x = s.x, *u = s.u;
    V a_f = x[F] + u[F], a_o = x[O] + u[O];
    if constexpr (peephole) a_f += s.p[P_F] * s.c_;
    const V f = sigmoid<T>(a_f);
    const V g = tanh<T>(x[G] + u[G]);
    s.c = f * s.c_ + (1 - f) * g;
    if constexpr (peephole) a_o += s.p[P_O] * s.c;
    const V o = sigmoid<T>(a_o);
    s.h = o * tanh<T>(s.c);
    s.at[F] = f, s.at[G] = g, s.at[O] = o;
  }

  static CAROUSEL_INLINE V cell(const V* at, V c_) { return at[F] * c_ + (1 - at[F]) * at[G]; }

  static CAROUSEL_INLINE void backward(Back<Coupled, T>& b) {
    const V f = b.at[F], g = b.at[G], o = b.at[O];
    const V s = tanh<T>(b.c);
    b.m = o * s;
    const V d_o = b.dh * s;
    const V δ_o = d_o * d_sigmoid(o);
    V dc = b.dc + b.dh * o * d_tanh(s);
    if constexpr (peephole) dc += δ_o * b.p[P_O];
    const V df = dc * (b.c_ - g);
    const V dg = dc * (1 - f);
    const V δ_f = df * d_sigmoid(f), δ_g = dg * d_tanh(g);
    b.dc_ = dc * f;
    b.d[F] = δ_f, b.d[G] = δ_g, b.d[O] = δ_o;
    for (int q = 0; q < gates; q++) b.sum[q] += b.d[q];
    if constexpr (peephole) {
      b.dc_ += δ_f * b.p[P_F];
      b.sum[gates + P_F] += δ_f * b.c_;
      b.sum[gates + P_O] += δ_o * b.c;
    }
  }
};

}  // namespace carousel
