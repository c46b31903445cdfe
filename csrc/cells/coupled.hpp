// The coupled LSTM, with and without peepholes: see cells/coupled.py.
#pragma once

#include "recurrent/kernel.hpp"

namespace carousel {

template <bool peephole>
struct CoupledParameters {
  static constexpr std::array<Parameter, 0> own = {};
};
template <>
struct CoupledParameters<true> {
  static constexpr Parameter own[] = {{"weight_ch", 2}};
};

template <class T, bool peephole>
struct Coupled : LSTMKind<T> {
  enum Gate { F, G, O };
  enum State { H, C };
  enum Vector { P_F, P_O };
  enum Slot { WEIGHT_CH = slot::own };
  static constexpr int gates = 3, planes = 3, vectors = peephole ? 2 : 0;
  static constexpr const char* gate_names[] = {"f", "g", "o"};
  static constexpr auto& own = CoupledParameters<peephole>::own;
  static constexpr int d_planes = 3, x_plane = 0, h_plane = 0;
  static constexpr int x_order[] = {F, G, O}, h_order[] = {F, G, O};
  static constexpr int sums = gates + vectors, bias_ih[] = {F, G, O}, bias_hh[] = {F, G, O};
  using V = Vec<T>;

  static const T* vector(const T* const* w, long hidden, int k) { return w[WEIGHT_CH] + k * hidden; }

  static void gradients(const Sums<T>& sums, T* const* d) {
    for (int k = 0; k < vectors; k++) sums.store(gates + k, d[WEIGHT_CH], k);
  }

  static CAROUSEL_INLINE void step(Step<Coupled, T>& s) {
    const V *x = s.x, *u = s.u;
    V a_f = x[F] + u[F], a_o = x[O] + u[O];
    const V c_ = s.old[C];
    if constexpr (peephole) a_f += s.p[P_F] * c_;
    const V f = sigmoid<T>(a_f);
    const V g = tanh<T>(x[G] + u[G]);
    const V c = f * c_ + (1 - f) * g;
    if constexpr (peephole) a_o += s.p[P_O] * c;
    const V o = sigmoid<T>(a_o);
    s.now[C] = c, s.now[H] = o * tanh<T>(c);
    s.at[F] = f, s.at[G] = g, s.at[O] = o;
  }

  static CAROUSEL_INLINE void states_again(Back<Coupled, T>& b) {
    b.now[C] = b.at[F] * b.old[C] + (1 - b.at[F]) * b.at[G];
  }

  static CAROUSEL_INLINE void backward(Back<Coupled, T>& b) {
    const V f = b.at[F], g = b.at[G], o = b.at[O];
    const V c = b.now[C], c_ = b.old[C], dh = b.d_now[H];
    const V s = tanh<T>(c);
    b.m = o * s;
    const V d_o = dh * s;
    const V δ_o = d_o * d_sigmoid(o);
    V dc = b.d_now[C] + dh * o * d_tanh(s);
    if constexpr (peephole) dc += δ_o * b.p[P_O];
    const V df = dc * (c_ - g);
    const V dg = dc * (1 - f);
    const V δ_f = df * d_sigmoid(f), δ_g = dg * d_tanh(g);
    b.d_old[C] = dc * f;
    b.d[F] = δ_f, b.d[G] = δ_g, b.d[O] = δ_o;
    for (int q = 0; q < gates; q++) b.sum[q] += b.d[q];
    if constexpr (peephole) {
      b.d_old[C] += δ_f * b.p[P_F];
      b.sum[gates + P_F] += δ_f * c_;
      b.sum[gates + P_O] += δ_o * c;
    }
  }
};

template <class T>
using PlainCoupled = Coupled<T, false>;
template <class T>
using PeepholeCoupled = Coupled<T, true>;

CAROUSEL_KERNEL("coupled", PlainCoupled);
CAROUSEL_KERNEL("coupled-peephole", PeepholeCoupled);

}  // namespace carousel
