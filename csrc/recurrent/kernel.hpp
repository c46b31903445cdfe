// Between grid and cell: one vector of units of some rows is loaded, stepped and stored; and the table of kernels.
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
  if constexpr (tail) return first_lanes<T>(v, n);
  return v;
}

// The value after zoneout of a state that the step gave as `now`.
template <bool tail, class T>
CAROUSEL_INLINE Vec<T> zoned(Vec<T> now, Vec<T> old, const std::uint8_t* mask, T rate, int n) {
  const Vec<T> keep = kept<tail>(mask, rate, n);
  return mask ? (keep > T(0) ? old : now) : keep * old + (1 - keep) * now;
}

template <class Cell, class T, Stage stage, bool tail>
void step_units(const Forward<T>& f, ForwardRows<T>& my, long j0, long rows, long block, long k) {
  constexpr int first_gates = Cell::staged ? Cell::gates - 1 : Cell::gates, states = Cell::states;
  const long u0 = (2 * block + k) * lanes<T>, wide = f.size.wide(block), plane = f.size.plane, P = f.layer.projected;
  const int n = int(std::min<long>(lanes<T>, f.size.hidden - u0));
  const bool save = f.d.values != nullptr;
  bool zone[states];
  for (int i = 0; i < states; i++) zone[i] = f.zones(i) && !(i == 0 && f.projects());
  const long from = wide == 2 ? k * lanes<T> : 0, next = wide * lanes<T>;  // of the scratch's gates
  Step<Cell, T> s{};
  for (int q = 0; q < Cell::vectors; q++) s.p[q] = load<T>(f.vectors + q * plane + u0);
  for (long j = j0; j < j0 + rows; j++) {
    T* at = my.at[j] + u0;
    const T* u = my.u[j - j0] + from;
    if constexpr (Cell::sees_h) s.old[0] = load_n<tail>(my.old[0][j] + u0, n);
#pragma GCC unroll 8
    for (int i = 1; i < states; i++) s.old[i] = load<T>(my.old[i][j] + u0);
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
    auto mask = [&](int i, long size) { return f.d.zone[i] ? f.d.zone[i] + row * size + u0 : nullptr; };
    if (zone[0]) s.now[0] = zoned<tail>(s.now[0], load_n<tail>(my.old[0][j] + u0, n), mask(0, P), f.layer.zone[0], n);
#pragma GCC unroll 8
    for (int i = 1; i < states; i++) {
      if (zone[i]) s.now[i] = zoned<tail>(s.now[i], s.old[i], mask(i, f.size.hidden), f.layer.zone[i], n);
      store<T>(my.now[i][j] + u0, s.now[i]);
    }
    store_n<tail>(my.m[j] + u0, s.now[0], n);
  }
}

template <class Cell, class T>
void step_rows(const Forward<T>& f, ForwardRows<T>& my, long j) {
  if constexpr (Cell::whole_rows) {
    StepRow<T> row{f.size, f.d.parameter, my.at[j], my.second[j], {}, {}};
    row.now[0] = my.m[j];
    for (int k = 1; k < Cell::states; k++) {
      row.old[k] = my.old[k][j];
      row.now[k] = f.zones(k) ? my.fresh + f.size.state_at(k) : my.now[k][j];
    }
    Cell::step_row(row);
    for (int k = 1; k < Cell::states; k++)
      if (f.zones(k)) f.zone(my, k, j, row.now[k], 0, f.size.hidden);
    if (f.zones(0) && !f.projects()) f.zone(my, 0, j, my.now[0][j], 0, f.layer.projected);
  }
}

template <class Cell, class T, Stage stage, bool tail>
void backward_units(const Backward<T>& f, BackwardRows<T>& my, long j0, long rows, long u0) {
  constexpr int states = Cell::states;
  const int n = int(std::min<long>(lanes<T>, f.size.hidden - u0));
  const long plane = f.size.plane, P = f.layer.projected, H = f.size.hidden;
  const Direction<T>& d = f.d;
  const bool projects = f.projects();
  bool zone[states], replaced = false;  // zoneout has replaced states 1, 2, …
  for (int i = 0; i < states; i++) zone[i] = f.zones(i) && !(i == 0 && projects);
  for (int i = 1; i < states; i++) replaced |= zone[i];
  Back<Cell, T> b{};
  for (int q = 0; q < Cell::vectors; q++) b.p[q] = load<T>(f.vectors + q * plane + u0);
  for (int q = 0; q < Cell::sums; q++) b.sum[q] = load<T>(my.sums + q * plane + u0);
  for (long j = j0; j < j0 + rows; j++) {
    const T* at = my.at[j] + u0;
    T *delta = my.delta[j] + u0, *carry_h = my.carry_h[j] + u0;
    const long r = my.rows[j], row = my.t * f.layer.batch + r;
#pragma GCC unroll 8
    for (int q = 0; q < Cell::planes; q++) b.at[q] = load<T>(at + q * plane);
    if constexpr (Cell::sees_h) b.old[0] = load_n<tail>(my.old_h[j] + u0, n);
    if constexpr (stage == Stage::gates) {
      b.dv = load<T>(my.through[j] + u0);
      if (d.mask) b.dv *= load_n<tail>(d.mask + r * P + u0, n);
      b.d_old[0] = load<T>(carry_h);
      Cell::backward_gates(b);
      store<T>(delta + Cell::late_plane * plane, only<tail, T>(b.d[Cell::late_plane], n));
      store<T>(carry_h, b.d_old[0]);
    } else {
      Vec<T> keep[states] = {}, all[states] = {};
      if (projects) {
        b.d_now[0] = load<T>(my.d_m[j] + u0);
      } else {
        b.d_now[0] = load_n<tail>(my.d_out[j] + u0, n) + load<T>(carry_h);
        if (d.total[0]) store_n<tail>(d.total[0] + row * P + u0, b.d_now[0], n);
        if (zone[0]) {
          all[0] = b.d_now[0], keep[0] = kept<tail>(d.zone[0] ? d.zone[0] + row * P + u0 : nullptr, f.layer.zone[0], n);
          b.d_now[0] = (1 - keep[0]) * all[0];
        }
      }
#pragma GCC unroll 8
      for (int i = 1; i < states; i++) {
        const long s0 = f.size.state_at(i) + u0;
        b.old[i] = load<T>(my.old[j] + s0);
        b.d_now[i] = load<T>(my.carry[j] + s0);
        if (d.total[i]) store_n<tail>(d.total[i] + row * H + u0, b.d_now[i], n);
        if (zone[i]) {
          all[i] = b.d_now[i], keep[i] = kept<tail>(d.zone[i] ? d.zone[i] + row * H + u0 : nullptr, f.layer.zone[i], n);
          b.d_now[i] = (1 - keep[i]) * all[i];
        }
        if (!replaced) b.now[i] = load<T>(my.now[j] + s0);
      }
      if (states > 1 && replaced) Cell::states_again(b);  // what h was computed from
      b.d_old[0] = Vec<T>{};
      if constexpr (stage == Stage::candidate) Cell::backward_candidate(b);
      else Cell::backward(b);
#pragma GCC unroll 8
      for (int q = 0; q < Cell::d_planes; q++) store<T>(delta + q * plane, only<tail, T>(b.d[q], n));
      if (zone[0]) b.d_old[0] += keep[0] * all[0];
      if ((Cell::direct || zone[0]) && !projects) store<T>(carry_h, b.d_old[0]);
#pragma GCC unroll 8
      for (int i = 1; i < states; i++) {
        if (zone[i]) b.d_old[i] += keep[i] * all[i];
        store<T>(my.carry[j] + f.size.state_at(i) + u0, b.d_old[i]);
      }
      if constexpr (Cell::projects)
        if (projects) store<T>(my.m[j] + u0, b.m);
    }
  }
  for (int q = 0; q < Cell::sums; q++) store<T>(my.sums + q * plane + u0, b.sum[q]);
}

template <class Cell, class T>
void backward_rows(const Backward<T>& f, BackwardRows<T>& my, long j) {
  if constexpr (Cell::whole_rows) {
    const Direction<T>& d = f.d;
    const long b = my.rows[j], row = my.t * f.layer.batch + b, H = f.size.hidden;
    BackRow<T> back{f.size, d.parameter, my.at[j], {}, {}, my.spare, f.projects() ? my.d_m[j] : my.d_h[j], {}, my.delta[j],
                    f.projects() ? my.m[j] : nullptr, my.sums};
    auto keep = [&](int k, long u) { return d.zone[k] ? T(d.zone[k][row * H + u]) : f.layer.zone[k]; };
    for (int k = 1; k < Cell::states; k++) {
      const long at = f.size.state_at(k);
      T* carry = back.d_state[k] = my.carry[j] + at;
      back.old[k] = my.old[j] + at, back.now[k] = f.zones(k) ? nullptr : my.now[j] + at;
      if (d.total[k]) std::copy_n(carry, H, d.total[k] + row * H);
      if (f.zones(k))
        for (long u = 0; u < H; u++) my.kept[at + u] = keep(k, u) * carry[u], carry[u] *= 1 - keep(k, u);
    }
    Cell::backward_row(back);
    for (int k = 1; k < Cell::states; k++) {
      T* carry = back.d_state[k];
      if (f.zones(k))
        for (long u = 0; u < H; u++) carry[u] += my.kept[f.size.state_at(k) + u];
      if (f.layer.reset && f.schedule.cut(my.t, b)) Backward<T>::send(f.cut[k] + b * H, carry, 0, H);
    }
  }
}

// ---- a cell's entry in the table

template <class Cell, class T>
void step_vector(const Forward<T>& f, ForwardRows<T>& my, Stage stage, long j0, long rows, long block, long k) {
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
void backward_vector(const Backward<T>& f, BackwardRows<T>& my, Stage stage, long j0, long rows, long u0) {
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
  static_assert(std::size(Cell::gate_names) == Cell::gates && std::size(Cell::state_names) == Cell::states, "one name each");
  static_assert(Cell::gates + std::size(Cell::saved) == Cell::planes, "a plane has a gate or a name in `saved`");
  static_assert(Cell::states <= max_states && slot::own + std::size(Cell::own) <= max_parameters, "too many for the slots");
  CellKernel<T> k{};
  k.gates = Cell::gates, k.states = Cell::states, k.planes = Cell::planes, k.input_plane = Cell::input_plane;
  k.d_planes = Cell::d_planes, k.x_plane = Cell::x_plane, k.h_plane = Cell::h_plane;
  k.sums = Cell::sums, k.vectors = Cell::vectors, k.num_own = int(std::size(Cell::own));
  k.gate_names = std::data(Cell::gate_names), k.state_names = std::data(Cell::state_names);
  k.saved = std::data(Cell::saved), k.own = std::data(Cell::own);
  k.x_order = Cell::x_order, k.h_order = Cell::h_order, k.bias_ih = Cell::bias_ih, k.bias_hh = Cell::bias_hh;
  k.sees_h = Cell::sees_h, k.direct = Cell::direct, k.projects = Cell::projects;
  k.staged = Cell::staged, k.whole_rows = Cell::whole_rows;
  k.vector = Cell::vector, k.folds_bias = Cell::folds_bias, k.gradients = Cell::gradients;
  k.step = step_vector<Cell, T>, k.step_row = step_rows<Cell, T>;
  k.backward = backward_vector<Cell, T>, k.backward_row = backward_rows<Cell, T>;
  return k;
}

template <template <class> class Cell>
struct Register {
  explicit Register(const char* name) {
    add_kernel<float>(name, kernel<Cell<float>, float>());
    add_kernel<double>(name, kernel<Cell<double>, double>());
  }
};

// At the end of a cell's header, which one translation unit includes. The objects are linked one by one and not from an
// archive, so the linker keeps these although nothing refers to them.
#define CAROUSEL_KERNEL(name, Cell) static const ::carousel::Register<Cell> CAROUSEL_CONCAT(registered_, __COUNTER__)(name)
#define CAROUSEL_CONCAT(a, b) CAROUSEL_CONCAT_(a, b)
#define CAROUSEL_CONCAT_(a, b) a##b

}  // namespace carousel
