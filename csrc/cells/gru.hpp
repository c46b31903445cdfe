// The gated recurrent unit, both kinds: see cells/gru.py.
#pragma once

#include "recurrent/kernel.hpp"

namespace carousel {

template <class T>
struct GRU : Plain<T> {
  enum Gate { R, Z, N, U_N };               // U_N: U_n h₋ + b_hn, saved for backward
  enum State { H };
  enum Delta { D_N, D_R, D_Z, D_RN };       // W multiplies n r z, U multiplies r z rn: neighbours in either case
  static constexpr int gates = 3, planes = 4, vectors = 1;  // b_hn
  static constexpr const char* gate_names[] = {"r", "z", "n"};
  static constexpr const char* saved[] = {"u_n"};
  static constexpr int d_planes = 4, x_plane = D_N, h_plane = D_R;
  static constexpr int x_order[] = {N, R, Z}, h_order[] = {R, Z, N};
  static constexpr int sums = 4, bias_ih[] = {D_R, D_Z, D_N}, bias_hh[] = {D_R, D_Z, D_RN};
  static constexpr bool sees_h = true, direct = true;
  using V = Vec<T>;

  static const T* vector(const T* const* w, long hidden, int) {
    return w[slot::bias_hh] ? w[slot::bias_hh] + N * hidden : nullptr;
  }
  static bool folds_bias(int gate) { return gate != N; }  // r multiplies that one

  static CAROUSEL_INLINE void step(Step<GRU, T>& s) {
    const V *x = s.x, *u = s.u;
    const V u_n = u[N] + s.p[0];
    const V r = sigmoid<T>(x[R] + u[R]);
    const V z = sigmoid<T>(x[Z] + u[Z]);
    const V n = tanh<T>(x[N] + r * u_n);
    s.now[H] = (1 - z) * n + z * s.old[H];
    s.at[R] = r, s.at[Z] = z, s.at[N] = n, s.at[U_N] = u_n;
  }

  static CAROUSEL_INLINE void backward(Back<GRU, T>& b) {
    const V r = b.at[R], z = b.at[Z], n = b.at[N], u_n = b.at[U_N];
    const V dz = b.d_now[H] * (b.old[H] - n);
    const V dn = b.d_now[H] * (1 - z);
    const V δ_n = dn * d_tanh(n);
    const V dr = δ_n * u_n;
    b.d[D_R] = dr * d_sigmoid(r), b.d[D_Z] = dz * d_sigmoid(z);
    b.d[D_N] = δ_n, b.d[D_RN] = δ_n * r;
    b.d_old[H] = b.d_now[H] * z;
    for (int q = 0; q < d_planes; q++) b.sum[q] += b.d[q];
  }
};

// Two products per step: n needs U_n (r∘h₋), so r of all units comes first.
template <class T>
struct ResetBeforeGRU : Plain<T> {
  enum Gate { R, Z, N };
  enum State { H };
  static constexpr int gates = 3, planes = 3;
  static constexpr const char* gate_names[] = {"r", "z", "n"};
  static constexpr int d_planes = 3, x_plane = 0, h_plane = 0, late_plane = R;
  static constexpr int x_order[] = {R, Z, N}, h_order[] = {R, Z, N};
  static constexpr int sums = 3, bias_ih[] = {R, Z, N}, bias_hh[] = {R, Z, N};
  static constexpr bool sees_h = true, direct = true, staged = true;
  using V = Vec<T>;

  static CAROUSEL_INLINE void step_gates(Step<ResetBeforeGRU, T>& s) {
    const V r = sigmoid<T>(s.x[R] + s.u[R]);
    const V z = sigmoid<T>(s.x[Z] + s.u[Z]);
    s.v = r * s.old[H];
    s.at[R] = r, s.at[Z] = z;
  }

  static CAROUSEL_INLINE void step_candidate(Step<ResetBeforeGRU, T>& s) {
    const V z = s.at[Z];
    const V n = tanh<T>(s.x[N] + s.u[N]);
    s.now[H] = (1 - z) * n + z * s.old[H];
    s.at[N] = n;
  }

  static CAROUSEL_INLINE void backward_candidate(Back<ResetBeforeGRU, T>& b) {
    const V z = b.at[Z], n = b.at[N];
    const V dz = b.d_now[H] * (b.old[H] - n);
    const V dn = b.d_now[H] * (1 - z);
    b.d[R] = V{}, b.d[Z] = dz * d_sigmoid(z), b.d[N] = dn * d_tanh(n);
    b.d_old[H] = b.d_now[H] * z;
    b.sum[Z] += b.d[Z], b.sum[N] += b.d[N];
  }

  static CAROUSEL_INLINE void backward_gates(Back<ResetBeforeGRU, T>& b) {  // dv = ∂L/∂(r∘h₋)
    const V r = b.at[R];
    const V dr = b.dv * b.old[H];
    b.d[R] = dr * d_sigmoid(r);
    b.d_old[H] += b.dv * r;
    b.sum[R] += b.d[R];
  }
};

CAROUSEL_KERNEL("gru", GRU);
CAROUSEL_KERNEL("gru-reset-before", ResetBeforeGRU);

}  // namespace carousel
