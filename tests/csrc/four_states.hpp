// A cell with four states, as the exponential gates of the sLSTM need them, for the driver's tests only. h is output,
// c the cell, n the normaliser, m the greatest exponent so far, which keeps i and f from overflowing:
//   m = max(f̃ + m₋, ĩ)    i = e^{ĩ − m}    f = e^{f̃ + m₋ − m}    z = tanh(z̃ + w∘c₋)    o = σ(õ)
//   c = f∘c₋ + i∘z         n = f∘n₋ + i     h = o∘c / (1 + n²)
#pragma once

#include "recurrent/kernel.hpp"

namespace carousel {

template <class T>
struct FourStates : Plain<T> {
  enum Gate { I, F, Z, O, SAVED_M };
  enum State { H, C, N, M };
  enum Slot { WEIGHT_CZ = slot::own };
  static constexpr int gates = 4, states = 4, planes = 5, vectors = 1;
  static constexpr const char* gate_names[] = {"i", "f", "z", "o"};
  static constexpr const char* state_names[] = {"h", "c", "n", "m"};
  static constexpr const char* saved[] = {"m"};
  static constexpr Parameter own[] = {{"weight_cz", 1}};
  static constexpr int d_planes = 4, x_plane = 0, h_plane = 0;
  static constexpr int x_order[] = {I, F, Z, O}, h_order[] = {I, F, Z, O};
  static constexpr int sums = 5, bias_ih[] = {I, F, Z, O}, bias_hh[] = {I, F, Z, O};
  static constexpr bool projects = true;
  using V = Vec<T>;

  static const T* vector(const T* const* w, long, int) { return w[WEIGHT_CZ]; }
  static void gradients(const Sums<T>& sums, T* const* d) { sums.store(gates, d[WEIGHT_CZ]); }

  static CAROUSEL_INLINE void step(Step<FourStates, T>& s) {
    const V *x = s.x, *u = s.u;
    const V c_ = s.old[C], n_ = s.old[N], m_ = s.old[M];
    const V a_i = x[I] + u[I], a_f = x[F] + u[F] + m_;
    const V m = a_f < a_i ? a_i : a_f;
    const V i = decay<T>(a_i - m), f = decay<T>(a_f - m);
    const V z = tanh<T>(x[Z] + u[Z] + s.p[0] * c_);
    const V o = sigmoid<T>(x[O] + u[O]);
    const V c = f * c_ + i * z, n = f * n_ + i;
    s.now[C] = c, s.now[N] = n, s.now[M] = m;
    s.now[H] = o * c / (1 + n * n);
    s.at[I] = i, s.at[F] = f, s.at[Z] = z, s.at[O] = o, s.at[SAVED_M] = m;
  }

  static CAROUSEL_INLINE void states_again(Back<FourStates, T>& b) {
    b.now[C] = b.at[F] * b.old[C] + b.at[I] * b.at[Z];
    b.now[N] = b.at[F] * b.old[N] + b.at[I];
    b.now[M] = b.at[SAVED_M];
  }

  static CAROUSEL_INLINE void backward(Back<FourStates, T>& b) {
    const V i = b.at[I], f = b.at[F], z = b.at[Z], o = b.at[O];
    const V c = b.now[C], n = b.now[N], c_ = b.old[C], n_ = b.old[N], dh = b.d_now[H];
    const V r = 1 / (1 + n * n);
    b.m = o * c * r;
    const V d_o = dh * c * r;
    const V dc = b.d_now[C] + dh * o * r;
    const V dn = b.d_now[N] - dh * o * c * 2 * n * r * r;
    const V di = dc * z + dn, df = dc * c_ + dn * n_, dz = dc * i;
    const V dm = b.d_now[M] - di * i - df * f;
    const auto kept = f >= T(1);  // m = f̃ + m₋
    b.d[I] = di * i + (kept ? V{} : dm);
    b.d[F] = df * f + (kept ? dm : V{});
    b.d[Z] = dz * d_tanh(z), b.d[O] = d_o * d_sigmoid(o);
    b.d_old[C] = dc * f + b.d[Z] * b.p[0];
    b.d_old[N] = dn * f;
    b.d_old[M] = b.d[F];
    for (int q = 0; q < gates; q++) b.sum[q] += b.d[q];
    b.sum[gates] += b.d[Z] * c_;
  }
};

CAROUSEL_KERNEL("four-states", FourStates);

}  // namespace carousel
