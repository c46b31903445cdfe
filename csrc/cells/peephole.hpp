// The peephole LSTM, diagonal: see cells/peephole.py.
#pragma once

#include "recurrent/kernel.hpp"

namespace carousel {

template <class T>
struct Peephole : LSTMKind<T> {
  enum Gate { I, F, G, O };
  enum State { H, C };
  enum Vector { P_I, P_F, P_O };
  enum Slot { WEIGHT_CH = slot::own };
  static constexpr int gates = 4, planes = 4, vectors = 3;
  static constexpr const char* gate_names[] = {"i", "f", "g", "o"};
  static constexpr Parameter own[] = {{"weight_ch", 3}};
  static constexpr int d_planes = 4, x_plane = 0, h_plane = 0;
  static constexpr int x_order[] = {I, F, G, O}, h_order[] = {I, F, G, O};
  static constexpr int sums = 7, bias_ih[] = {I, F, G, O}, bias_hh[] = {I, F, G, O};
  using V = Vec<T>;

  static const T* vector(const T* const* w, long hidden, int k) { return w[WEIGHT_CH] + k * hidden; }

  static void gradients(const Sums<T>& sums, T* const* d) {
    for (int k : {P_I, P_F, P_O}) sums.store(gates + k, d[WEIGHT_CH], k);
  }

  static CAROUSEL_INLINE void step(Step<Peephole, T>& s) {
    const V *x = s.x, *u = s.u;
    const V p_i = s.p[P_I], p_f = s.p[P_F], p_o = s.p[P_O], c_ = s.old[C];
    const V i = sigmoid<T>(x[I] + u[I] + p_i * c_);
    const V f = sigmoid<T>(x[F] + u[F] + p_f * c_);
    const V g = tanh<T>(x[G] + u[G]);
    const V c = f * c_ + i * g;
    const V o = sigmoid<T>(x[O] + u[O] + p_o * c);
    s.now[C] = c, s.now[H] = o * tanh<T>(c);
    s.at[I] = i, s.at[F] = f, s.at[G] = g, s.at[O] = o;
  }

  static CAROUSEL_INLINE void states_again(Back<Peephole, T>& b) { b.now[C] = b.at[F] * b.old[C] + b.at[I] * b.at[G]; }

  static CAROUSEL_INLINE void backward(Back<Peephole, T>& b) {
    const V i = b.at[I], f = b.at[F], g = b.at[G], o = b.at[O];
    const V p_i = b.p[P_I], p_f = b.p[P_F], p_o = b.p[P_O];
    const V c = b.now[C], c_ = b.old[C], dh = b.d_now[H];
    const V s = tanh<T>(c);
    b.m = o * s;
    const V d_o = dh * s;
    const V δ_o = d_o * d_sigmoid(o);
    const V dc = b.d_now[C] + dh * o * d_tanh(s) + δ_o * p_o;
    const V di = dc * g;
    const V df = dc * c_;
    const V dg = dc * i;
    const V δ_i = di * d_sigmoid(i), δ_f = df * d_sigmoid(f), δ_g = dg * d_tanh(g);
    b.d[I] = δ_i, b.d[F] = δ_f, b.d[G] = δ_g, b.d[O] = δ_o;
    b.d_old[C] = dc * f + δ_i * p_i + δ_f * p_f;
    for (int q = 0; q < gates; q++) b.sum[q] += b.d[q];
    b.sum[gates + P_I] += δ_i * c_;
    b.sum[gates + P_F] += δ_f * c_;
    b.sum[gates + P_O] += δ_o * c;
  }
};

CAROUSEL_KERNEL("peephole", Peephole);

}  // namespace carousel
