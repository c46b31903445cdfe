// The grid, forward: time, threads, lengths, resets, dropout and zoneout around any cell's step.
//
// A chunk of steps at a time, the drive W x + b of all its rows is one large product into the rows of `values`; then
// step after step U h₋ goes, block of units by block, into a scratch that stays in the first-level cache, the cell
// turns drive and scratch into gates, and the gates take the drive's place. What training saves is therefore
// the trace: plane q of a row of `values` is gate q.
#pragma once

#include "cell.hpp"

namespace carousel {

// Zoneout: the share of the previous value that stays. In training `keep` says it value by value, else `rate` does.
template <bool tail, class T>
CAROUSEL_INLINE Vec<T> zoned(Vec<T> fresh, Vec<T> old, const std::uint8_t* keep, T rate, int n) {
  if (!keep) return rate * old + (1 - rate) * fresh;
  T lane[lanes<T>] = {};
  for (int j = 0; j < (tail ? n : lanes<T>); j++) lane[j] = keep[j];
  return load<T>(lane) > T(0) ? old : fresh;
}

template <class Cell, class T>
class Forward {
  static constexpr int gates = Cell::gates;
  static constexpr int first_gates = Cell::staged ? gates - 1 : gates;  // gates of the first product of a step
  static constexpr long group = 16 * tile_rows;                         // rows whose scratch stays in cache

 public:
  const Layer<T>& layer;
  const Direction<T>& d;
  const Schedule<T> schedule;
  const Sizes<Cell, T> size;
  const long index;  // of the direction

  Forward(const Layer<T>& layer, long index)
      : layer(layer), d(layer.direction[index]), schedule(layer, index == 1), size(layer.hidden), index(index) {
    const long panels = size.panels(gates, size.blocks);
    chunk = std::min(layer.steps, std::max(1L, 512 / layer.batch));
    packed_ih.reserve(panels * layer.input * panel<T>);
    packed_hh.reserve(size.panels(first_gates, size.blocks) * layer.projected * panel<T>);
    if (Cell::staged) packed_n.reserve(size.panels(1, size.blocks) * layer.projected * panel<T>);
    if (projects()) {
      packed_hr.reserve(ceil_div(layer.projected, panel<T>) * layer.hidden * panel<T>);
      m.reserve(layer.batch * size.plane);
    }
    bias.zero(panels * panel<T>);
    columns.resize(2 * panels);
    for (long block = 0; block < size.blocks; block++)
      for (long v = 0; v < up(gates * size.wide(block), 2); v++) {
        const long q = v / size.wide(block), u = (2 * block + v % size.wide(block)) * lanes<T>;
        const long at = size.panels(gates, block) * 2 + v;
        columns[at] = q < gates ? (Cell::drive_plane + q) * size.plane + u : Cell::planes * size.plane;
        if (Cell::whole_rows) u_columns.push_back(q * size.plane + u);
        for (int j = 0; j < lanes<T> && q < gates && u + j < size.hidden; j++) {
          const long row = q * size.hidden + u + j;
          if (Cell::whole_rows) continue;  // its biases stand outside the norms
          if (d.bias_ih) bias[at * lanes<T> + j] += d.bias_ih[row];
          if (d.bias_hh && Cell::folds_bias(int(q))) bias[at * lanes<T> + j] += d.bias_hh[row];
        }
      }
    parameters.zero(std::max(1, Cell::parameters) * size.plane);
    for (int k = 0; k < Cell::parameters; k++)
      if (const T* p = Cell::parameter(d, size.hidden, k)) std::copy(p, p + size.hidden, parameters + k * size.plane);
    zeros.zero(std::max(layer.projected, size.cell_row));
    if (Cell::has_c) {
      start_c.zero(layer.batch * size.cell_row);
      if (d.c_0)
        for (long b = 0; b < layer.batch; b++)
          std::copy_n(d.c_0 + b * size.hidden, size.hidden, start_c + b * size.cell_row);
      initial_c.zero(size.cell_row);
      if (d.initial_c) std::copy_n(d.initial_c, size.hidden, T_of(initial_c));
    }
    if (!d.values) values.reserve(chunk * layer.batch * size.value_row);
    if (Cell::staged || Cell::whole_rows) shared.reserve(layer.batch * size.plane * gates);
  }

  void run(const Team& team) {
    const bool alone = team.size == 1 || split_rows(layer, gates, team.size);
    const long P = layer.projected;
    Mine my(*this, alone ? schedule.rows(team.rank, team.size) : schedule.rows(0, 1));
    long from, to, p_from, p_to;  // blocks, and panels of the projection
    size.share(team, from, to);
    team.share(ceil_div(P, panel<T>), p_from, p_to);
    pack_gates(size, d.weight_ih, layer.input, 0, gates, from, to, T_of(packed_ih));
    pack_gates(size, d.weight_hh, P, 0, first_gates, from, to, T_of(packed_hh));
    if (Cell::staged) pack_gates(size, d.weight_hh, P, gates - 1, 1, from, to, T_of(packed_n));
    if (projects())  // column n of W_hrᵀ is a row of W_hr
      for (long p = p_from; p < p_to; p++) {
        const long n = std::min<long>(panel<T>, P - p * panel<T>);
        T* t = packed_hr + p * size.hidden * panel<T>;
        if (n < panel<T>) std::fill_n(t, size.hidden * panel<T>, T(0));
        transpose<T>(d.weight_hr + p * panel<T> * size.hidden, size.hidden, n, size.hidden, t, panel<T>);
      }
    if (alone) {
      team.sync();  // each thread multiplies by what all have packed
      from = p_from = 0, to = size.blocks, p_to = ceil_div(P, panel<T>);
    }
    const Team inner{team.barrier, alone ? 0 : team.rank, alone ? 1 : team.size};
    for (long s0 = 0; s0 < layer.steps; s0 += chunk) {
      const long s1 = std::min(layer.steps, s0 + chunk);
      drive(my, s0, s1, from, to);
      if (Cell::whole_rows) inner.sync();
      for (long s = s0; s < s1; s++) step(my, inner, s, s0, from, to, p_from, p_to);
    }
    finish(my, inner);
  }

 private:
  long chunk;  // steps whose drive is made at once
  Buffer<T> packed_ih, packed_hh, packed_n, packed_hr;
  Buffer<T> bias;        // (panels, panel)
  Buffer<T> parameters;  // (parameters, plane)
  Buffer<T> zeros;
  Buffer<T> start_c;    // (B, cell_row): c_0, and in a forward-only call the c of each row
  Buffer<T> initial_c;  // (cell_row)
  Buffer<T> values;     // (chunk, B, value_row) in a forward-only call
  Buffer<T> shared;     // (B, ·): what a second stage reads of all units
  Buffer<T> m;          // (B, plane): what the projection multiplies
  std::vector<long> columns, u_columns;  // where the panels' vectors go: in a row of values; in one of `shared`

  static T* T_of(const Buffer<T>& b) { return b; }
  bool projects() const { return d.weight_hr != nullptr; }
  bool zones_h() const { return d.zone_h || layer.zone_h != 0; }
  bool zones_c() const { return d.zone_c || layer.zone_c != 0; }

  // One thread's lists for the rows of a step.
  struct Mine {
    std::vector<long> rows;
    std::vector<const T*> x;              // of a chunk
    std::vector<T*> drive;                // of a chunk
    std::vector<const T*> h_, c_, arg;    // previous state; what U multiplies
    std::vector<T*> at, c, h, m, scratch_rows;
    std::vector<const T*> m_rows, v_rows;
    std::vector<T*> u_rows;
    Buffer<T> scratch, masked, fresh_c;
    long t = 0;

    Mine(const Forward& f, std::vector<long> own) : rows(std::move(own)) {
      const long n = long(rows.size());
      for (auto* list : {&h_, &c_, &arg}) list->resize(n);
      for (auto* list : {&at, &c, &h, &m}) list->resize(n);
      x.reserve(n * f.chunk), drive.reserve(n * f.chunk);
      const long width = gates * panel<T>;
      scratch.reserve(group * width);
      for (long j = 0; j < group; j++) scratch_rows.push_back(scratch + j * width);
      if (f.d.mask) masked.reserve(n * f.layer.projected);
      if (Cell::whole_rows) fresh_c.reserve(f.size.cell_row);
      for (long b : rows) {
        if (f.projects()) m_rows.push_back(f.m + b * f.size.plane);
        if (Cell::staged || Cell::whole_rows) u_rows.push_back(f.shared + b * f.size.plane * gates);
      }
      v_rows.assign(u_rows.begin(), u_rows.end());
    }
  };

  T* value_at(long t, long s_in_chunk, long b) const {
    return d.values ? d.values + (t * layer.batch + b) * size.value_row
                    : values + (s_in_chunk * layer.batch + b) * size.value_row;
  }
  T* output_at(long t, long b) const {
    return layer.output + ((t * layer.batch + b) * layer.directions + index) * layer.projected;
  }

  void drive(Mine& my, long s0, long s1, long from, long to) {
    my.x.clear(), my.drive.clear();
    for (long s = s0; s < s1; s++) {
      const long t = schedule.time(s), n = schedule.active(my.rows, t);
      for (long j = 0; j < n; j++) {
        my.x.push_back(layer.x + (t * layer.batch + my.rows[j]) * layer.input);
        my.drive.push_back(value_at(t, s - s0, my.rows[j]));
      }
    }
    const Packed<T> w{packed_ih, layer.input, columns.data(), 0, Cell::whole_rows ? nullptr : T_of(bias)};
    multiply<T>(long(my.x.size()), my.x.data(), 0, w, size.panels(gates, from), size.panels(gates, to),
                my.drive.data(), Into::store);
  }

  void step(Mine& my, const Team& team, long s, long s0, long from, long to, long p_from, long p_to) {
    const long t = my.t = schedule.time(s), n = schedule.active(my.rows, t), P = layer.projected;
    for (long j = 0; j < n; j++) {
      const long b = my.rows[j], before = schedule.before(t);
      const bool cut = schedule.cut(t, b), first = schedule.first(t, b);
      my.at[j] = value_at(t, s - s0, b);
      my.h[j] = output_at(t, b);
      my.h_[j] = cut ? d.initial_h : first ? (d.h_0 ? d.h_0 + b * P : nullptr) : output_at(before, b);
      if (!my.h_[j]) my.h_[j] = zeros;
      if (Cell::has_c) {
        my.c[j] = d.cells ? d.cells + (t * layer.batch + b) * size.cell_row : start_c + b * size.cell_row;
        my.c_[j] = cut                  ? initial_c
                   : first || !d.cells ? start_c + b * size.cell_row
                                       : d.cells + (before * layer.batch + b) * size.cell_row;
      }
      my.m[j] = projects() ? m + b * size.plane : my.h[j];
      my.arg[j] = my.h_[j];
      if (d.mask) {
        T* masked = my.masked + j * P;
        for (long p = 0; p < P; p++) masked[p] = my.h_[j][p] * d.mask[b * P + p];
        my.arg[j] = masked;
      }
    }
    if constexpr (Cell::whole_rows) {
      const Packed<T> w{packed_hh, P, u_columns.data(), 0, nullptr};
      multiply<T>(n, my.arg.data(), 0, w, size.panels(gates, from), size.panels(gates, to), my.u_rows.data(),
                  Into::store);
      team.sync();
      for (long j = team.rank; j < n; j += team.size) whole_row(my, j);
      team.sync();
    } else if constexpr (Cell::staged) {
      blocks<Stage::gates>(my, packed_hh, first_gates, my.arg.data(), n, from, to);
      team.sync();
      blocks<Stage::candidate>(my, packed_n, 1, my.v_rows.data(), n, from, to);
      team.sync();
    } else {
      blocks<Stage::all>(my, packed_hh, gates, my.arg.data(), n, from, to);
      team.sync();
    }
    if (projects()) {
      const Packed<T> w{packed_hr, size.hidden, nullptr, P, nullptr};
      multiply<T>(n, my.m_rows.data(), 0, w, p_from, p_to, my.h.data(), Into::store);
      if (zones_h())
        for (long j = 0; j < n; j++) zone_h(my, j, p_from * panel<T>, std::min(P, p_to * panel<T>));
      team.sync();
    }
  }

  enum class Stage { all, gates, candidate };

  template <Stage stage>
  void blocks(Mine& my, const T* weights, int products, const T* const* arg, long n, long from, long to) {
    const long P = layer.projected;
    for (long j0 = 0; j0 < n; j0 += group) {
      const long rows = std::min(group, n - j0);
      for (long block = from; block < to; block++) {
        const long p = size.panels(products, block), panels = size.panels(products, block + 1) - p;
        const Packed<T> w{weights + p * P * panel<T>, P, nullptr, panels * panel<T>, nullptr};
        multiply<T>(rows, arg + j0, 0, w, 0, panels, my.scratch_rows.data(), Into::store);
        for (long k = 0; k < size.wide(block); k++) {
          const bool tail = (2 * block + k + 1) * lanes<T> > size.hidden;
          if (tail) units<stage, true>(my, j0, rows, block, k);
          else units<stage, false>(my, j0, rows, block, k);
        }
      }
    }
  }

  // The cell's step on one vector of units of `rows` rows from j0.
  template <Stage stage, bool tail>
  void units(Mine& my, long j0, long rows, long block, long k) {
    const long u0 = (2 * block + k) * lanes<T>, wide = size.wide(block), P = layer.projected;
    const int n = int(std::min<long>(lanes<T>, size.hidden - u0));
    const bool zone_h = zones_h() && !projects(), zone_c = zones_c(), save = d.values != nullptr;
    Step<Cell, T> s;
    for (int q = 0; q < Cell::parameters; q++) s.p[q] = load<T>(parameters + q * size.plane + u0);
    for (long j = j0; j < j0 + rows; j++) {
      T* at = my.at[j] + u0;
      const T* u = my.scratch_rows[j - j0] + (wide == 2 ? k * lanes<T> : 0);
      const long next = wide * lanes<T>;
      if constexpr (stage != Stage::candidate)
#pragma GCC unroll 4
        for (int q = 0; q < first_gates; q++) s.x[q] = load<T>(at + q * size.plane), s.u[q] = load<T>(u + q * next);
      if (Cell::sees_h || zone_h) s.h_ = load_n<tail>(my.h_[j] + u0, n);
      if (Cell::has_c) s.c_ = load<T>(my.c_[j] + u0);
      if constexpr (stage == Stage::gates) {
        Cell::step_gates(s);
        Vec<T> v = s.v;
        if (d.mask) v *= load_n<tail>(d.mask + my.rows[j] * P + u0, n);
        store<T>(const_cast<T*>(my.v_rows[j]) + u0, v);
        for (int q = 0; q < first_gates; q++) store<T>(at + q * size.plane, s.at[q]);
        continue;
      } else if constexpr (stage == Stage::candidate) {
        constexpr int last = gates - 1;
        for (int q = 0; q < last; q++) s.at[q] = load<T>(at + q * size.plane);
        s.x[last] = load<T>(at + last * size.plane), s.u[last] = load<T>(u);
        Cell::step_candidate(s);
      } else {
        Cell::step(s);
      }
      if (save)
#pragma GCC unroll 4
        for (int q = 0; q < Cell::planes; q++) store<T>(at + q * size.plane, s.at[q]);
      const long row = my.t * layer.batch + my.rows[j];
      if (zone_h) s.h = zoned<tail>(s.h, s.h_, d.zone_h ? d.zone_h + row * P + u0 : nullptr, layer.zone_h, n);
      if (Cell::has_c) {
        if (zone_c)
          s.c = zoned<tail>(s.c, s.c_, d.zone_c ? d.zone_c + row * size.hidden + u0 : nullptr, layer.zone_c, n);
        store<T>(my.c[j] + u0, s.c);
      }
      store_n<tail>(my.m[j] + u0, s.h, n);
    }
  }

  // The step of a cell that needs all units of a row at once.
  void whole_row(Mine& my, long j) {
    if constexpr (Cell::whole_rows) {
      T* c = zones_c() ? T_of(my.fresh_c) : my.c[j];
      Cell::step_row(size, d, my.at[j], my.u_rows[j], my.c_[j], c, my.m[j]);
      if (zones_c()) {
        const long row = my.t * layer.batch + my.rows[j];
        for (long u = 0; u < size.hidden; u++)
          my.c[j][u] = one_zoned(c[u], my.c_[j][u], d.zone_c ? d.zone_c + row * size.hidden + u : nullptr, layer.zone_c);
      }
      if (zones_h() && !projects()) zone_h(my, j, 0, layer.projected);
    }
  }

  static T one_zoned(T fresh, T old, const std::uint8_t* keep, T rate) {
    return !keep ? rate * old + (1 - rate) * fresh : *keep ? old : fresh;
  }

  void zone_h(Mine& my, long j, long from, long to) {
    const long row = my.t * layer.batch + my.rows[j];
    for (long p = from; p < to; p++)
      my.h[j][p] = one_zoned(my.h[j][p], my.h_[j][p], d.zone_h ? d.zone_h + row * layer.projected + p : nullptr,
                             layer.zone_h);
  }

  // Final states, and zeros where a sequence has ended.
  void finish(Mine& my, const Team& team) {
    const long P = layer.projected;
    for (long j = team.rank; j < long(my.rows.size()); j += team.size) {
      const long b = my.rows[j], length = schedule.length(b), last = schedule.reverse ? 0 : length - 1;
      for (long t = length; t < layer.steps; t++) {
        std::fill_n(output_at(t, b), P, T(0));
        if (d.values) std::fill_n(value_at(t, 0, b), size.value_row, T(0));
        if (d.cells) std::fill_n(d.cells + (t * layer.batch + b) * size.cell_row, size.cell_row, T(0));
      }
      const T* h = length ? output_at(last, b) : d.h_0 ? d.h_0 + b * P : zeros;
      std::copy_n(h, P, d.h_n + b * P);
      if (Cell::has_c) {
        const T* c = length && d.cells ? d.cells + (last * layer.batch + b) * size.cell_row : start_c + b * size.cell_row;
        std::copy_n(c, size.hidden, d.c_n + b * size.hidden);
      }
    }
  }
};

template <class Cell, class T>
void forward(const Layer<T>& layer) {
  Forward<Cell, T> ahead(layer, 0);
  if (layer.directions == 1) {
    Barrier barrier;
    parallel(layer.threads, [&](int rank, int size) { ahead.run(Team{barrier, rank, size}); });
    return;
  }
  Forward<Cell, T> back(layer, 1);
  Barrier barrier[2];
  parallel(layer.threads, [&](int rank, int size) {
    if (directions_side_by_side(layer, Cell::gates, size)) {
      const int half = size / 2;
      if (rank < half) ahead.run(Team{barrier[0], rank, half});
      else back.run(Team{barrier[1], rank - half, size - half});
    } else {
      ahead.run(Team{barrier[0], rank, size});
      back.run(Team{barrier[1], rank, size});
    }
  });
}

}  // namespace carousel
