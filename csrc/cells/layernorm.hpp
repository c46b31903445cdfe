// The layer-norm LSTM: see cells/layernorm.py.
//
// A row of `values` holds the gates, then W x normalised (x̂), then U h₋ normalised (û), four planes each, and in
// its spare vector the two scales 1/√(var + ε). Norms need all units of a row, so a step is a function of a row.
#pragma once

#include <cmath>

#include "recurrent/kernel.hpp"

namespace carousel {

template <class T>
struct LayerNorm : LSTMKind<T> {
  enum Gate { I, F, G, O };
  enum State { H, C };
  enum Slot { NORM_IH_WEIGHT = slot::own, NORM_IH_BIAS, NORM_HH_WEIGHT, NORM_HH_BIAS, NORM_C_WEIGHT, NORM_C_BIAS };
  enum Plane { X = 4, U = 8 };  // x̂ and û of gate 0
  static constexpr int gates = 4, planes = 12, input_plane = X;
  static constexpr const char* gate_names[] = {"i", "f", "g", "o"};
  static constexpr const char* saved[] = {"x_i", "x_f", "x_g", "x_o", "u_i", "u_f", "u_g", "u_o"};
  static constexpr Parameter own[] = {{"norm_ih_weight", 4}, {"norm_ih_bias", 4}, {"norm_hh_weight", 4},
                                      {"norm_hh_bias", 4},   {"norm_c_weight", 1}, {"norm_c_bias", 1}};
  static constexpr int d_planes = 8, x_plane = 0, h_plane = 4;
  static constexpr int x_order[] = {I, F, G, O}, h_order[] = {I, F, G, O};
  enum Sum { D = 0, D_X = 4, D_U = 8, GAIN_C = 12, BIAS_C = 13 };  // δ, δ∘x̂, δ∘û; gain and bias of LN(c)
  static constexpr int sums = 14, bias_ih[] = {I, F, G, O}, bias_hh[] = {I, F, G, O};
  static constexpr bool whole_rows = true;
  static constexpr T epsilon = T(1e-5);
  using V = Vec<T>;

  static void gradients(const Sums<T>& sums, T* const* d) {
    for (int q = 0; q < gates; q++) {
      sums.store(D + q, d[NORM_IH_BIAS], q), sums.store(D + q, d[NORM_HH_BIAS], q);
      sums.store(D_X + q, d[NORM_IH_WEIGHT], q), sums.store(D_U + q, d[NORM_HH_WEIGHT], q);
    }
    sums.store(GAIN_C, d[NORM_C_WEIGHT]), sums.store(BIAS_C, d[NORM_C_BIAS]);
  }

  // f(u, n, tail) for each vector of units: n lanes from unit u.
  template <class Function>
  static CAROUSEL_INLINE void each(long hidden, Function f) {
    long u = 0;
    for (; u + lanes<T> <= hidden; u += lanes<T>) f(u, lanes<T>, std::false_type());
    if (u < hidden) f(u, int(hidden - u), std::true_type());
  }

  // v ← (v − mean v) / √(var v + ε) over `blocks` planes of `hidden` units; returns the scale.
  static T normalise(const T* v, T* to, int blocks, long hidden, long plane) {
    V sum{}, square{};
    for (int q = 0; q < blocks; q++)
      each(hidden, [&](long u, int n, auto tail) { sum += only<tail, T>(load<T>(v + q * plane + u), n); });
    const T mean = total<T>(sum) / T(blocks * hidden);
    for (int q = 0; q < blocks; q++)
      each(hidden, [&](long u, int n, auto tail) {
        const V centred = only<tail, T>(load<T>(v + q * plane + u) - mean, n);
        square += centred * centred;
      });
    const T scale = 1 / std::sqrt(total<T>(square) / T(blocks * hidden) + epsilon);
    for (int q = 0; q < blocks; q++)
      each(hidden, [&](long u, int n, auto tail) {
        store<T>(to + q * plane + u, only<tail, T>((load<T>(v + q * plane + u) - mean) * scale, n));
      });
    return scale;
  }

  static void step_row(const StepRow<T>& row) {
    const long hidden = row.size.hidden, plane = row.size.plane;
    const T *const *w = row.w, *c_ = row.old[C];
    T *at = row.at, *u = row.u, *c = row.now[C], *m = row.now[H];
    T *x_hat = at + X * plane, *u_hat = at + U * plane, *scales = at + planes * plane;
    scales[0] = normalise(x_hat, x_hat, gates, hidden, plane);
    scales[1] = normalise(u, u_hat, gates, hidden, plane);
    each(hidden, [&](long k, int n, auto tail) {
      auto parameter = [&](int slot, int q) { return w[slot] ? load_n<tail>(w[slot] + q * hidden + k, n) : V{}; };
      V a[gates];
      for (int q = 0; q < gates; q++)
        a[q] = load<T>(x_hat + q * plane + k) * parameter(NORM_IH_WEIGHT, q) + parameter(NORM_IH_BIAS, q) +
               parameter(slot::bias_ih, q) + load<T>(u_hat + q * plane + k) * parameter(NORM_HH_WEIGHT, q) +
               parameter(NORM_HH_BIAS, q) + parameter(slot::bias_hh, q);
      const V i = sigmoid<T>(a[I]), f = sigmoid<T>(a[F]), g = tanh<T>(a[G]), o = sigmoid<T>(a[O]);
      store<T>(at + I * plane + k, i), store<T>(at + F * plane + k, f);
      store<T>(at + G * plane + k, g), store<T>(at + O * plane + k, o);
      store<T>(c + k, f * load<T>(c_ + k) + i * g);
    });
    normalise(c, u, 1, hidden, plane);  // u is free now
    each(hidden, [&](long k, int n, auto tail) {
      const V y = load<T>(u + k) * load_n<tail>(w[NORM_C_WEIGHT] + k, n) + load_n<tail>(w[NORM_C_BIAS] + k, n);
      store_n<tail>(m + k, load<T>(at + O * plane + k) * tanh<T>(y), n);
    });
  }

  // dv = (d̂ − mean d̂ − n∘mean(d̂∘n)) scale over `blocks` planes, d̂ = γ∘d; dn_sum, dnn_sum are the sums of d̂ and d̂∘n.
  static CAROUSEL_INLINE V norm_backward(V dn, V n, T dn_mean, T dnn_mean, T scale) {
    return (dn - dn_mean - n * dnn_mean) * scale;
  }

  static void backward_row(const BackRow<T>& row) {
    const long hidden = row.size.hidden, plane = row.size.plane;
    const T *const *w = row.w, *at = row.at, *c = row.now[C], *c_ = row.old[C], *dm = row.dm;
    T *spare = row.spare, *dc = row.d_state[C], *delta = row.delta, *m = row.m, *sums = row.sums;
    const T *x_hat = at + X * plane, *u_hat = at + U * plane, *scales = at + planes * plane;
    if (!c) {
      each(hidden, [&](long k, int, auto) {
        store<T>(spare + k, load<T>(at + F * plane + k) * load<T>(c_ + k) + load<T>(at + I * plane + k) * load<T>(at + G * plane + k));
      });
      c = spare;
    }
    const T scale_c = normalise(c, spare, 1, hidden, plane);  // spare: c normalised
    V sum{}, sum_n{};
    T* dn_c = delta;  // plane 0 of delta is free until δ is known
    T* s_c = delta + plane;
    auto add = [&](int q, long k, V v) { store<T>(sums + q * plane + k, load<T>(sums + q * plane + k) + v); };
    each(hidden, [&](long k, int n, auto tail) {
      const V nc = load<T>(spare + k), gain = load_n<tail>(w[NORM_C_WEIGHT] + k, n);
      const V s = tanh<T>(nc * gain + load_n<tail>(w[NORM_C_BIAS] + k, n));
      const V dy = only<tail, T>(load<T>(dm + k) * load<T>(at + O * plane + k) * d_tanh(s), n);
      const V dn = dy * gain;
      add(GAIN_C, k, dy * nc), add(BIAS_C, k, dy);
      sum += dn, sum_n += dn * nc;
      store<T>(dn_c + k, dn), store<T>(s_c + k, s);
      if (m) store<T>(m + k, load<T>(at + O * plane + k) * s);
    });
    const T mean = total<T>(sum) / T(hidden), mean_n = total<T>(sum_n) / T(hidden);
    V x_sum{}, x_sum_n{}, u_sum{}, u_sum_n{};
    each(hidden, [&](long k, int n, auto tail) {
      const V i = load<T>(at + I * plane + k), f = load<T>(at + F * plane + k), g = load<T>(at + G * plane + k),
              o = load<T>(at + O * plane + k), s = load<T>(s_c + k);
      const V dc_k = load<T>(dc + k) + norm_backward(load<T>(dn_c + k), load<T>(spare + k), mean, mean_n, scale_c);
      const V d_o = load<T>(dm + k) * s;
      const V di = dc_k * g;
      const V df = dc_k * load<T>(c_ + k);
      const V dg = dc_k * i;
      const V δ[gates] = {di * d_sigmoid(i), df * d_sigmoid(f), dg * d_tanh(g), d_o * d_sigmoid(o)};
      store<T>(dc + k, dc_k * f);
      for (int q = 0; q < gates; q++) {
        const V δ_q = only<tail, T>(δ[q], n), nx = load<T>(x_hat + q * plane + k), nu = load<T>(u_hat + q * plane + k);
        const V dx = δ_q * load_n<tail>(w[NORM_IH_WEIGHT] + q * hidden + k, n);
        const V du = δ_q * load_n<tail>(w[NORM_HH_WEIGHT] + q * hidden + k, n);
        add(D + q, k, δ_q), add(D_X + q, k, δ_q * nx), add(D_U + q, k, δ_q * nu);
        x_sum += dx, x_sum_n += dx * nx, u_sum += du, u_sum_n += du * nu;
        store<T>(delta + q * plane + k, dx), store<T>(delta + (gates + q) * plane + k, du);
      }
    });
    const T count = T(gates * hidden), x_mean = total<T>(x_sum) / count, x_mean_n = total<T>(x_sum_n) / count,
            u_mean = total<T>(u_sum) / count, u_mean_n = total<T>(u_sum_n) / count;
    for (int q = 0; q < gates; q++)
      each(hidden, [&](long k, int n, auto tail) {
        T *dx = delta + q * plane + k, *du = delta + (gates + q) * plane + k;
        const V nx = load<T>(x_hat + q * plane + k), nu = load<T>(u_hat + q * plane + k);
        store<T>(dx, only<tail, T>(norm_backward(load<T>(dx), nx, x_mean, x_mean_n, scales[0]), n));
        store<T>(du, only<tail, T>(norm_backward(load<T>(du), nu, u_mean, u_mean_n, scales[1]), n));
      });
  }
};

CAROUSEL_KERNEL("layernorm", LayerNorm);

}  // namespace carousel
