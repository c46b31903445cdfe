// The grid, forward: time, threads, lengths, resets, dropout and zoneout around any cell's step.
//
// A chunk of steps at a time, the drive W x + b of all its rows is one large product into the rows of `values`; then
// step after step U h₋ goes, block of units by block, into a scratch that stays in the first-level cache, the cell
// turns drive and scratch into gates, and the gates take the drive's place. What training saves is therefore
// the trace: plane q of a row of `values` is gate q.
#pragma once

#include <unordered_map>

#include "recurrent/cell.hpp"

namespace carousel {

// Rows that are one and the same, found by where they are: the different ones in order, and which of them each row is.
template <class T>
struct Different {
  std::vector<const T*> rows;
  std::vector<long> which;

  void find(const T* const* from, long n) {
    rows.clear(), which.clear(), seen.clear();
    for (long j = 0; j < n; j++) {
      const auto [at, fresh] = seen.emplace(from[j], long(rows.size()));
      if (fresh) rows.push_back(from[j]);
      which.push_back(at->second);
    }
  }

 private:
  std::unordered_map<const T*, long> seen;
};

// One thread's lists for the rows of a step.
template <class T>
struct Stepping {
  std::vector<long> rows;             // batch indices, longest first
  std::vector<const T*> x;            // of a chunk
  std::vector<T*> drive;              // of a chunk
  std::vector<const T*> h_, c_, arg;  // previous state; what U multiplies
  std::vector<T*> at, h, c, m;        // row of values; new state; what the projection multiplies
  std::vector<T*> scratch, second;    // U h₋ of some units; what a second stage reads of all units
  std::vector<const T*> m_all, second_all;
  Different<T> words, parents;        // among x; among what U multiplies
  std::vector<const T*> shared;       // where each row finds U h₋ if rows have one parent
  const T* const* u = nullptr;        // where each row finds it: that list, or `scratch`
  Buffer<T> scratch_memory, masked, fresh_c;
  long t = 0;
};

template <class T>
class Forward {
  static constexpr long group = 16 * tile_rows;                         // rows whose scratch stays in cache

 public:
  const Layer<T>& layer;
  const Direction<T>& d;
  const Schedule<T> schedule;
  const CellKernel<T>& cell;
  const Sizes<T> size;
  const long index;  // of the direction
  Buffer<T> parameters;  // (parameters, plane)

  bool projects() const { return d.weight_hr != nullptr; }
  bool zones_h() const { return d.zone_h || layer.zone_h != 0; }
  bool zones_c() const { return d.zone_c || layer.zone_c != 0; }

  Forward(const Layer<T>& layer, const CellKernel<T>& cell, long index)
      : layer(layer), d(layer.direction[index]), schedule(layer, index == 1), cell(cell),
        size(cell.planes, layer.hidden), index(index), packed(d.panels ? *d.panels : own) {
    const int gates = cell.gates, first_gates = cell.first_gates();
    const long panels = size.panels(gates, size.blocks);
    chunk = std::min(layer.steps, std::max(1L, 512 / layer.batch));
    if (packs()) {
      packed.ih.reserve(panels * layer.input * panel<T>);
      packed.hh.reserve(size.panels(first_gates, size.blocks) * layer.projected * panel<T>);
      if (cell.staged) packed.n.reserve(size.panels(1, size.blocks) * layer.projected * panel<T>);
      if (projects()) packed.hr.reserve(ceil_div(layer.projected, panel<T>) * layer.hidden * panel<T>);
    }
    if (projects()) m.reserve(layer.batch * size.plane);
    bias.zero(panels * panel<T>);
    columns.resize(2 * panels);
    for (long block = 0; block < size.blocks; block++)
      for (long v = 0; v < up(gates * size.wide(block), 2); v++) {
        const long q = v / size.wide(block), u = (2 * block + v % size.wide(block)) * lanes<T>;
        const long at = size.panels(gates, block) * 2 + v;
        columns[at] = q < gates ? (cell.drive_plane + q) * size.plane + u : cell.planes * size.plane;
        if (cell.whole_rows) u_columns.push_back(q * size.plane + u);
        if (q >= gates || cell.whole_rows) continue;  // a cell of whole rows has its biases outside the norms
        const long n = std::min<long>(lanes<T>, size.hidden - u), row = q * size.hidden + u;
        for (const T* part : {d.bias_ih, cell.folds_bias(int(q)) ? d.bias_hh : nullptr})
          for (long j = 0; part && j < n; j++) bias[at * lanes<T> + j] += part[row + j];
      }
    parameters.zero(std::max(1, cell.parameters) * size.plane);
    for (int k = 0; k < cell.parameters; k++)
      if (const T* p = cell.parameter(d, size.hidden, k)) std::copy(p, p + size.hidden, parameters + k * size.plane);
    zeros.zero(std::max(layer.projected, size.cell_row));
    if (cell.has_c && !single()) {
      start_c.zero(layer.batch * size.cell_row);
      if (d.c_0)
        for (long b = 0; b < layer.batch; b++)
          std::copy_n(d.c_0 + schedule.parent(b) * size.hidden, size.hidden, start_c + b * size.cell_row);
    }
    if (cell.has_c) {
      initial_c.zero(size.cell_row);
      if (d.initial_c) std::copy_n(d.initial_c, size.hidden, T_of(initial_c));
    }
    if (!d.values) values.reserve(chunk * layer.batch * size.value_row);
    if (cell.staged || cell.whole_rows) shared.reserve(layer.batch * size.plane * gates);
  }

  void run(const Team& team) {
    const bool alone = team.size == 1 || split_rows(layer, cell.gates, team.size);
    const long P = layer.projected;
    const int gates = cell.gates, first_gates = cell.first_gates();
    Stepping<T> my;
    my.rows = alone ? schedule.rows(team.rank, team.size) : schedule.rows(0, 1);
    list(my);
    long from, to, p_from, p_to;  // blocks, and panels of the projection
    size.share(team, from, to);
    team.share(ceil_div(P, panel<T>), p_from, p_to);
    if (packs()) {
      pack_gates(size, d.weight_ih, layer.input, 0, gates, from, to, T_of(packed.ih));
      pack_gates(size, d.weight_hh, P, 0, first_gates, from, to, T_of(packed.hh));
      if (cell.staged) pack_gates(size, d.weight_hh, P, gates - 1, 1, from, to, T_of(packed.n));
    }
    if (projects() && packs())  // column n of W_hrᵀ is a row of W_hr
      for (long p = p_from; p < p_to; p++) {
        const long n = std::min<long>(panel<T>, P - p * panel<T>);
        T* t = packed.hr + p * size.hidden * panel<T>;
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
      if (cell.whole_rows) inner.sync();
      for (long s = s0; s < s1; s++) step(my, inner, s, s0, from, to, p_from, p_to);
    }
    finish(my, inner);
  }

  // After the run: its panels are there for the next, if they are kept.
  void keep() {
    if (packs()) packed.made = true;
  }

  // Zoneout of one state of row j, columns [from, to), after the step: `fresh` and `old` may be rows of the state itself.
  static void zone(T* to_row, const T* fresh, const T* old, const std::uint8_t* keep, T rate, long from, long to) {
    for (long p = from; p < to; p++) to_row[p] = !keep ? rate * old[p] + (1 - rate) * fresh[p] : keep[p] ? old[p] : fresh[p];
  }
  void zone_h(const Stepping<T>& my, long j, long from, long to) const {
    const long row = my.t * layer.batch + my.rows[j];
    zone(my.h[j], my.h[j], my.h_[j], d.zone_h ? d.zone_h + row * layer.projected : nullptr, layer.zone_h, from, to);
  }
  void zone_c(const Stepping<T>& my, long j, const T* fresh) const {
    const long row = my.t * layer.batch + my.rows[j];
    zone(my.c[j], fresh, my.c_[j], d.zone_c ? d.zone_c + row * size.hidden : nullptr, layer.zone_c, 0, size.hidden);
  }

 private:
  long chunk;  // steps whose drive is made at once
  Panels<T> own;
  Panels<T>& packed;  // the weights: `own`, or those that are kept
  Buffer<T> bias;        // (panels, panel)
  Buffer<T> zeros;
  Buffer<T> start_c;    // (B, cell_row): c_0, and in a forward-only call the c of each row
  Buffer<T> initial_c;  // (cell_row)
  Buffer<T> values;     // (chunk, B, value_row) in a forward-only call
  Buffer<T> shared;     // (B, ·): what a second stage reads of all units
  Buffer<T> m;          // (B, plane): what the projection multiplies
  std::vector<long> columns, u_columns;  // where the panels' vectors go: in a row of values; in one of `shared`

  static T* T_of(const Buffer<T>& b) { return b; }

  // One step of a stream, whole vectors of units: c is read and written where it is.
  bool single() const { return layer.steps == 1 && !layer.lengths && !d.cells && size.hidden % lanes<T> == 0; }
  // Whether a step leaves something in the rows of values; if not, rows may share them.
  bool writes_values() const { return d.values || cell.staged || cell.whole_rows; }
  bool brief() const { return carousel::brief(layer.steps * layer.batch); }
  bool packs() const { return !brief() && !packed.made; }

  void list(Stepping<T>& my) const {
    const long n = long(my.rows.size()), width = cell.gates * panel<T>;
    for (auto* list : {&my.h_, &my.c_, &my.arg}) list->resize(n);
    for (auto* list : {&my.at, &my.h, &my.c, &my.m}) list->resize(n);
    my.x.reserve(n * chunk), my.drive.reserve(n * chunk);
    my.scratch_memory.reserve(std::min(n, group) * width);
    for (long j = 0; j < std::min(n, group); j++) my.scratch.push_back(my.scratch_memory + j * width);
    if (d.mask) my.masked.reserve(n * layer.projected);
    if (cell.whole_rows) my.fresh_c.reserve(size.cell_row);
    for (long b : my.rows) {
      if (projects()) my.m_all.push_back(m + b * size.plane);
      if (cell.staged || cell.whole_rows) my.second.push_back(shared + b * size.plane * cell.gates);
    }
    my.second_all.assign(my.second.begin(), my.second.end());
  }

  T* value_at(long t, long s_in_chunk, long b) const {
    return d.values ? d.values + (t * layer.batch + b) * size.value_row
                    : values + (s_in_chunk * layer.batch + b) * size.value_row;
  }
  T* output_at(long t, long b) const {
    return layer.output + ((t * layer.batch + b) * layer.directions + index) * layer.projected;
  }

  void drive(Stepping<T>& my, long s0, long s1, long from, long to) {
    my.x.clear(), my.drive.clear();
    for (long s = s0; s < s1; s++) {
      const long t = schedule.time(s), n = schedule.active(my.rows, t);
      for (long j = 0; j < n; j++) {
        const long row = layer.inputs ? layer.inputs[my.rows[j]] : t * layer.batch + my.rows[j];
        if (!layer.drive) my.x.push_back(layer.x + row * layer.input);
        my.drive.push_back(layer.drive ? const_cast<T*>(layer.drive) + row * cell.gates * size.hidden  // only read
                                       : value_at(t, s - s0, my.rows[j]));
      }
    }
    if (layer.drive) return;
    if (brief()) {
      for (std::size_t j = 0; j < my.x.size(); j++)
        for (long block = from; block < to; block++)
          for (long q = 0; q < cell.gates; q++)
            for (long k = 0; k < size.wide(block); k++) {
              const long v = q * size.wide(block) + k, at = 2 * size.panels(cell.gates, block) + v;
              const Vec<T> sum = gate_dots(d.weight_ih, layer.input, q, 2 * block + k, my.x[j]);
              store<T>(my.drive[j] + columns[at], cell.whole_rows ? sum : sum + load<T>(bias + at * lanes<T>));
            }
      return;
    }
    const Packed<T> w{packed.ih, layer.input, columns.data(), 0, cell.whole_rows ? nullptr : T_of(bias)};
    auto product = [&](const std::vector<const T*>& x, const std::vector<T*>& to_drive) {
      multiply<T>(long(x.size()), x.data(), 0, w, size.panels(cell.gates, from), size.panels(cell.gates, to),
                  to_drive.data(), Into::store);
    };
    if (!layer.inputs) return product(my.x, my.drive);
    my.words.find(my.x.data(), long(my.x.size()));
    std::vector<T*> first;  // the row where a word's drive is made
    for (std::size_t j = 0; j < my.drive.size(); j++)
      if (my.words.which[j] == long(first.size())) first.push_back(my.drive[j]);
    product(my.words.rows, first);
    const long u0 = 2 * from * lanes<T>, units = std::min(2 * to, size.vectors) * lanes<T> - u0;
    for (std::size_t j = 0; j < my.drive.size(); j++) {
      T* made = first[my.words.which[j]];
      if (made == my.drive[j]) continue;
      if (!writes_values()) my.drive[j] = made;
      else
        for (long q = cell.drive_plane; q < cell.drive_plane + cell.gates; q++)
          std::copy_n(made + q * size.plane + u0, units, my.drive[j] + q * size.plane + u0);
    }
  }

  // One vector of units of gate q: rows of weight (G·H, K) times v (K).
  Vec<T> gate_dots(const T* weight, long K, long q, long vector, const T* v) const {
    const long u = vector * lanes<T>;
    return dots<T>(weight + (q * size.hidden + u) * K, K, int(std::min<long>(lanes<T>, size.hidden - u)), v, K);
  }

  void step(Stepping<T>& my, const Team& team, long s, long s0, long from, long to, long p_from, long p_to) {
    const long t = my.t = schedule.time(s), n = schedule.active(my.rows, t), P = layer.projected;
    for (long j = 0; j < n; j++) {
      const long b = my.rows[j], before = schedule.before(t);
      const bool cut = schedule.cut(t, b), first = schedule.first(t, b);
      my.at[j] = layer.inputs ? my.drive[j] : value_at(t, s - s0, b);
      my.h[j] = output_at(t, b);
      my.h_[j] = cut ? d.initial_h : first ? (d.h_0 ? d.h_0 + schedule.parent(b) * P : nullptr) : output_at(before, b);
      if (!my.h_[j]) my.h_[j] = zeros;
      if (cell.has_c && single()) {
        my.c[j] = d.c_n + b * size.hidden;
        my.c_[j] = cut ? T_of(initial_c) : d.c_0 ? d.c_0 + schedule.parent(b) * size.hidden : T_of(zeros);
      } else if (cell.has_c) {
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
    if (cell.whole_rows) {
      const Packed<T> w{packed.hh, P, u_columns.data(), 0, nullptr};
      if (brief()) {
        for (long j = 0; j < n; j++)
          for (long q = 0; q < cell.gates; q++)
            for (long v = 2 * from; v < std::min(2 * to, size.vectors); v++)
              store<T>(my.second[j] + q * size.plane + v * lanes<T>, gate_dots(d.weight_hh, P, q, v, my.arg[j]));
      } else multiply<T>(n, my.arg.data(), 0, w, size.panels(cell.gates, from), size.panels(cell.gates, to), my.second.data(),
                  Into::store);
      team.sync();
      for (long j = team.rank; j < n; j += team.size) cell.step_row(*this, my, j);
      team.sync();
    } else if (cell.staged) {
      blocks(my, Stage::gates, packed.hh, cell.first_gates(), my.arg.data(), n, from, to);
      team.sync();
      blocks(my, Stage::candidate, packed.n, 1, my.second_all.data(), n, from, to);
      team.sync();
    } else {
      blocks(my, Stage::all, packed.hh, cell.gates, my.arg.data(), n, from, to);
      team.sync();
    }
    if (projects()) {
      const Packed<T> w{packed.hr, size.hidden, nullptr, P, nullptr};
      if (brief()) {
        for (long j = 0; j < n; j++)
          for (long p = p_from * panel<T>; p < std::min(P, p_to * panel<T>); p += lanes<T>) {
            const int count = int(std::min<long>(lanes<T>, P - p));
            store_some<T>(my.h[j] + p, dots<T>(d.weight_hr + p * size.hidden, size.hidden, count, my.m_all[j], size.hidden), count);
          }
      } else {
        multiply<T>(n, my.m_all.data(), 0, w, p_from, p_to, my.h.data(), Into::store);
      }
      if (zones_h())
        for (long j = 0; j < n; j++) zone_h(my, j, p_from * panel<T>, std::min(P, p_to * panel<T>));
      team.sync();
    }
  }

  void blocks(Stepping<T>& my, Stage stage, const T* weights, int products, const T* const* arg, long n, long from, long to) {
    const long P = layer.projected;
    for (long j0 = 0; j0 < n; j0 += group) {
      const long rows = std::min(group, n - j0);
      const bool shares = layer.parents && !brief() && stage != Stage::candidate;
      if (shares) {
        my.parents.find(arg + j0, rows);
        my.shared.resize(rows);
        for (long j = 0; j < rows; j++) my.shared[j] = my.scratch[my.parents.which[j]];
      }
      my.u = shares ? my.shared.data() : my.scratch.data();
      const T* const* different = shares ? my.parents.rows.data() : arg + j0;
      const long count = shares ? long(my.parents.rows.size()) : rows;
      for (long block = from; block < to; block++) {
        const long p = size.panels(products, block), panels = size.panels(products, block + 1) - p;
        const Packed<T> w{weights + p * P * panel<T>, P, nullptr, panels * panel<T>, nullptr};
        if (brief()) {
          const long wide = size.wide(block), first = stage == Stage::candidate ? cell.gates - 1 : 0;
          for (long j = 0; j < rows; j++)
            for (long v = 0; v < products * wide; v++)
              store<T>(my.scratch[j] + v * lanes<T>,
                       gate_dots(d.weight_hh, P, first + v / wide, 2 * block + v % wide, arg[j0 + j]));
        } else {
          multiply<T>(count, different, 0, w, 0, panels, my.scratch.data(), Into::store);
        }
        for (long k = 0; k < size.wide(block); k++) cell.step(*this, my, stage, j0, rows, block, k);
      }
    }
  }

  // Final states, and zeros where a sequence has ended.
  void finish(Stepping<T>& my, const Team& team) {
    const long P = layer.projected;
    for (long j = team.rank; j < long(my.rows.size()); j += team.size) {
      const long b = my.rows[j], length = schedule.length(b), last = schedule.reverse ? 0 : length - 1;
      for (long t = length; t < layer.steps; t++) {
        std::fill_n(output_at(t, b), P, T(0));
        if (!layer.traced) continue;  // a backward reads only what there is
        if (d.values) std::fill_n(value_at(t, 0, b), size.value_row, T(0));
        if (d.cells) std::fill_n(d.cells + (t * layer.batch + b) * size.cell_row, size.cell_row, T(0));
      }
      const T* h = length ? output_at(last, b) : d.h_0 ? d.h_0 + b * P : zeros;
      if (h != d.h_n + b * P) std::copy_n(h, P, d.h_n + b * P);  // a stream's output is its state
      if (cell.has_c && !single()) {
        const T* c = length && d.cells ? d.cells + (last * layer.batch + b) * size.cell_row : start_c + b * size.cell_row;
        std::copy_n(c, size.hidden, d.c_n + b * size.hidden);
      }
    }
  }
};

template <class T>
void forward(const Layer<T>& layer, const CellKernel<T>& cell) {
  Forward<T> ahead(layer, cell, 0);
  if (layer.directions == 1) {
    Barrier barrier(layer.threads);
    parallel(threads_for(layer, cell.gates), [&](int rank, int size) { ahead.run(Team{barrier, rank, size}); });
    ahead.keep();
    return;
  }
  Forward<T> back(layer, cell, 1);
  Barrier barrier[2] = {layer.threads, layer.threads};
  parallel(threads_for(layer, cell.gates), [&](int rank, int size) {
    if (directions_side_by_side(layer, cell.gates, size)) {
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
