// The grid, forward: time, threads, lengths, resets, dropout and zoneout around any cell's step.
//
// A chunk of steps at a time, W x + b of all its rows is one large product into the rows of `values`; then step after
// step U h₋ is stored, block of units by block, in a scratch that stays in the first-level cache, the cell turns
// both into gates, and the gates take the place of W x + b. What training saves is therefore the trace: plane q of a row
// of `values` is gate q.
#pragma once

#include <unordered_map>

#include "recurrent/grid.hpp"

namespace carousel {

// Rows that are one and the same, found by where they are: the different ones in order, and which of them each row is.
template <class T>
struct Different {
  List<const T*> rows;
  List<long> which;

  void find(const T* const* from, long n) {
    rows.clear(), which.clear(), seen.clear();
    for (long j = 0; j < n; j++) {
      const auto [at, fresh] = seen.emplace(from[j], long(rows.size()));
      if (fresh) rows.push_back(from[j]);
      which.push_back(at->second);
    }
  }

 private:
  std::unordered_map<const T*, long, std::hash<const T*>, std::equal_to<const T*>,
                     Allocator<std::pair<const T* const, long>>> seen;
};

// One thread's lists for the rows of a step.
template <class T>
struct ForwardRows {
  List<long> rows;                    // batch indices, longest first
  List<const T*> x;                   // of a chunk
  List<T*> wx;                        // of a chunk: where W x + b is
  List<const T*> old[max_states];     // previous state, by its number
  List<T*> now[max_states];           // new state
  List<const T*> arg;                 // what U multiplies
  List<T*> at, m;                     // row of values; what the projection multiplies
  List<T*> scratch, second;           // U h₋ of some units; what a second stage reads of all units
  List<const T*> m_all, second_all;
  Different<T> words, parents;        // among x; among what U multiplies
  List<const T*> shared;              // where each row finds U h₋ if rows have one parent
  const T* const* u = nullptr;        // where each row finds it: that list, or `scratch`
  Buffer<T> scratch_memory, masked;
  Buffer<T> fresh;                    // (state_row): new states before zoneout
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
  Buffer<T> vectors;  // (vectors, plane): the parameters that units read

  bool projects() const { return weight(slot::weight_hr) != nullptr; }
  bool zones(int k) const { return d.zone[k] || layer.zone[k] != 0; }

  Forward(const Layer<T>& layer, const CellKernel<T>& cell, long index)
      : layer(layer), d(layer.direction[index]), schedule(layer, index == 1), cell(cell),
        size(cell.sizes(layer.hidden)), index(index), packed(d.panels ? *d.panels : own) {
    const int gates = cell.gates, first_gates = cell.first_gates();
    const long panels = size.panels(gates, size.blocks);
    chunk = std::min(layer.steps, std::max(1L, 512 / layer.batch));
    if (packs()) packed.ih.reserve(panels * layer.input * panel<T>);
    if (packs_step()) {
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
        columns[at] = q < gates ? (cell.input_plane + q) * size.plane + u : cell.planes * size.plane;
        if (cell.whole_rows) u_columns.push_back(q * size.plane + u);
        if (q >= gates || cell.whole_rows) continue;  // a cell of whole rows has its biases outside the norms
        const long n = std::min<long>(lanes<T>, size.hidden - u), row = q * size.hidden + u;
        for (const T* part : {weight(slot::bias_ih), cell.folds_bias(int(q)) ? weight(slot::bias_hh) : nullptr})
          for (long j = 0; part && j < n; j++) bias[at * lanes<T> + j] += part[row + j];
      }
    vectors.zero(std::max(1, cell.vectors) * size.plane);
    for (int k = 0; k < cell.vectors; k++)
      if (const T* p = cell.vector(d.parameter, size.hidden, k)) std::copy(p, p + size.hidden, vectors + k * size.plane);
    zeros.zero(std::max(layer.projected, size.state_row));
    if (cell.states > 1 && !single()) start.zero(layer.batch * size.state_row);
    if (cell.states > 1) initial.zero(size.state_row);
    for (int k = 1; k < cell.states; k++) {
      if (d.state_0[k] && !single())
        for (long b = 0; b < layer.batch; b++)
          std::copy_n(d.state_0[k] + schedule.parent(b) * size.hidden, size.hidden,
                      start + b * size.state_row + size.state_at(k));
      if (d.initial[k]) std::copy_n(d.initial[k], size.hidden, initial + size.state_at(k));
    }
    if (!d.values) values.reserve(chunk * layer.batch * size.value_row);
    if (cell.staged || cell.whole_rows) shared.reserve(layer.batch * size.plane * gates);
  }

  void run(const Team& team) {
    const bool alone = team.size == 1 || split_rows(layer, cell.gates, team.size);
    const long P = layer.projected;
    const int gates = cell.gates, first_gates = cell.first_gates();
    ForwardRows<T> my;
    my.rows = alone ? schedule.rows(team.rank, team.size) : schedule.rows(0, 1);
    list(my);
    long from, to, p_from, p_to;  // blocks, and panels of the projection
    size.share(team, from, to);
    team.share(ceil_div(P, panel<T>), p_from, p_to);
    if (packs()) pack_gates(size, weight(slot::weight_ih), layer.input, 0, gates, from, to, T_of(packed.ih));
    if (packs_step()) {
      pack_gates(size, weight(slot::weight_hh), P, 0, first_gates, from, to, T_of(packed.hh));
      if (cell.staged) pack_gates(size, weight(slot::weight_hh), P, gates - 1, 1, from, to, T_of(packed.n));
    }
    if (projects() && packs_step())  // column n of W_hrᵀ is a row of W_hr
      for (long p = p_from; p < p_to; p++) {
        const long n = std::min<long>(panel<T>, P - p * panel<T>);
        T* t = packed.hr + p * size.hidden * panel<T>;
        if (n < panel<T>) std::fill_n(t, size.hidden * panel<T>, T(0));
        transpose<T>(weight(slot::weight_hr) + p * panel<T> * size.hidden, size.hidden, n, size.hidden, t, panel<T>);
      }
    if (alone) {
      team.sync();  // each thread multiplies by what all have packed
      from = p_from = 0, to = size.blocks, p_to = ceil_div(P, panel<T>);
    }
    const Team inner{team.barrier, alone ? 0 : team.rank, alone ? 1 : team.size};
    for (long s0 = 0; s0 < layer.steps; s0 += chunk) {
      const long s1 = std::min(layer.steps, s0 + chunk);
      project_input(my, s0, s1, from, to);
      if (cell.whole_rows) inner.sync();
      for (long s = s0; s < s1; s++) step(my, inner, s, s0, from, to, p_from, p_to);
    }
    finish(my, inner);
  }

  // After the run: its panels are there for the next, if they are kept.
  void keep() {
    if (packs()) packed.made = true;
  }

  // Zoneout of state k of row j, columns [from, to), after the step: `fresh` may be the row of the new state itself.
  void zone(const ForwardRows<T>& my, int k, long j, const T* fresh, long from, long to) const {
    const long row = my.t * layer.batch + my.rows[j];
    const std::uint8_t* keep = d.zone[k] ? d.zone[k] + row * layer.state_size(k) : nullptr;
    const T rate = layer.zone[k], *old = my.old[k][j];
    T* now = my.now[k][j];
    for (long p = from; p < to; p++) now[p] = !keep ? rate * old[p] + (1 - rate) * fresh[p] : keep[p] ? old[p] : fresh[p];
  }

 private:
  long chunk;  // steps whose W x + b is computed at once
  Panels<T> own;
  Panels<T>& packed;  // the weights: `own`, or those that are kept
  Buffer<T> bias;        // (panels, panel)
  Buffer<T> zeros;
  Buffer<T> start;    // (B, state_row): state_0, and in a forward-only call the state of each row
  Buffer<T> initial;  // (state_row)
  Buffer<T> values;   // (chunk, B, value_row) in a forward-only call
  Buffer<T> shared;   // (B, ·): what a second stage reads of all units
  Buffer<T> m;        // (B, plane): what the projection multiplies
  List<long> columns, u_columns;  // where the panels' vectors go: in a row of values; in one of `shared`

  static T* T_of(const Buffer<T>& b) { return b; }
  const T* weight(int slot) const { return d.parameter[slot]; }

  // One step of a stream, whole vectors of units: states 1, 2, … are read and written where they are.
  bool single() const { return layer.steps == 1 && !layer.lengths && !d.states && size.hidden % lanes<T> == 0; }
  // Whether a step leaves something in the rows of values; if not, rows may share them.
  bool writes_values() const { return d.values || cell.staged || cell.whole_rows; }
  // Whether products read the weights as they are: so few rows that packing would cost more than it saves. In a batch of
  // one every product of the recurrence has one row.
  bool few() const {
    return few_rows(layer.steps * layer.batch) || (whole_dots<T> && layer.batch == 1 && layer.steps <= few_steps);
  }
  bool few_in_step() const { return few() || (layer.batch == 1 && one_row_unpacked<T>(layer.steps)); }
  bool packs() const { return !few() && !packed.made; }
  bool packs_step() const { return !few_in_step() && !packed.made; }

  void list(ForwardRows<T>& my) const {
    const long n = long(my.rows.size()), width = cell.gates * panel<T>;
    for (int k = 0; k < cell.states; k++) my.old[k].resize(n), my.now[k].resize(n);
    my.arg.resize(n), my.at.resize(n), my.m.resize(n);
    my.x.reserve(n * chunk), my.wx.reserve(n * chunk);
    my.scratch_memory.reserve(std::min(n, group) * width);
    for (long j = 0; j < std::min(n, group); j++) my.scratch.push_back(my.scratch_memory + j * width);
    if (d.mask) my.masked.reserve(n * layer.projected);
    if (cell.whole_rows) my.fresh.reserve(size.state_row);
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

  void project_input(ForwardRows<T>& my, long s0, long s1, long from, long to) {
    my.x.clear(), my.wx.clear();
    for (long s = s0; s < s1; s++) {
      const long t = schedule.time(s), n = schedule.active(my.rows, t);
      for (long j = 0; j < n; j++) {
        const long row = layer.inputs ? layer.inputs[my.rows[j]] : t * layer.batch + my.rows[j];
        if (!layer.input_projection) my.x.push_back(layer.x + row * layer.input);
        my.wx.push_back(layer.input_projection
                            ? const_cast<T*>(layer.input_projection) + row * cell.gates * size.hidden  // only read
                            : value_at(t, s - s0, my.rows[j]));
      }
    }
    if (layer.input_projection) return;
    if (few()) {
      for (long block = from; block < to; block++)
        for (long q = 0; q < cell.gates; q++)
          for (long k = 0; k < size.wide(block); k++) {
            const long v = q * size.wide(block) + k, at = 2 * size.panels(cell.gates, block) + v;
            for (std::size_t j = 0; j < my.x.size(); j++) {
              const Vec<T> sum = gate_dots(weight(slot::weight_ih), layer.input, q, 2 * block + k, my.x[j]);
              store<T>(my.wx[j] + columns[at], cell.whole_rows ? sum : sum + load<T>(bias + at * lanes<T>));
            }
          }
      return;
    }
    const Packed<T> w{packed.ih, layer.input, columns.data(), 0, cell.whole_rows ? nullptr : T_of(bias)};
    auto product = [&](const List<const T*>& x, const List<T*>& to_rows) {
      multiply<T>(long(x.size()), x.data(), 0, w, size.panels(cell.gates, from), size.panels(cell.gates, to),
                  to_rows.data(), Into::store);
    };
    if (!layer.inputs) return product(my.x, my.wx);
    my.words.find(my.x.data(), long(my.x.size()));
    List<T*> first;  // the row where a word's W x + b is computed
    for (std::size_t j = 0; j < my.wx.size(); j++)
      if (my.words.which[j] == long(first.size())) first.push_back(my.wx[j]);
    product(my.words.rows, first);
    const long u0 = 2 * from * lanes<T>, units = std::min(2 * to, size.vectors) * lanes<T> - u0;
    for (std::size_t j = 0; j < my.wx.size(); j++) {
      T* made = first[my.words.which[j]];
      if (made == my.wx[j]) continue;
      if (!writes_values()) my.wx[j] = made;
      else
        for (long q = cell.input_plane; q < cell.input_plane + cell.gates; q++)
          std::copy_n(made + q * size.plane + u0, units, my.wx[j] + q * size.plane + u0);
    }
  }

  // One vector of units of gate q: rows of weight (G·H, K) times v (K).
  Vec<T> gate_dots(const T* weight, long K, long q, long vector, const T* v) const {
    const long u = vector * lanes<T>;
    return dots<T>(weight + (q * size.hidden + u) * K, K, int(std::min<long>(lanes<T>, size.hidden - u)), v, K);
  }

  void step(ForwardRows<T>& my, const Team& team, long s, long s0, long from, long to, long p_from, long p_to) {
    const long t = my.t = schedule.time(s), n = schedule.active(my.rows, t), P = layer.projected;
    for (long j = 0; j < n; j++) {
      const long b = my.rows[j], before = schedule.before(t);
      const bool cut = schedule.cut(t, b), first = schedule.first(t, b);
      my.at[j] = layer.inputs ? my.wx[j] : value_at(t, s - s0, b);
      T* h = my.now[0][j] = output_at(t, b);
      const T* h_ = cut     ? d.initial[0]
                    : first ? (d.state_0[0] ? d.state_0[0] + schedule.parent(b) * P : nullptr)
                            : output_at(before, b);
      if (!h_) h_ = zeros;
      my.old[0][j] = h_;
      for (int k = 1; k < cell.states; k++) {
        if (single()) {
          my.now[k][j] = d.state_n[k] + b * size.hidden;
          my.old[k][j] = cut            ? initial + size.state_at(k)
                         : d.state_0[k] ? d.state_0[k] + schedule.parent(b) * size.hidden
                                        : T_of(zeros);
        } else {
          T* own = start + b * size.state_row + size.state_at(k);
          my.now[k][j] = d.states ? d.states + (t * layer.batch + b) * size.state_row + size.state_at(k) : own;
          my.old[k][j] = cut                   ? initial + size.state_at(k)
                         : first || !d.states ? own
                                              : d.states + (before * layer.batch + b) * size.state_row + size.state_at(k);
        }
      }
      my.m[j] = projects() ? m + b * size.plane : h;
      my.arg[j] = h_;
      if (d.mask) {
        T* masked = my.masked + j * P;
        for (long p = 0; p < P; p++) masked[p] = h_[p] * d.mask[b * P + p];
        my.arg[j] = masked;
      }
    }
    if (cell.whole_rows) {
      const Packed<T> w{packed.hh, P, u_columns.data(), 0, nullptr};
      if (few_in_step()) {
        for (long j = 0; j < n; j++)
          for (long q = 0; q < cell.gates; q++)
            for (long v = 2 * from; v < std::min(2 * to, size.vectors); v++)
              store<T>(my.second[j] + q * size.plane + v * lanes<T>, gate_dots(weight(slot::weight_hh), P, q, v, my.arg[j]));
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
      if (few_in_step()) {
        for (long j = 0; j < n; j++)
          for (long p = p_from * panel<T>; p < std::min(P, p_to * panel<T>); p += lanes<T>) {
            const int count = int(std::min<long>(lanes<T>, P - p));
            store_some<T>(my.now[0][j] + p, dots<T>(weight(slot::weight_hr) + p * size.hidden, size.hidden, count, my.m_all[j], size.hidden), count);
          }
      } else {
        multiply<T>(n, my.m_all.data(), 0, w, p_from, p_to, my.now[0].data(), Into::store);
      }
      if (zones(0))
        for (long j = 0; j < n; j++) zone(my, 0, j, my.now[0][j], p_from * panel<T>, std::min(P, p_to * panel<T>));
      team.sync();
    }
  }

  void blocks(ForwardRows<T>& my, Stage stage, const T* weights, int products, const T* const* arg, long n, long from, long to) {
    const long P = layer.projected;
    for (long j0 = 0; j0 < n; j0 += group) {
      const long rows = std::min(group, n - j0);
      const bool shares = layer.parents && !few_in_step() && stage != Stage::candidate;
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
        if (few_in_step()) {
          const long wide = size.wide(block), first = stage == Stage::candidate ? cell.gates - 1 : 0;
          for (long j = 0; j < rows; j++)
            for (long v = 0; v < products * wide; v++)
              store<T>(my.scratch[j] + v * lanes<T>,
                       gate_dots(weight(slot::weight_hh), P, first + v / wide, 2 * block + v % wide, arg[j0 + j]));
        } else {
          fetch(my, stage, j0, rows, block);
          multiply<T>(count, different, 0, w, 0, panels, my.scratch.data(), Into::store);
        }
        for (long k = 0; k < size.wide(block); k++) cell.step(*this, my, stage, j0, rows, block, k);
      }
    }
  }

  // Asks for what the cell will read of a block, W x + b and the states, while its product runs.
  void fetch(const ForwardRows<T>& my, Stage stage, long j0, long rows, long block) const {
    const long u = 2 * block * lanes<T>, first = stage == Stage::candidate ? cell.gates - 1 : 0;
    const long last = stage == Stage::gates ? cell.first_gates() : cell.gates;
    for (long j = j0; j < j0 + rows; j++)
      for (long at = u; at < u + panel<T>; at += 64 / long(sizeof(T))) {
        for (long q = first; q < last; q++)
          __builtin_prefetch(my.at[j] + (cell.input_plane + q) * size.plane + at, 0, 2);
        for (int k = 1; k < cell.states; k++) __builtin_prefetch(my.old[k][j] + at, 0, 2);
      }
  }

  // Final states, and zeros where a sequence has ended.
  void finish(ForwardRows<T>& my, const Team& team) {
    const long P = layer.projected;
    for (long j = team.rank; j < long(my.rows.size()); j += team.size) {
      const long b = my.rows[j], length = schedule.length(b), last = schedule.reverse ? 0 : length - 1;
      for (long t = length; t < layer.steps; t++) {
        std::fill_n(output_at(t, b), P, T(0));
        if (!layer.traced) continue;  // a backward reads only what there is
        if (d.values) std::fill_n(value_at(t, 0, b), size.value_row, T(0));
        if (d.states) std::fill_n(d.states + (t * layer.batch + b) * size.state_row, size.state_row, T(0));
      }
      const T* h = length ? output_at(last, b) : d.state_0[0] ? d.state_0[0] + b * P : zeros;
      if (h != d.state_n[0] + b * P) std::copy_n(h, P, d.state_n[0] + b * P);  // a stream's output is its state
      if (cell.states == 1 || single()) continue;
      const T* row = length && d.states ? d.states + (last * layer.batch + b) * size.state_row : start + b * size.state_row;
      for (int k = 1; k < cell.states; k++)
        std::copy_n(row + size.state_at(k), size.hidden, d.state_n[k] + b * size.hidden);
    }
  }
};

template <class T>
void forward(const Layer<T>& layer, const CellKernel<T>& cell) {
  Region region;
  Forward<T> ahead(layer, cell, 0);
  if (layer.directions == 1) {
    Barrier barrier(region, layer.threads);
    region.run(threads_for(layer, cell.gates), [&](int rank, int size) { ahead.run(Team{barrier, rank, size}); });
    ahead.keep();
    return;
  }
  Forward<T> back(layer, cell, 1);
  Barrier barrier[2] = {{region, layer.threads}, {region, layer.threads}};
  region.run(threads_for(layer, cell.gates), [&](int rank, int size) {
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
