// Between grid and cell: one vector of units of some rows is loaded, stepped and stored.
#pragma once

#include "recurrent/backward.hpp"

namespace carousel {

// Zoneout's share of the previous value: a mask in training (1 keeps), a rate in evaluation.
template <bool tail, class T>
CAROUSEL_INLINE Vec<T> kept(const std::uint8_t* keep, T rate, int n) {
  if (!keep) return splat<T>(rate);
  T lane[lanes<T>] = {};
  for (int j = 0; j < (tail ? n : lanes<T>); j++) lane[j] = keep[j];
  return load<T>(lane);
}

// The lanes past the last unit hold what an infinite input made of zero weights; they must not meet a product.
template <bool tail, class T>
CAROUSEL_INLINE Vec<T> only(Vec<T> v, int n) {
  if constexpr (!tail) return v;
  T lane[lanes<T>];
  store<T>(lane, v);
  return load_some<T>(lane, n);
}

template <class Cell, class T, Stage stage, bool tail>
void step_units(const Forward<T>& f, Stepping<T>& my, long j0, long rows, long block, long k) {
  constexpr int first_gates = Cell::staged ? Cell::gates - 1 : Cell::gates;
  const long u0 = (2 * block + k) * lanes<T>, wide = f.size.wide(block), plane = f.size.plane, P = f.layer.projected;
  const int n = int(std::min<long>(lanes<T>, f.size.hidden - u0));
  const bool zone_h = f.zones_h() && !f.projects(), zone_c = f.zones_c(), save = f.d.values != nullptr;
  const long from = wide == 2 ? k * lanes<T> : 0, next = wide * lanes<T>;  // of the scratch's gates
  Step<Cell, T> s{};
  for (int q = 0; q < Cell::parameters; q++) s.p[q] = load<T>(f.parameters + q * plane + u0);
  for (long j = j0; j < j0 + rows; j++) {
    T* at = my.at[j] + u0;
    const T* u = my.u[j - j0] + from;
    if constexpr (Cell::sees_h) s.h_ = load_n<tail>(my.h_[j] + u0, n);
    if constexpr (Cell::has_c) s.c_ = load<T>(my.c_[j] + u0);
    if constexpr (stage == Stage::candidate) {
      constexpr int last = Cell::gates - 1;
      for (int q = 0; q < last; q++) s.at[q] = load<T>(at + q * plane);
      s.x[last] = load<T>(at + last * plane), s.u[last] = load<T>(u);
      Cell::step_candidate(s);
    } else {
#pragma GCC unroll 4
      for (int q = 0; q < first_gates; q++) s.x[q] = load<T>(at + q * plane), s.u[q] = load<T>(u + q * next);
      if constexpr (stage == Stage::gates) {
        Cell::step_gates(s);
        if (f.d.mask) s.v *= load_n<tail>(f.d.mask + my.rows[j] * P + u0, n);
        store<T>(my.second[j] + u0, s.v);
        for (int q = 0; q < first_gates; q++) store<T>(at + q * plane, s.at[q]);
        continue;
      } else {
        Cell::step(s);
      }
    }
    if (save)
#pragma GCC unroll 4
      for (int q = 0; q < Cell::planes; q++) store<T>(at + q * plane, s.at[q]);
    const long row = my.t * f.layer.batch + my.rows[j];
    if (zone_h) {
      const Vec<T> h_ = load_n<tail>(my.h_[j] + u0, n);
      const Vec<T> keep = kept<tail>(f.d.zone_h ? f.d.zone_h + row * P + u0 : nullptr, f.layer.zone_h, n);
      s.h = f.d.zone_h ? (keep > T(0) ? h_ : s.h) : keep * h_ + (1 - keep) * s.h;
    }
    if constexpr (Cell::has_c) {
      if (zone_c) {
        const Vec<T> keep = kept<tail>(f.d.zone_c ? f.d.zone_c + row * f.size.hidden + u0 : nullptr, f.layer.zone_c, n);
        s.c = f.d.zone_c ? (keep > T(0) ? s.c_ : s.c) : keep * s.c_ + (1 - keep) * s.c;
      }
      store<T>(my.c[j] + u0, s.c);
    }
    store_n<tail>(my.m[j] + u0, s.h, n);
  }
}

template <class Cell, class T>
void step_rows(const Forward<T>& f, Stepping<T>& my, long j) {
  if constexpr (Cell::whole_rows) {
    T* c = f.zones_c() ? static_cast<T*>(my.fresh_c) : my.c[j];
    Cell::step_row(f.size, f.d, my.at[j], my.second[j], my.c_[j], c, my.m[j]);
    if (f.zones_c()) f.zone_c(my, j, c);
    if (f.zones_h() && !f.projects()) f.zone_h(my, j, 0, f.layer.projected);
  }
}

template <class Cell, class T, Stage stage, bool tail>
void backward_units(const Backward<T>& f, Returning<T>& my, long j0, long rows, long u0) {
  const int n = int(std::min<long>(lanes<T>, f.size.hidden - u0));
  const long plane = f.size.plane, P = f.layer.projected;
  const Direction<T>& d = f.d;
  const bool projects = f.projects(), zone_h = f.zones_h() && !projects, zone_c = f.zones_c();
  Back<Cell, T> b{};
  for (int q = 0; q < Cell::parameters; q++) b.p[q] = load<T>(f.parameters + q * plane + u0);
  for (int q = 0; q < Cell::sums; q++) b.sum[q] = load<T>(my.sums + q * plane + u0);
  for (long j = j0; j < j0 + rows; j++) {
    const T* at = my.at[j] + u0;
    T *delta = my.delta[j] + u0, *carry_h = my.carry_h[j] + u0;
    const long r = my.rows[j], row = my.t * f.layer.batch + r;
#pragma GCC unroll 8
    for (int q = 0; q < Cell::planes; q++) b.at[q] = load<T>(at + q * plane);
    if constexpr (Cell::sees_h) b.h_ = load_n<tail>(my.h_[j] + u0, n);
    if constexpr (stage == Stage::gates) {
      b.dv = load<T>(my.through[j] + u0);
      if (d.mask) b.dv *= load_n<tail>(d.mask + r * P + u0, n);
      b.dh_ = load<T>(carry_h);
      Cell::backward_gates(b);
      store<T>(delta + Cell::late_plane * plane, only<tail, T>(b.d[Cell::late_plane], n));
      store<T>(carry_h, b.dh_);
    } else {
      Vec<T> keep_h{}, keep_c{}, all_h{}, all_c{};
      if (projects) {
        b.dh = load<T>(my.d_m[j] + u0);
      } else {
        b.dh = load_n<tail>(my.d_out[j] + u0, n) + load<T>(carry_h);
        if (d.total_h) store_n<tail>(d.total_h + row * P + u0, b.dh, n);
        if (zone_h) {
          all_h = b.dh, keep_h = kept<tail>(d.zone_h ? d.zone_h + row * P + u0 : nullptr, f.layer.zone_h, n);
          b.dh = (1 - keep_h) * all_h;
        }
      }
      if constexpr (Cell::has_c) {
        b.c_ = load<T>(my.c_[j] + u0);
        b.dc = load<T>(my.carry_c[j] + u0);
        if (d.total_c) store_n<tail>(d.total_c + row * f.size.hidden + u0, b.dc, n);
        if (zone_c) {
          all_c = b.dc;
          keep_c = kept<tail>(d.zone_c ? d.zone_c + row * f.size.hidden + u0 : nullptr, f.layer.zone_c, n);
          b.dc = (1 - keep_c) * all_c;
          b.c = Cell::cell(b.at, b.c_);  // what h saw, before zoneout
        } else {
          b.c = load<T>(my.c[j] + u0);
        }
      }
      b.dh_ = Vec<T>{};
      if constexpr (stage == Stage::candidate) Cell::backward_candidate(b);
      else Cell::backward(b);
#pragma GCC unroll 8
      for (int q = 0; q < Cell::d_planes; q++) store<T>(delta + q * plane, only<tail, T>(b.d[q], n));
      if (zone_h) b.dh_ += keep_h * all_h;
      if ((Cell::direct || zone_h) && !projects) store<T>(carry_h, b.dh_);
      if constexpr (Cell::has_c) {
        if (zone_c) b.dc_ += keep_c * all_c;
        store<T>(my.carry_c[j] + u0, b.dc_);
        if (projects) store<T>(my.m[j] + u0, b.m);
      }
    }
  }
  for (int q = 0; q < Cell::sums; q++) store<T>(my.sums + q * plane + u0, b.sum[q]);
}

template <class Cell, class T>
void backward_rows(const Backward<T>& f, Returning<T>& my, long j) {
  if constexpr (Cell::whole_rows) {
    const Direction<T>& d = f.d;
    const long b = my.rows[j], row = my.t * f.layer.batch + b, H = f.size.hidden;
    T* dc = my.carry_c[j];
    auto keep = [&](long u) { return d.zone_c ? T(d.zone_c[row * H + u]) : f.layer.zone_c; };
    if (d.total_c) std::copy_n(dc, H, d.total_c + row * H);
    if (f.zones_c())
      for (long u = 0; u < H; u++) my.row_dc[u] = keep(u) * dc[u], dc[u] *= 1 - keep(u);
    Cell::backward_row(f.size, d, my.at[j], f.zones_c() ? nullptr : my.c[j], my.c_[j], my.row_c,
                       f.projects() ? my.d_m[j] : my.d_h[j], dc, my.delta[j], f.projects() ? my.m[j] : nullptr, my.sums);
    if (f.zones_c())
      for (long u = 0; u < H; u++) dc[u] += my.row_dc[u];
    if (f.layer.reset && f.schedule.cut(my.t, b)) Backward<T>::send(f.cut_c + b * H, dc, 0, H);
  }
}

// ---- a cell's entry in the table

template <class Cell, class T>
void step(const Forward<T>& f, Stepping<T>& my, Stage stage, long j0, long rows, long block, long k) {
  const bool tail = (2 * block + k + 1) * lanes<T> > f.size.hidden;
  auto run = [&](auto s) {
    constexpr Stage at = decltype(s)::value;
    if (tail) step_units<Cell, T, at, true>(f, my, j0, rows, block, k);
    else step_units<Cell, T, at, false>(f, my, j0, rows, block, k);
  };
  if constexpr (Cell::staged) {
    if (stage == Stage::gates) run(std::integral_constant<Stage, Stage::gates>());
    else run(std::integral_constant<Stage, Stage::candidate>());
  } else if constexpr (!Cell::whole_rows) {
    run(std::integral_constant<Stage, Stage::all>());
  }
}

template <class Cell, class T>
void backward(const Backward<T>& f, Returning<T>& my, Stage stage, long j0, long rows, long u0) {
  const bool tail = u0 + lanes<T> > f.size.hidden;
  auto run = [&](auto s) {
    constexpr Stage at = decltype(s)::value;
    if (tail) backward_units<Cell, T, at, true>(f, my, j0, rows, u0);
    else backward_units<Cell, T, at, false>(f, my, j0, rows, u0);
  };
  if constexpr (Cell::staged) {
    if (stage == Stage::gates) run(std::integral_constant<Stage, Stage::gates>());
    else run(std::integral_constant<Stage, Stage::candidate>());
  } else if constexpr (!Cell::whole_rows) {
    run(std::integral_constant<Stage, Stage::all>());
  }
}

template <class Cell, class T>
CellKernel<T> kernel() {
  CellKernel<T> k{};
  k.gates = Cell::gates, k.planes = Cell::planes, k.drive_plane = Cell::drive_plane;
  k.d_planes = Cell::d_planes, k.x_plane = Cell::x_plane, k.h_plane = Cell::h_plane;
  k.sums = Cell::sums, k.parameters = Cell::parameters, k.peepholes = Cell::peepholes;
  k.x_order = Cell::x_order, k.h_order = Cell::h_order, k.bias_ih = Cell::bias_ih, k.bias_hh = Cell::bias_hh;
  k.has_c = Cell::has_c, k.sees_h = Cell::sees_h, k.direct = Cell::direct;
  k.staged = Cell::staged, k.whole_rows = Cell::whole_rows;
  k.parameter = Cell::parameter;
  k.folds_bias = Cell::folds_bias;
  k.step = step<Cell, T>, k.step_row = step_rows<Cell, T>;
  k.backward = backward<Cell, T>, k.backward_row = backward_rows<Cell, T>;
  return k;
}

}  // namespace carousel
