// The grid, backward: the hand-derived gradient of every cell through time.
//
// A chunk of steps at a time, from the last: the cell's derivative turns ∂L/∂(h, c) into δ, one product with U carries
// it to the step before, and when the chunk is done three large products over its rows give ∂L/∂x and the
// gradients of the weights. Sums over rows are made in one fixed order, so the same input gives the same bits.
#pragma once

#include "forward.hpp"

namespace carousel {

template <class Cell, class T>
class Backward {
  static constexpr int gates = Cell::gates;
  static constexpr int first_gates = Cell::staged ? gates - 1 : gates;
  static constexpr long few = 8;  // rows a pass of the cell takes together: their cache lines are used up at once

 public:
  const Layer<T>& layer;
  const Direction<T>& d;
  const Schedule<T> schedule;
  const Sizes<Cell, T> size;
  const long index;

  // d_x (T, B, I): where this direction's ∂L/∂x goes, or is added.
  Backward(const Layer<T>& layer, long index, T* d_x, Into into)
      : layer(layer), d(layer.direction[index]), schedule(layer, index == 1), size(layer.hidden), index(index),
        d_x(d_x), into_x(into) {
    const long B = layer.batch, P = layer.projected, I = layer.input;
    chunk = std::min(layer.steps, std::max(1L, 256 / B));
    most = chunk * B;
    d_row = padded<T>(Cell::d_planes * size.plane);
    h_row = padded<T>(up(P, panel<T>));
    turned_row = padded<T>(most);
    p_panels = ceil_div(P, panel<T>), i_panels = ceil_div(I, panel<T>), h_panels = ceil_div(layer.hidden, panel<T>);
    packed_hh.reserve(p_panels * panel<T> * gates * size.plane);
    if (d_x) packed_ih.reserve(i_panels * panel<T> * gates * size.plane);
    if (projects()) packed_hr.reserve(h_panels * panel<T> * P), d_m.reserve(B * padded<T>(h_panels * panel<T>));
    if (projects()) m.reserve(most * size.plane);
    if (projects() || Cell::whole_rows) d_h.reserve(most * h_row);
    carry_h.zero(B * h_row);
    carry_c.zero(B * size.cell_row);
    for (long b = 0; b < B; b++) {
      if (d.d_h_n) std::copy_n(d.d_h_n + b * P, P, carry_h + b * h_row);
      if (Cell::has_c && d.d_c_n) std::copy_n(d.d_c_n + b * size.hidden, size.hidden, carry_c + b * size.cell_row);
    }
    if (d.mask || Cell::staged) through.reserve(B * h_row);
    if (d.mask || Cell::staged) arguments.reserve(most * P * (Cell::staged ? 2 : 1));
    delta.reserve(most * d_row);
    turned.reserve((Cell::d_planes * size.plane + (projects() ? P : 0)) * turned_row);
    packed_rows.reserve((i_panels + (Cell::staged ? 2 : 1) * p_panels + (projects() ? h_panels : 0)) * panel<T> * most);
    sums.reserve(long(layer.threads) * Cell::sums * size.plane);
    parameters.zero(std::max(1, Cell::parameters) * size.plane);
    for (int k = 0; k < Cell::parameters; k++)
      if (const T* p = Cell::parameter(d, size.hidden, k)) std::copy(p, p + size.hidden, parameters + k * size.plane);
    zeros.zero(std::max(P, size.cell_row));
    if (Cell::has_c) {
      start_c.zero(B * size.cell_row);
      if (d.c_0)
        for (long b = 0; b < B; b++)
          std::copy_n(d.c_0 + b * size.hidden, size.hidden, start_c + b * size.cell_row);
      initial_c.zero(size.cell_row);
      if (d.initial_c) std::copy_n(d.initial_c, size.hidden, T_of(initial_c));
    }
    if (layer.reset) cut_h.zero(B * P), cut_c.zero(B * size.hidden);
  }

  void run(const Team& team) {
    const bool alone = team.size == 1 || split_rows(layer, gates, team.size);
    Mine my(*this, team, alone);
    pack(team);
    const Team inner{team.barrier, alone ? 0 : team.rank, alone ? 1 : team.size};
    size.share(inner, my.from, my.to);
    if (projects()) inner.share(p_panels, my.p_from, my.p_to);
    else my.p_from = my.from, my.p_to = my.to;
    team.sync();
    bool first = true;
    for (long s1 = layer.steps; s1 > 0; s1 -= chunk) {
      const long s0 = std::max(0L, s1 - chunk);
      list_rows(my, s0, s1);
      for (long s = s1 - 1; s >= s0; s--) step(my, inner, s, s0);
      fill_arguments(my, team);
      team.sync();
      if (my.total) {
        input_gradient(my, team);
        pack_chunk(my, team);
        team.sync();
        weight_gradients(my, team, first);
        first = false;
      }
    }
    if (!inner.rank) clear_padding(my);
    team.sync();
    finish(team, first);
  }

 private:
  long chunk, most;  // steps of a chunk, and its rows
  long d_row, h_row, turned_row, p_panels, i_panels, h_panels;
  T* d_x;
  Into into_x;
  Buffer<T> packed_hh, packed_ih, packed_hr;  // U, W and W_hr by rows
  Buffer<T> carry_h, carry_c;  // (B, h_row), (B, cell_row): ∂L/∂(h, c) of the step at hand, from later steps
  Buffer<T> through;           // (B, h_row): what comes back through U, before the dropout mask
  Buffer<T> delta;             // (rows of the chunk, d_row): δ
  Buffer<T> d_h, d_m, m;       // (rows, h_row), (B, ·), (rows, plane): projection
  Buffer<T> arguments;         // (rows, P), twice if staged: what U multiplied, where that is not h₋ itself
  Buffer<T> turned;            // (columns of delta and d_h, rows): transposed
  Buffer<T> packed_rows;       // x, arguments of U and m of the chunk in panels
  Buffer<T> sums;              // (threads, sums, plane)
  Buffer<T> parameters, zeros, start_c, initial_c;
  Buffer<T> cut_h, cut_c;      // (B, P), (B, H): what resets sent to the initial state

  static T* T_of(const Buffer<T>& b) { return b; }
  bool projects() const { return d.weight_hr != nullptr; }
  bool zones_h() const { return d.zone_h || layer.zone_h != 0; }
  bool zones_c() const { return d.zone_c || layer.zone_c != 0; }
  bool adds_to_carry() const { return Cell::direct || zones_h(); }
  long m_row() const { return padded<T>(h_panels * panel<T>); }

  struct Mine {
    std::vector<long> rows, places;  // batch indices, and where they stand among all
    std::vector<long> all;           // rows of every thread
    std::vector<long> offset;        // of each step of the chunk in the list of its rows
    std::vector<long> times, batch;  // of each row of the chunk
    long total = 0, t = 0;
    long from = 0, to = 0, p_from = 0, p_to = 0;  // blocks of units, panels of h
    std::vector<const T*> at, c, c_, h_, d_out, delta, d_h;
    std::vector<T*> out, carry, through, d_m;
    std::vector<T*> c_rows;
    std::vector<const T*> a_rows;
    T* sums;                             // (sums, plane)
    Buffer<T> row_c, row_dc;

    Mine(const Backward& w, const Team& team, bool alone) {
      rows = w.schedule.rows(alone ? team.rank : 0, alone ? team.size : 1, &places);
      all = w.schedule.rows(0, 1);
      const long n = long(rows.size());
      for (auto* list : {&at, &c, &c_, &h_, &d_out, &delta, &d_h}) list->resize(n);
      for (auto* list : {&out, &carry, &through, &d_m}) list->resize(n);
      sums = w.sums + long(team.rank) * Cell::sums * w.size.plane;
      std::fill_n(sums, Cell::sums * w.size.plane, T(0));
      if (Cell::whole_rows) row_c.reserve(w.size.cell_row), row_dc.reserve(w.size.cell_row);
    }
  };

  const T* output_at(long t, long b) const {
    return layer.output + ((t * layer.batch + b) * layer.directions + index) * layer.projected;
  }
  const T* previous_h(long t, long b) const {
    const T* h = schedule.cut(t, b)     ? d.initial_h
                 : schedule.first(t, b) ? (d.h_0 ? d.h_0 + b * layer.projected : nullptr)
                                        : output_at(schedule.before(t), b);
    return h ? h : T_of(zeros);
  }
  const T* previous_c(long t, long b) const {
    return schedule.cut(t, b)     ? T_of(initial_c)
           : schedule.first(t, b) ? start_c + b * size.cell_row
                                  : d.cells + (schedule.before(t) * layer.batch + b) * size.cell_row;
  }

  // Row k of the planes that meet a weight: plane k / plane is gate order[…]; padding is zero.
  const T* weight_row(const T* weight, long width, const int* order, long k) const {
    const long u = k % size.plane;
    return u < size.hidden ? weight + (order[k / size.plane] * size.hidden + u) * width : nullptr;
  }

  void pack(const Team& team) {
    const long P = layer.projected, depth = gates * size.plane;
    long from, to;
    team.share(p_panels, from, to);
    auto u = [&](long k) { return weight_row(d.weight_hh, P, Cell::h_order, k); };
    if (Cell::staged) {  // the gates' panels, then the candidate's
      const long cut = first_gates * size.plane;
      pack_rows<T>(cut, P, u, from, to, packed_hh);
      pack_rows<T>(depth - cut, P, [&](long k) { return u(k + cut); }, from, to, packed_hh + p_panels * panel<T> * cut);
    } else {
      pack_rows<T>(depth, P, u, from, to, packed_hh);
    }
    if (d_x) {
      team.share(i_panels, from, to);
      pack_rows<T>(depth, layer.input, [&](long k) { return weight_row(d.weight_ih, layer.input, Cell::x_order, k); },
                   from, to, packed_ih);
    }
    if (projects()) {
      team.share(h_panels, from, to);
      pack_rows<T>(P, size.hidden, [&](long k) { return d.weight_hr + k * size.hidden; }, from, to, packed_hr);
    }
  }

  // The rows of a chunk, in the order of its steps; in a step the longest sequence first.
  void list_rows(Mine& my, long s0, long s1) {
    my.offset.clear(), my.times.clear(), my.batch.clear();
    for (long s = s0; s < s1; s++) {
      const long t = schedule.time(s), n = schedule.active(my.all, t);
      my.offset.push_back(long(my.times.size()));
      for (long j = 0; j < n; j++) my.times.push_back(t), my.batch.push_back(my.all[j]);
    }
    my.total = long(my.times.size());
  }

  void step(Mine& my, const Team& team, long s, long s0) {
    const long t = my.t = schedule.time(s), n = schedule.active(my.rows, t), P = layer.projected;
    const long offset = my.offset[s - s0];
    for (long j = 0; j < n; j++) {
      const long b = my.rows[j], row = t * layer.batch + b, place = offset + my.places[j];
      my.at[j] = d.values + row * size.value_row;
      my.h_[j] = previous_h(t, b);
      if (Cell::has_c) my.c[j] = d.cells + row * size.cell_row, my.c_[j] = previous_c(t, b);
      my.d_out[j] = layer.d_output ? layer.d_output + (row * layer.directions + index) * P : T_of(zeros);
      my.delta[j] = delta + place * d_row;
      my.carry[j] = carry_h + b * h_row;
      if (d.mask || Cell::staged) my.through[j] = through + b * h_row;
      if (projects() || Cell::whole_rows) my.d_h[j] = d_h + place * h_row;
      if (projects()) my.d_m[j] = d_m + b * m_row(), my.out[j] = m + place * size.plane;
    }
    if (projects() || Cell::whole_rows) {
      for (long j = 0; j < n; j++)
        collect(my, j, my.p_from * panel<T>, std::min(P, my.p_to * panel<T>));
      team.sync();
    }
    if (projects()) {
      const Packed<T> w{packed_hr, P, nullptr, h_panels * panel<T>, nullptr};
      multiply<T>(n, my.d_h.data(), 0, w, my.from, my.to, my.d_m.data(), Into::store);
      if (Cell::whole_rows) team.sync();
    }
    if constexpr (Cell::whole_rows) {
      for (long j = team.rank; j < n; j += team.size) whole_row(my, j);
    } else if constexpr (Cell::staged) {
      pass<Stage::candidate>(my, n);
      team.sync();
      const Packed<T> w{packed_hh + p_panels * panel<T> * first_gates * size.plane, size.plane, nullptr, p_panels * panel<T>,
                        nullptr};
      multiply<T>(n, my.delta.data(), (Cell::h_plane + first_gates) * size.plane, w, my.p_from, my.p_to,
                  my.through.data(), Into::store);
      pass<Stage::gates>(my, n);
    } else {
      pass<Stage::all>(my, n);
    }
    if (Cell::has_c && layer.reset && !Cell::whole_rows)
      for (long j = 0; j < n; j++)
        if (schedule.cut(t, my.rows[j]))
          send(cut_c + my.rows[j] * size.hidden, carry_c + my.rows[j] * size.cell_row, my.from * panel<T>,
               std::min(size.hidden, my.to * panel<T>));
    team.sync();
    const Packed<T> w{packed_hh, first_gates * size.plane, nullptr, p_panels * panel<T>, nullptr};
    const long columns = Cell::h_plane * size.plane;
    if (d.mask) {
      multiply<T>(n, my.delta.data(), columns, w, my.p_from, my.p_to, my.through.data(), Into::store);
      for (long j = 0; j < n; j++)
        for (long p = my.p_from * panel<T>; p < std::min(P, my.p_to * panel<T>); p++) {
          const T back = my.through[j][p] * d.mask[my.rows[j] * P + p];
          my.carry[j][p] = adds_to_carry() ? my.carry[j][p] + back : back;
        }
    } else {
      multiply<T>(n, my.delta.data(), columns, w, my.p_from, my.p_to, my.carry.data(),
                  adds_to_carry() ? Into::add : Into::store);
    }
    if (layer.reset)
      for (long j = 0; j < n; j++)
        if (schedule.cut(t, my.rows[j]))
          send(cut_h + my.rows[j] * P, my.carry[j], my.p_from * panel<T>, std::min(P, my.p_to * panel<T>));
    if (Cell::whole_rows) team.sync();
  }

  // A reset lies before this step: its gradient belongs to the initial state, and the step before gets none.
  static void send(T* sum, T* carry, long from, long to) {
    for (long u = from; u < to; u++) sum[u] += carry[u], carry[u] = 0;
  }

  // ∂L/∂h of columns [from, to) where a product needs it before the cell does: of h before zoneout.
  void collect(Mine& my, long j, long from, long to) {
    const long row = my.t * layer.batch + my.rows[j], P = layer.projected;
    T* dh = const_cast<T*>(my.d_h[j]);
    for (long p = from; p < to; p++) {
      const T total = my.d_out[j][p] + my.carry[j][p];
      if (d.total_h) d.total_h[row * P + p] = total;
      const T keep = d.zone_h ? T(d.zone_h[row * P + p]) : layer.zone_h;
      dh[p] = (1 - keep) * total;
      if (adds_to_carry()) my.carry[j][p] = keep * total;
    }
  }

  enum class Stage { all, candidate, gates };

  template <Stage stage>
  void pass(Mine& my, long n) {
    for (long j = 0; j < n; j += few) {
      const long rows = std::min(few, n - j);
      for (long v = 2 * my.from; v < std::min(2 * my.to, size.vectors); v++) {
        if ((v + 1) * lanes<T> > size.hidden) units<stage, true>(my, j, rows, v * lanes<T>);
        else units<stage, false>(my, j, rows, v * lanes<T>);
      }
    }
  }

  template <bool tail>
  static CAROUSEL_INLINE Vec<T> keep_of(const std::uint8_t* keep, T rate, int n) {
    return keep ? zoned<tail>(Vec<T>{}, splat<T>(1), keep, rate, n) : splat<T>(rate);
  }

  // The cell's derivative on one vector of units of `rows` rows from j0.
  template <Stage stage, bool tail>
  void units(Mine& my, long j0, long rows, long u0) {
    const int n = int(std::min<long>(lanes<T>, size.hidden - u0));
    const long P = layer.projected;
    const bool zone_h = zones_h() && !projects(), zone_c = zones_c();
    Back<Cell, T> b;
    for (int q = 0; q < Cell::parameters; q++) b.p[q] = load<T>(parameters + q * size.plane + u0);
    for (int q = 0; q < Cell::sums; q++) b.sum[q] = load<T>(my.sums + q * size.plane + u0);
    for (long j = j0; j < j0 + rows; j++) {
      const T* at = my.at[j] + u0;
      T* delta = const_cast<T*>(my.delta[j]) + u0;
      const long r = my.rows[j], row = my.t * layer.batch + r;
#pragma GCC unroll 8
      for (int q = 0; q < Cell::planes; q++) b.at[q] = load<T>(at + q * size.plane);
      if (Cell::sees_h) b.h_ = load_n<tail>(my.h_[j] + u0, n);
      T* carry_h = my.carry[j] + u0;
      if constexpr (stage == Stage::gates) {
        for (int q = 0; q < Cell::d_planes; q++) b.d[q] = load<T>(delta + q * size.plane);
        b.dv = load<T>(my.through[j] + u0);
        if (d.mask) b.dv *= load_n<tail>(d.mask + r * P + u0, n);
        b.dh_ = load<T>(carry_h);
        Cell::backward_gates(b);
        store<T>(delta + Cell::late_plane * size.plane, tail ? only(b.d[Cell::late_plane], n) : b.d[Cell::late_plane]);
        store<T>(carry_h, b.dh_);
      } else {
      Vec<T> keep_h{}, keep_c{}, all_h{}, all_c{};
      if (projects()) {
        b.dh = load<T>(my.d_m[j] + u0);
      } else {
        b.dh = load_n<tail>(my.d_out[j] + u0, n) + load<T>(carry_h);
        if (d.total_h) store_n<tail>(d.total_h + row * P + u0, b.dh, n);
        if (zone_h) {
          all_h = b.dh, keep_h = keep_of<tail>(d.zone_h ? d.zone_h + row * P + u0 : nullptr, layer.zone_h, n);
          b.dh = (1 - keep_h) * all_h;
        }
      }
      if constexpr (Cell::has_c) {
        b.c_ = load<T>(my.c_[j] + u0);
        b.dc = load<T>(carry_c + r * size.cell_row + u0);
        if (d.total_c) store_n<tail>(d.total_c + row * size.hidden + u0, b.dc, n);
        if (zone_c) {
          all_c = b.dc;
          keep_c = keep_of<tail>(d.zone_c ? d.zone_c + row * size.hidden + u0 : nullptr, layer.zone_c, n);
          b.dc = (1 - keep_c) * all_c;
          b.c = Cell::cell(b.at, b.c_);
        } else {
          b.c = load<T>(my.c[j] + u0);
        }
      }
      b.dh_ = Vec<T>{};
      if constexpr (stage == Stage::candidate) Cell::backward_candidate(b);
      else Cell::backward(b);
#pragma GCC unroll 8
      for (int q = 0; q < Cell::d_planes; q++) store<T>(delta + q * size.plane, tail ? only(b.d[q], n) : b.d[q]);
      if (zone_h) b.dh_ += keep_h * all_h;
      if (adds_to_carry() && !projects()) store<T>(carry_h, b.dh_);
      if (Cell::has_c) {
        if (zone_c) b.dc_ += keep_c * all_c;
        store<T>(carry_c + r * size.cell_row + u0, b.dc_);
      }
      if (projects()) store<T>(my.out[j] + u0, b.m);
      }
    }
    for (int q = 0; q < Cell::sums; q++) store<T>(my.sums + q * size.plane + u0, b.sum[q]);
  }

  // The lanes past the last unit hold what an infinite input made of zero weights; they must not meet a product.
  static CAROUSEL_INLINE Vec<T> only(Vec<T> v, int n) {
    T lane[lanes<T>];
    store<T>(lane, v);
    return load_some<T>(lane, n);
  }

  void whole_row(Mine& my, long j) {
    if constexpr (Cell::whole_rows) {
      const long b = my.rows[j], row = my.t * layer.batch + b, H = size.hidden;
      T* dc = carry_c + b * size.cell_row;
      auto keep = [&](long u) { return d.zone_c ? T(d.zone_c[row * H + u]) : layer.zone_c; };
      if (d.total_c) std::copy_n(dc, H, d.total_c + row * H);
      if (zones_c())
        for (long u = 0; u < H; u++) my.row_dc[u] = keep(u) * dc[u], dc[u] *= 1 - keep(u);
      Cell::backward_row(size, d, my.at[j], zones_c() ? nullptr : my.c[j], my.c_[j], T_of(my.row_c),
                         projects() ? my.d_m[j] : my.d_h[j], dc, const_cast<T*>(my.delta[j]),
                         projects() ? my.out[j] : nullptr, my.sums);
      if (zones_c())
        for (long u = 0; u < H; u++) dc[u] += my.row_dc[u];
      if (layer.reset && schedule.cut(my.t, b)) send(cut_c + b * H, dc, 0, H);
    }
  }

  // What U multiplied, where that was not h₋ itself: r∘h₋ of a staged cell, and the dropout mask.
  void fill_arguments(Mine& my, const Team& team) {
    if (!d.mask && !Cell::staged) return;
    const long P = layer.projected;
    for (long k = team.rank; k < my.total; k += team.size) {
      const long t = my.times[k], b = my.batch[k];
      const T *h = previous_h(t, b), *r = d.values + (t * layer.batch + b) * size.value_row;
      for (long p = 0; p < P; p++) {
        const T h_ = d.mask ? h[p] * d.mask[b * P + p] : h[p];
        arguments[k * P + p] = h_;
        if (Cell::staged) arguments[(most + k) * P + p] = h_ * r[p];
      }
    }
  }
  void input_gradient(Mine& my, const Team& team) {
    if (!d_x) return;
    long from, to;
    team.share(my.total, from, to);
    my.a_rows.clear(), my.c_rows.clear();
    for (long k = from; k < to; k++) {
      my.a_rows.push_back(delta + k * d_row);
      my.c_rows.push_back(d_x + (my.times[k] * layer.batch + my.batch[k]) * layer.input);
    }
    const Packed<T> w{packed_ih, gates * size.plane, nullptr, layer.input, nullptr};
    multiply<T>(to - from, my.a_rows.data(), Cell::x_plane * size.plane, w, 0, i_panels, my.c_rows.data(), into_x);
  }

  // δ transposed, and what it meets in panels.
  void pack_chunk(Mine& my, const Team& team) {
    const long P = layer.projected, K = my.total, columns = Cell::d_planes * size.plane;
    long from, to;
    team.share(columns / lanes<T>, from, to);
    from *= lanes<T>, to *= lanes<T>;
    transpose<T>(delta + from, d_row, K, to - from, turned + from * turned_row, turned_row);
    if (projects()) {
      team.share(P, from, to);
      transpose<T>(d_h + from, h_row, K, to - from, turned + (columns + from) * turned_row, turned_row);
    }
    T* to_panels = packed_rows;
    team.share(i_panels, from, to);
    pack_rows<T>(K, layer.input,
                 [&](long k) { return layer.x + (my.times[k] * layer.batch + my.batch[k]) * layer.input; }, from, to,
                 to_panels);
    to_panels += i_panels * K * panel<T>;
    team.share(p_panels, from, to);
    if (d.mask || Cell::staged)
      pack_rows<T>(K, P, [&](long k) { return arguments + k * P; }, from, to, to_panels);
    else
      pack_rows<T>(K, P, [&](long k) { return previous_h(my.times[k], my.batch[k]); }, from, to, to_panels);
    to_panels += p_panels * K * panel<T>;
    if (Cell::staged) {
      pack_rows<T>(K, P, [&](long k) { return arguments + (most + k) * P; }, from, to, to_panels);
      to_panels += p_panels * K * panel<T>;
    }
    if (projects()) {
      team.share(h_panels, from, to);
      pack_rows<T>(K, size.hidden, [&](long k) { return m + k * size.plane; }, from, to, to_panels);
    }
  }

  void weight_gradients(Mine& my, const Team& team, bool first) {
    const long P = layer.projected, K = my.total;
    const T* panels = packed_rows;
    // gates q0 ≤ q < q1 of `order`, whose planes start at `plane`, times `count` panels
    auto gradient = [&](T* to, long width, long count, int plane, const int* order, int q0, int q1) {
      if (to) {
        long from, until;
        team.share((q1 - q0) * size.hidden, from, until);
        my.a_rows.clear(), my.c_rows.clear();
        for (long k = from; k < until; k++) {
          const long q = q0 + k / size.hidden, u = k % size.hidden;
          my.a_rows.push_back(turned + ((plane + q) * size.plane + u) * turned_row);
          my.c_rows.push_back(to + (order[q] * size.hidden + u) * width);
        }
        const Packed<T> w{panels, K, nullptr, width, nullptr};
        multiply<T>(until - from, my.a_rows.data(), 0, w, 0, count, my.c_rows.data(), first ? Into::store : Into::add);
      }
      panels += count * K * panel<T>;
    };
    gradient(d.d_weight_ih, layer.input, i_panels, Cell::x_plane, Cell::x_order, 0, gates);
    gradient(d.d_weight_hh, P, p_panels, Cell::h_plane, Cell::h_order, 0, first_gates);
    if (Cell::staged) gradient(d.d_weight_hh, P, p_panels, Cell::h_plane, Cell::h_order, first_gates, gates);
    if (projects() && d.d_weight_hr) {
      long from, to;
      team.share(P, from, to);
      my.a_rows.clear(), my.c_rows.clear();
      for (long p = from; p < to; p++) {
        my.a_rows.push_back(turned + (Cell::d_planes * size.plane + p) * turned_row);
        my.c_rows.push_back(d.d_weight_hr + p * size.hidden);
      }
      const Packed<T> w{panels, K, nullptr, size.hidden, nullptr};
      multiply<T>(to - from, my.a_rows.data(), 0, w, 0, h_panels, my.c_rows.data(), first ? Into::store : Into::add);
    }
  }

  void clear_padding(Mine& my) {
    if (!d_x || into_x == Into::add || !layer.lengths) return;
    for (long b : my.rows)
      for (long t = schedule.length(b); t < layer.steps; t++)
        std::fill_n(d_x + (t * layer.batch + b) * layer.input, layer.input, T(0));
  }

  void finish(const Team& team, bool untouched) {
    if (team.rank) return;  // little work, and one order of summation
    const long B = layer.batch, P = layer.projected, H = size.hidden;
    auto zero = [](T* p, long n) {
      if (p) std::fill_n(p, n, T(0));
    };
    if (untouched) {
      zero(d.d_weight_ih, gates * H * layer.input), zero(d.d_weight_hh, gates * H * P), zero(d.d_weight_hr, P * H);
    }
    for (int k = 1; k < team.size; k++)
      for (long u = 0; u < Cell::sums * size.plane; u++) sums[u] += sums[k * Cell::sums * size.plane + u];
    auto copy = [&](T* to, int q, int sum) {
      if (to) std::copy_n(sums + sum * size.plane, H, to + q * H);
    };
    for (int q = 0; q < gates; q++) copy(d.d_bias_ih, q, Cell::bias_ih[q]), copy(d.d_bias_hh, q, Cell::bias_hh[q]);
    for (int q = 0; q < Cell::peepholes; q++) copy(d.d_weight_ch, q, gates + q);
    if constexpr (Cell::whole_rows) {
      for (int q = 0; q < gates; q++) {
        copy(d.d_norm_ih_bias, q, q), copy(d.d_norm_hh_bias, q, q);
        copy(d.d_norm_ih_weight, q, gates + q), copy(d.d_norm_hh_weight, q, 2 * gates + q);
      }
      copy(d.d_norm_c_weight, 0, 3 * gates), copy(d.d_norm_c_bias, 0, 3 * gates + 1);
    }
    for (long b = 0; b < B; b++) {
      if (d.d_h_0) std::copy_n(carry_h + b * h_row, P, d.d_h_0 + b * P);
      if (Cell::has_c && d.d_c_0) std::copy_n(carry_c + b * size.cell_row, H, d.d_c_0 + b * H);
    }
    zero(d.d_initial_h, P), zero(d.d_initial_c, H);
    if (layer.reset)
      for (long b = 0; b < B; b++) {
        if (d.d_initial_h)
          for (long p = 0; p < P; p++) d.d_initial_h[p] += cut_h[b * P + p];
        if (d.d_initial_c)
          for (long u = 0; u < H; u++) d.d_initial_c[u] += cut_c[b * H + u];
      }
  }
};

template <class Cell, class T>
void backward(const Layer<T>& layer) {
  Backward<Cell, T> ahead(layer, 0, layer.d_x, Into::store);
  if (layer.directions == 1) {
    Barrier barrier;
    parallel(layer.threads, [&](int rank, int size) { ahead.run(Team{barrier, rank, size}); });
    return;
  }
  // side by side, each direction writes its own ∂L/∂x, and they are added in one fixed order
  const bool apart = directions_side_by_side(layer, Cell::gates, layer.threads);
  const long n = layer.steps * layer.batch * layer.input;
  Buffer<T> second;
  if (apart && layer.d_x) second.reserve(n);
  T* d_x = apart && layer.d_x ? static_cast<T*>(second) : layer.d_x;
  Backward<Cell, T> back(layer, 1, d_x, apart ? Into::store : Into::add);
  Barrier barrier[2], both;
  parallel(layer.threads, [&](int rank, int size) {
    if (apart && size > 1) {
      const int half = size / 2;
      if (rank < half) ahead.run(Team{barrier[0], rank, half});
      else back.run(Team{barrier[1], rank - half, size - half});
    } else {
      ahead.run(Team{barrier[0], rank, size});
      back.run(Team{barrier[1], rank, size});
    }
    if (apart && layer.d_x) {
      both.wait(size);
      for (long k = n * rank / size; k < n * (rank + 1) / size; k++) layer.d_x[k] += second[k];
    }
  });
}

}  // namespace carousel
