// The grid, backward: the hand-derived gradient of every cell through time.
//
// A chunk of steps at a time, from the last: the cell's derivative turns ∂L/∂(state) into δ, one product with U carries
// it to the step before, and when the chunk is done three large products over its rows give ∂L/∂x and the
// gradients of the weights. Sums over rows are added in one fixed order, so the same input gives the same bits.
#pragma once

#include "recurrent/forward.hpp"

namespace carousel {

// One thread's lists for the rows of a step, and of a chunk.
template <class T>
struct BackwardRows {
  List<long> rows, places;   // batch indices, and where they stand among all
  List<long> all;            // rows of every thread
  List<long> offset;         // of each step of the chunk in the list of its rows
  List<long> times, batch;   // of each row of the chunk
  long total = 0, t = 0;
  bool alone = false;  // this thread has rows of its own, and all units
  long from = 0, to = 0, p_from = 0, p_to = 0;  // blocks of units, panels of h
  List<const T*> at, old_h, d_out, delta_all, d_h_all;
  List<const T*> now, old;   // rows of states 1, 2, …
  List<T*> delta, d_h, m, carry_h, carry, through, d_m;
  List<const T*> a_rows;     // of a large product
  List<T*> c_rows;
  T* sums = nullptr;         // (sums, plane)
  Buffer<T> spare, kept;     // (state_row): of a cell of whole rows
};

template <class T>
class Backward {
  static constexpr long few = 8;  // rows a pass of the cell takes together: their cache lines are used up at once

 public:
  const Layer<T>& layer;
  const Direction<T>& d;
  const Schedule<T> schedule;
  const CellKernel<T>& cell;
  const Sizes<T> size;
  const long index;
  Buffer<T> vectors;        // (vectors, plane): the parameters that units read
  Buffer<T> cut[max_states];  // (B, P or H): what resets sent to the initial state

  bool projects() const { return weight(slot::weight_hr) != nullptr; }
  bool zones(int k) const { return d.zone[k] || layer.zone[k] != 0; }
  bool adds_to_carry() const { return cell.direct || zones(0); }

  // A reset lies before this step: its gradient belongs to the initial state, and the step before gets none.
  static void send(T* sum, T* carry, long from, long to) {
    for (long u = from; u < to; u++) sum[u] += carry[u], carry[u] = 0;
  }

  // d_x (T, B, I): where this direction's ∂L/∂x goes, or is added. `whole`: all steps are one chunk.
  Backward(const Layer<T>& layer, const CellKernel<T>& cell, long index, T* d_x, Into into, bool whole = false)
      : layer(layer), d(layer.direction[index]), schedule(layer, index == 1), cell(cell),
        size(cell.sizes(layer.hidden)), index(index), d_x(d_x), into_x(into) {
    const int gates = cell.gates;
    const long B = layer.batch, P = layer.projected, I = layer.input;
    unpacked = !whole && few_rows(layer.steps * B) && !projects() && !cell.staged && !d.mask;
    chunk = whole ? layer.steps : std::min(layer.steps, std::max(1L, 512 / B));
    most = chunk * B;
    d_row = padded<T>(cell.d_planes * size.plane);
    h_row = padded<T>(up(P, panel<T>));
    turned_row = padded<T>(most);
    p_panels = ceil_div(P, panel<T>), i_panels = ceil_div(I, panel<T>), h_panels = ceil_div(layer.hidden, panel<T>);
    if (!unpacked) packed_hh.reserve(p_panels * panel<T> * gates * size.plane);
    if (d_x && !unpacked) packed_ih.reserve(i_panels * panel<T> * gates * size.plane);
    if (projects()) packed_hr.reserve(h_panels * panel<T> * P), d_m.reserve(B * padded<T>(h_panels * panel<T>));
    if (projects()) m.reserve(most * size.plane);
    if (projects() || cell.whole_rows) d_h.reserve(most * h_row);
    carry_h.zero(B * h_row);
    carry.zero(B * size.state_row);
    for (long b = 0; b < B; b++) {
      if (d.d_state_n[0]) std::copy_n(d.d_state_n[0] + b * P, P, carry_h + b * h_row);
      for (int k = 1; k < cell.states; k++)
        if (d.d_state_n[k]) std::copy_n(d.d_state_n[k] + b * size.hidden, size.hidden, state_row(carry, b, k));
    }
    if (d.mask || cell.staged) through.reserve(B * h_row);
    if (d.mask || cell.staged) arguments.reserve(most * P * (cell.staged ? 2 : 1));
    delta.reserve(most * d_row);
    if (!unpacked) turned.reserve((cell.d_planes * size.plane + (projects() ? P : 0)) * turned_row);
    if (!unpacked)
      packed_rows.reserve((i_panels + (cell.staged ? 2 : 1) * p_panels + (projects() ? h_panels : 0)) * panel<T> * most);
    sums.reserve(long(layer.threads) * cell.sums * size.plane);
    vectors.zero(std::max(1, cell.vectors) * size.plane);
    for (int k = 0; k < cell.vectors; k++)
      if (const T* p = cell.vector(d.parameter, size.hidden, k)) std::copy(p, p + size.hidden, vectors + k * size.plane);
    zeros.zero(std::max(P, size.state_row));
    if (cell.states > 1) start.zero(B * size.state_row), initial.zero(size.state_row);
    for (int k = 1; k < cell.states; k++) {
      for (long b = 0; d.state_0[k] && b < B; b++)
        std::copy_n(d.state_0[k] + b * size.hidden, size.hidden, state_row(start, b, k));
      if (d.initial[k]) std::copy_n(d.initial[k], size.hidden, state_row(initial, 0, k));
    }
    for (int k = 0; layer.reset && k < cell.states; k++) cut[k].zero(B * layer.state_size(k));
  }

  void run(const Team& team) {
    BackwardRows<T> my;
    begin(my, team);
    bool first = true;
    for (long s1 = layer.steps; s1 > 0; s1 -= chunk) {
      const long s0 = std::max(0L, s1 - chunk);
      list_rows(my, s0, s1);
      for (long s = s1 - 1; s >= s0; s--) step(my, inner(my, team), s, s0);
      fill_arguments(my, team);
      team.sync();
      if (my.total) {
        input_gradient(my, team);
        if (unpacked) {
          outer_gradients(my, team);
        } else {
          pack_chunk(my, team);
          team.sync();
          weight_gradients(my, team, first);
        }
        first = false;
      }
    }
    if (!inner(my, team).rank) clear_padding(my);
    team.sync();
    finish(team, first);
  }

  // The same with one step per call, forwards in time only and all of it one chunk: `step_back` for each step, from the
  // last; it gives this step's ∂L/∂x, which the ∂L/∂h of the step before may depend on. Then `end`.
  void begin_steps(BackwardRows<T>& my, const Team& team) {
    begin(my, team);
    list_rows(my, 0, layer.steps);
    my.offset.push_back(my.total);
  }

  void step_back(BackwardRows<T>& my, const Team& team, long t) {
    step(my, inner(my, team), t, 0);
    team.sync();
    if (!d_x) return;
    long from, to;
    team.share(i_panels, from, to);  // few rows: each thread reads a part of the weights
    input_gradient(my, my.offset[t], my.offset[t + 1], from, to);
  }

  void end(BackwardRows<T>& my, const Team& team) {
    fill_arguments(my, team);
    team.sync();
    if (my.total) {
      pack_chunk(my, team);
      team.sync();
      weight_gradients(my, team, true);
      team.sync();
    }
    finish(team, !my.total);
  }

 private:
  long chunk, most;  // steps of a chunk, and its rows
  long d_row, h_row, turned_row, p_panels, i_panels, h_panels;
  T* d_x;
  Into into_x;
  bool unpacked;  // so few rows that products read the weights as they are
  Buffer<T> packed_hh, packed_ih, packed_hr;  // U, W and W_hr by rows
  Buffer<T> carry_h, carry;    // (B, h_row), (B, state_row): ∂L/∂(state) of the step at hand, from later steps
  Buffer<T> through;           // (B, h_row): what comes back through U, before the dropout mask
  Buffer<T> delta;             // (rows of the chunk, d_row): δ
  Buffer<T> d_h, d_m, m;       // (rows, h_row), (B, ·), (rows, plane): projection
  Buffer<T> arguments;         // (rows, P), twice if staged: what U multiplied, where that is not h₋ itself
  Buffer<T> turned;            // (columns of delta and d_h, rows): transposed
  Buffer<T> packed_rows;       // x, arguments of U and m of the chunk in panels
  Buffer<T> sums;              // (threads, sums, plane)
  Buffer<T> zeros;
  Buffer<T> start, initial;    // (B, state_row), (state_row): states 1, 2, …

  static T* T_of(const Buffer<T>& b) { return b; }
  const T* weight(int slot) const { return d.parameter[slot]; }
  T* state_row(T* rows, long b, int k) const { return rows + b * size.state_row + size.state_at(k); }
  long m_row() const { return padded<T>(h_panels * panel<T>); }

  void begin(BackwardRows<T>& my, const Team& team) {
    my.alone = team.size == 1 || split_rows(layer, cell.gates, team.size);
    list(my, team, my.alone);
    pack(team);
    const Team within = inner(my, team);
    size.share(within, my.from, my.to);
    if (projects()) within.share(p_panels, my.p_from, my.p_to);
    else my.p_from = my.from, my.p_to = my.to;
    team.sync();
  }

  // Those that share a step: all threads, or each is alone with its rows.
  static Team inner(const BackwardRows<T>& my, const Team& team) {
    return {team.barrier, my.alone ? 0 : team.rank, my.alone ? 1 : team.size};
  }

  void list(BackwardRows<T>& my, const Team& team, bool alone) const {
    my.rows = schedule.rows(alone ? team.rank : 0, alone ? team.size : 1, &my.places);
    my.all = schedule.rows(0, 1);
    const long n = long(my.rows.size());
    for (auto* list : {&my.at, &my.now, &my.old, &my.old_h, &my.d_out, &my.delta_all, &my.d_h_all}) list->resize(n);
    for (auto* list : {&my.delta, &my.d_h, &my.m, &my.carry_h, &my.carry, &my.through, &my.d_m}) list->resize(n);
    my.sums = sums + long(team.rank) * cell.sums * size.plane;
    std::fill_n(my.sums, cell.sums * size.plane, T(0));
    if (cell.whole_rows) my.spare.reserve(size.state_row), my.kept.reserve(size.state_row);
  }

  const T* output_at(long t, long b) const {
    return layer.output + ((t * layer.batch + b) * layer.directions + index) * layer.projected;
  }
  const T* previous_h(long t, long b) const {
    const T* h = schedule.cut(t, b)     ? d.initial[0]
                 : schedule.first(t, b) ? (d.state_0[0] ? d.state_0[0] + b * layer.projected : nullptr)
                                        : output_at(schedule.before(t), b);
    return h ? h : T_of(zeros);
  }
  const T* previous_states(long t, long b) const {  // (state_row)
    return schedule.cut(t, b)     ? T_of(initial)
           : schedule.first(t, b) ? start + b * size.state_row
                                  : d.states + (schedule.before(t) * layer.batch + b) * size.state_row;
  }

  // Row k of the planes that multiply a weight: plane k / plane is gate order[…]; padding is zero.
  const T* weight_row(const T* weight, long width, const int* order, long k) const {
    const long u = k % size.plane;
    return u < size.hidden ? weight + (order[k / size.plane] * size.hidden + u) * width : nullptr;
  }

  void pack(const Team& team) {
    if (unpacked) return;
    const long P = layer.projected, depth = cell.gates * size.plane;
    long from, to;
    team.share(p_panels, from, to);
    auto u = [&](long k) { return weight_row(weight(slot::weight_hh), P, cell.h_order, k); };
    if (cell.staged) {  // the gates' panels, then the candidate's
      const long cut = cell.first_gates() * size.plane;
      pack_rows<T>(cut, P, u, from, to, packed_hh);
      pack_rows<T>(depth - cut, P, [&](long k) { return u(k + cut); }, from, to, packed_hh + p_panels * panel<T> * cut);
    } else {
      pack_rows<T>(depth, P, u, from, to, packed_hh);
    }
    if (d_x) {
      team.share(i_panels, from, to);
      pack_rows<T>(depth, layer.input, [&](long k) { return weight_row(weight(slot::weight_ih), layer.input, cell.x_order, k); },
                   from, to, packed_ih);
    }
    if (projects()) {
      team.share(h_panels, from, to);
      pack_rows<T>(P, size.hidden, [&](long k) { return weight(slot::weight_hr) + k * size.hidden; }, from, to, packed_hr);
    }
  }

  // The rows of a chunk, in the order of its steps; in a step the longest sequence first.
  void list_rows(BackwardRows<T>& my, long s0, long s1) {
    my.offset.clear(), my.times.clear(), my.batch.clear();
    for (long s = s0; s < s1; s++) {
      const long t = schedule.time(s), n = schedule.active(my.all, t);
      my.offset.push_back(long(my.times.size()));
      for (long j = 0; j < n; j++) my.times.push_back(t), my.batch.push_back(my.all[j]);
    }
    my.total = long(my.times.size());
  }

  void step(BackwardRows<T>& my, const Team& team, long s, long s0) {
    const long t = my.t = schedule.time(s), n = schedule.active(my.rows, t), P = layer.projected;
    const long offset = my.offset[s - s0];
    for (long j = 0; j < n; j++) {
      const long b = my.rows[j], row = t * layer.batch + b, place = offset + my.places[j];
      my.at[j] = d.values + row * size.value_row;
      my.old_h[j] = previous_h(t, b);
      if (cell.states > 1) my.now[j] = d.states + row * size.state_row, my.old[j] = previous_states(t, b);
      my.d_out[j] = layer.d_output ? layer.d_output + (row * layer.directions + index) * P : T_of(zeros);
      my.delta_all[j] = my.delta[j] = delta + place * d_row;
      my.carry_h[j] = carry_h + b * h_row, my.carry[j] = carry + b * size.state_row;
      if (d.mask || cell.staged) my.through[j] = through + b * h_row;
      if (projects() || cell.whole_rows) my.d_h_all[j] = my.d_h[j] = d_h + place * h_row;
      if (projects()) my.d_m[j] = d_m + b * m_row(), my.m[j] = m + place * size.plane;
    }
    if (projects() || cell.whole_rows) {
      for (long j = 0; j < n; j++)
        collect(my, j, my.p_from * panel<T>, std::min(P, my.p_to * panel<T>));
      team.sync();
    }
    if (projects()) {
      const Packed<T> w{packed_hr, P, nullptr, size.plane, nullptr};
      multiply<T>(n, my.d_h_all.data(), 0, w, my.from, my.to, my.d_m.data(), Into::store);
      if (cell.whole_rows) team.sync();
    }
    if (cell.whole_rows) {
      for (long j = team.rank; j < n; j += team.size) cell.backward_row(*this, my, j);
    } else if (cell.staged) {
      pass(my, Stage::candidate, n);
      team.sync();
      const Packed<T> w{packed_hh + p_panels * panel<T> * cell.first_gates() * size.plane, size.plane, nullptr, up(P, lanes<T>),
                        nullptr};
      multiply<T>(n, my.delta_all.data(), (cell.h_plane + cell.first_gates()) * size.plane, w, my.p_from, my.p_to,
                  my.through.data(), Into::store);
      pass(my, Stage::gates, n);
    } else {
      pass(my, Stage::all, n);
    }
    if (layer.reset && !cell.whole_rows)
      for (long j = 0; j < n; j++)
        if (schedule.cut(t, my.rows[j]))
          for (int k = 1; k < cell.states; k++)
            send(cut[k] + my.rows[j] * size.hidden, state_row(carry, my.rows[j], k), my.from * panel<T>,
                 std::min(size.hidden, my.to * panel<T>));
    team.sync();
    const Packed<T> w{packed_hh, cell.first_gates() * size.plane, nullptr, up(P, lanes<T>), nullptr};
    const long columns = cell.h_plane * size.plane;
    const Into into = adds_to_carry() ? Into::add : Into::store;
    if (!s && !d.d_state_0[0] && !layer.reset) {  // nothing reads ∂L/∂h before the first step
    } else if (unpacked) {
      for (long j = 0; j < n; j++)
        combine_gates(my.delta[j] + columns, weight(slot::weight_hh), P, cell.h_order, my.p_from * panel<T>,
                      std::min(P, my.p_to * panel<T>), my.carry_h[j], into);
    } else if (d.mask) {
      multiply<T>(n, my.delta_all.data(), columns, w, my.p_from, my.p_to, my.through.data(), Into::store);
      for (long j = 0; j < n; j++) {
        const long from = my.p_from * panel<T>, to = std::min(P, my.p_to * panel<T>);
        T *back = my.through[j], *carry = my.carry_h[j];
        for (long p = from; p < to; p++) back[p] *= d.mask[my.rows[j] * P + p];
        for (long p = from; p < to; p++) carry[p] = adds_to_carry() ? carry[p] + back[p] : back[p];
      }
    } else {
      multiply<T>(n, my.delta_all.data(), columns, w, my.p_from, my.p_to, my.carry_h.data(), into);
    }
    if (layer.reset)
      for (long j = 0; j < n; j++)
        if (schedule.cut(t, my.rows[j]))
          send(cut[0] + my.rows[j] * P, my.carry_h[j], my.p_from * panel<T>, std::min(P, my.p_to * panel<T>));
    if (cell.whole_rows) team.sync();
  }

  // ∂L/∂h of columns [from, to) where a product needs it before the cell does: of h before zoneout.
  void collect(BackwardRows<T>& my, long j, long from, long to) {
    const long row = my.t * layer.batch + my.rows[j], P = layer.projected;
    T* dh = my.d_h[j];
    for (long p = from; p < to; p++) {
      const T total = my.d_out[j][p] + my.carry_h[j][p];
      if (d.total[0]) d.total[0][row * P + p] = total;
      const T keep = d.zone[0] ? T(d.zone[0][row * P + p]) : layer.zone[0];
      dh[p] = (1 - keep) * total;
      if (adds_to_carry()) my.carry_h[j][p] = keep * total;
    }
  }

  // The cell's derivative on this thread's units, a few rows at a time.
  void pass(BackwardRows<T>& my, Stage stage, long n) {
    for (long j = 0; j < n; j += few)
      for (long v = 2 * my.from; v < std::min(2 * my.to, size.vectors); v++)
        cell.backward(*this, my, stage, j, std::min(few, n - j), v * lanes<T>);
  }

  // What U multiplied, where that was not h₋ itself: r∘h₋ of a staged cell, and the dropout mask.
  void fill_arguments(BackwardRows<T>& my, const Team& team) {
    if (!d.mask && !cell.staged) return;
    const long P = layer.projected;
    for (long k = team.rank; k < my.total; k += team.size) {
      const long t = my.times[k], b = my.batch[k];
      const T *h = previous_h(t, b), *r = d.values + (t * layer.batch + b) * size.value_row;
      T *masked = arguments + k * P, *second = arguments + (most + k) * P;
      if (d.mask) {
        for (long p = 0; p < P; p++) masked[p] = h[p] * d.mask[b * P + p];
        h = masked;
      }
      for (long p = 0; cell.staged && p < P; p++) second[p] = h[p] * r[p];
    }
  }

  void input_gradient(BackwardRows<T>& my, const Team& team) {
    if (!d_x) return;
    long from, to;
    team.share(my.total, from, to);
    input_gradient(my, from, to, 0, i_panels);
  }

  // Rows [from, to) of the chunk, panels [p0, p1) of x.
  void input_gradient(BackwardRows<T>& my, long from, long to, long p0, long p1) {
    if (unpacked) {
      for (long k = from; k < to; k++)
        combine_gates(delta + k * d_row + cell.x_plane * size.plane, weight(slot::weight_ih), layer.input, cell.x_order,
                      p0 * panel<T>, std::min(layer.input, p1 * panel<T>),
                      d_x + (my.times[k] * layer.batch + my.batch[k]) * layer.input, into_x);
      return;
    }
    my.a_rows.clear(), my.c_rows.clear();
    for (long k = from; k < to; k++) {
      my.a_rows.push_back(delta + k * d_row);
      my.c_rows.push_back(d_x + (my.times[k] * layer.batch + my.batch[k]) * layer.input);
    }
    const Packed<T> w{packed_ih, cell.gates * size.plane, nullptr, layer.input, nullptr};
    multiply<T>(to - from, my.a_rows.data(), cell.x_plane * size.plane, w, p0, p1, my.c_rows.data(), into_x);
  }

  // out[n] (=, +=) Σ δ weight[·][n] over the gates of δ (gates, plane), for from ≤ n < to.
  void combine_gates(const T* delta, const T* weight, long width, const int* order, long from, long to, T* out, Into into) {
    for (int q = 0; q < cell.gates; q++)
      combine<T>(size.hidden, delta + q * size.plane, weight + order[q] * size.hidden * width, width, from, to, out,
                 q ? Into::add : into);
  }

  // The gradients of W and U from the few rows there are, each thread some units of all gates.
  void outer_gradients(BackwardRows<T>& my, const Team& team) {
    long from, to;
    team.share(size.hidden, from, to);
    const T *x[most_few_rows], *h[most_few_rows], *d_rows[most_few_rows];
    for (long k = 0; k < my.total; k++) {
      x[k] = layer.x + (my.times[k] * layer.batch + my.batch[k]) * layer.input;
      h[k] = previous_h(my.times[k], my.batch[k]);
    }
    auto gradient = [&](T* out, const T* const* rows, long width, int plane, const int* order) {
      for (int q = 0; out && q < cell.gates; q++) {
        for (long k = 0; k < my.total; k++) d_rows[k] = delta + k * d_row + (plane + q) * size.plane + from;
        outer<T>(my.total, d_rows, rows, to - from, width, out + (order[q] * size.hidden + from) * width);
      }
    };
    gradient(d.d_parameter[slot::weight_ih], x, layer.input, cell.x_plane, cell.x_order);
    gradient(d.d_parameter[slot::weight_hh], h, layer.projected, cell.h_plane, cell.h_order);
  }

  // δ transposed, and what it meets in panels.
  void pack_chunk(BackwardRows<T>& my, const Team& team) {
    const long P = layer.projected, K = my.total, columns = cell.d_planes * size.plane;
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
    if (d.mask)
      pack_rows<T>(K, P, [&](long k) { return arguments + k * P; }, from, to, to_panels);
    else
      pack_rows<T>(K, P, [&](long k) { return previous_h(my.times[k], my.batch[k]); }, from, to, to_panels);
    to_panels += p_panels * K * panel<T>;
    if (cell.staged) {
      pack_rows<T>(K, P, [&](long k) { return arguments + (most + k) * P; }, from, to, to_panels);
      to_panels += p_panels * K * panel<T>;
    }
    if (projects()) {
      team.share(h_panels, from, to);
      pack_rows<T>(K, size.hidden, [&](long k) { return m + k * size.plane; }, from, to, to_panels);
    }
  }

  void weight_gradients(BackwardRows<T>& my, const Team& team, bool first) {
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
    gradient(d.d_parameter[slot::weight_ih], layer.input, i_panels, cell.x_plane, cell.x_order, 0, cell.gates);
    gradient(d.d_parameter[slot::weight_hh], P, p_panels, cell.h_plane, cell.h_order, 0, cell.first_gates());
    if (cell.staged) gradient(d.d_parameter[slot::weight_hh], P, p_panels, cell.h_plane, cell.h_order, cell.first_gates(), cell.gates);
    if (projects() && d.d_parameter[slot::weight_hr]) {
      long from, to;
      team.share(P, from, to);
      my.a_rows.clear(), my.c_rows.clear();
      for (long p = from; p < to; p++) {
        my.a_rows.push_back(turned + (cell.d_planes * size.plane + p) * turned_row);
        my.c_rows.push_back(d.d_parameter[slot::weight_hr] + p * size.hidden);
      }
      const Packed<T> w{panels, K, nullptr, size.hidden, nullptr};
      multiply<T>(to - from, my.a_rows.data(), 0, w, 0, h_panels, my.c_rows.data(), first ? Into::store : Into::add);
    }
  }

  void clear_padding(BackwardRows<T>& my) {
    if (!d_x || into_x == Into::add || !layer.lengths) return;
    for (long b : my.rows)
      for (long t = schedule.length(b); t < layer.steps; t++)
        std::fill_n(d_x + (t * layer.batch + b) * layer.input, layer.input, T(0));
  }

  void finish(const Team& team, bool untouched) {
    if (team.rank) return;  // little work, and one order of summation
    const long B = layer.batch, P = layer.projected, H = size.hidden;
    const int gates = cell.gates;
    auto zero = [](T* p, long n) {
      if (p) std::fill_n(p, n, T(0));
    };
    if (untouched) {
      zero(d.d_parameter[slot::weight_ih], gates * H * layer.input), zero(d.d_parameter[slot::weight_hh], gates * H * P), zero(d.d_parameter[slot::weight_hr], P * H);
    }
    for (int k = 1; k < team.size; k++)
      for (long u = 0; u < cell.sums * size.plane; u++) sums[u] += sums[k * cell.sums * size.plane + u];
    const Sums<T> all{sums, size.plane, H};
    for (int q = 0; q < gates; q++) {
      all.store(cell.bias_ih[q], d.d_parameter[slot::bias_ih], q);
      all.store(cell.bias_hh[q], d.d_parameter[slot::bias_hh], q);
    }
    cell.gradients(all, d.d_parameter);
    for (int k = 0; k < cell.states; k++) {
      const long n = layer.state_size(k);
      for (long b = 0; d.d_state_0[k] && b < B; b++)
        std::copy_n(k ? state_row(carry, b, k) : carry_h + b * h_row, n, d.d_state_0[k] + b * n);
      zero(d.d_initial[k], n);
      for (long b = 0; layer.reset && d.d_initial[k] && b < B; b++)
        for (long p = 0; p < n; p++) d.d_initial[k][p] += cut[k][b * n + p];
    }
  }
};

template <class T>
void backward(const Layer<T>& layer, const CellKernel<T>& cell) {
  Region region;
  Backward<T> ahead(layer, cell, 0, layer.d_x, Into::store);
  if (layer.directions == 1) {
    Barrier barrier(region, layer.threads);
    region.run(threads_for(layer, cell.gates), [&](int rank, int size) { ahead.run(Team{barrier, rank, size}); });
    return;
  }
  // side by side, each direction writes its own ∂L/∂x, and they are added in one fixed order
  const bool apart = directions_side_by_side(layer, cell.gates, threads_for(layer, cell.gates));
  const long n = layer.steps * layer.batch * layer.input;
  Buffer<T> second;
  if (apart && layer.d_x) second.reserve(n);
  T* d_x = apart && layer.d_x ? static_cast<T*>(second) : layer.d_x;
  Backward<T> back(layer, cell, 1, d_x, apart ? Into::store : Into::add);
  Barrier barrier[2] = {{region, layer.threads}, {region, layer.threads}}, both(region, layer.threads);
  region.run(threads_for(layer, cell.gates), [&](int rank, int size) {
    if (apart && size > 1) {
      const int half = size / 2;
      if (rank < half) ahead.run(Team{barrier[0], rank, half});
      else back.run(Team{barrier[1], rank - half, size - half});
    } else {
      ahead.run(Team{barrier[0], rank, size});
      back.run(Team{barrier[1], rank, size});
    }
    if (apart && layer.d_x) {
      both.wait(rank, size);
      for (long k = n * rank / size; k < n * (rank + 1) / size; k++) layer.d_x[k] += second[k];
    }
  });
}

}  // namespace carousel
