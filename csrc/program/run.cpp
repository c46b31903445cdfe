// A layer whose cell is a program, one direction: the loop over time, forwards and back.
//
// Threads share the rows of the batch, each alone with its own, or, where there are few rows or much weight, the columns of
// a step, with a barrier after each stage. Sums over rows are taken in one order for a given number of threads.
#include <cstring>

#include "core/gemm.hpp"
#include "core/pool.hpp"
#include "program/machine.hpp"
#include "recurrent/layer.hpp"

namespace carousel {

namespace {

constexpr long tile_columns = 256;  // of a loop: a dozen tiles of them fit into the first-level cache

template <class T>
long plane(long width) {
  return up(width, panel<T>);
}

// Where planes of these widths begin, one after the other; the length of all is added at the end.
template <class T>
std::vector<long> places(const std::vector<long>& widths) {
  std::vector<long> at(1, 0);
  for (long w : widths) at.push_back(at.back() + plane<T>(w));
  return at;
}

// The first state is in the output alone where its rows, and the parts of them that are read, are whole vectors.
template <class T>
bool output_is_state(const StepProgram& program) {
  if (program.states[0] % lanes<T>) return false;
  for (const StepCode* code : {&program.forward, &program.backward})
    for (const Slot& s : code->slots)
      if ((s.space == Space::old || s.space == Space::now) && s.index == 0 && s.width % lanes<T>) return false;
  return true;
}

}  // namespace

template <class T>
ProgramLayout program_layout(const StepProgram& program) {
  ProgramLayout layout;
  long at = 0;
  for (std::size_t k = 0; k < program.states.size(); k++) {
    const bool outside = k == 0 && output_is_state<T>(program);
    layout.states.push_back(outside ? -1 : at);
    if (!outside) at += plane<T>(program.states[k]);
  }
  for (long w : program.saved) layout.saved.push_back(at), at += plane<T>(w);
  layout.saved_row = padded<T>(at + lanes<T>);  // a part at the end of a row may be read by whole vectors
  layout.kept = places<T>(program.kept), layout.sums = places<T>(program.sums);
  layout.kept_row = layout.kept.back() + lanes<T>, layout.sums_row = layout.sums.back();
  layout.kept.pop_back(), layout.sums.pop_back();
  return layout;
}

namespace {

// Memory and code of one call, forwards or back; what all threads share.
template <class T>
class Runner {
 public:
  const StepProgram& program;
  const StepCode& code;
  const ProgramCall<T>& call;
  const bool backward;
  const ProgramLayout layout;
  const Layer<T> layer;
  const Schedule<T> schedule;
  long states;

  Runner(const StepProgram& program, const ProgramCall<T>& call, bool backward)
      : program(program), code(backward ? program.backward : program.forward), call(call), backward(backward),
        layout(program_layout<T>(program)), layer(times(call)), schedule(layer, call.reverse),
        states(long(program.states.size())), tensors(call.tensors), temporary(places<T>(code.temporaries)), state(places<T>(program.states)) {
    const long B = call.batch;
    if (call.x && !tensors[0]) own_projected.reserve(call.steps * B * program.tensors[0].row + lanes<T>), tensors[0] = own_projected;
    if (call.x) projected = const_cast<T*>(tensors[0]);
    for (std::size_t i = 0; i < code.slots.size(); i++) {  // rows of tensors that are no whole vectors pass through a copy
      const Slot& s = code.slots[i];
      const bool outside = s.space == Space::d_input || (s.space == Space::input && kind(s) != Kind::unit);
      const bool copied = outside && s.width % lanes<T>;
      staged.push_back(copied ? temporary.back() : -1);
      if (copied) temporary.push_back(temporary.back() + plane<T>(s.width)), stages_rows = true;
    }
    widest = 1;
    for (const Loop& loop : code.loops) widest = std::max(widest, loop.width);
    start.zero(B * state.back() + lanes<T>), initial.zero(state.back() + lanes<T>);
    for (long k = 0; k < states; k++) {
      const long n = program.states[k];
      for (long b = 0; call.state_0[k] && b < B; b++) std::copy_n(call.state_0[k] + b * n, n, start + b * state.back() + state[k]);
      if (call.initial[k]) std::copy_n(call.initial[k], n, initial + state[k]);
    }
    if (!call.saved) ring.reserve(2 * B * layout.saved_row);
    memory.reserve(B * temporary.back() + lanes<T>);
    if (backward) {
      carry.zero(2 * B * state.back() + lanes<T>);
      if (call.reset) cut.zero(B * state.back());
      sums.zero(long(call.threads) * std::max(1L, layout.sums_row));
    }
    for (std::size_t k = 0; k < code.constants.size(); k++) {
      constants.emplace_back();
      constants.back().reserve(plane<T>(widest));
      std::fill_n(T_of(constants.back()), plane<T>(widest), T(code.constants[k]));
    }
    copy_units();
    if (!few()) {
      long panels = 0;
      for (const MatrixProduct& p : code.products) {
        packed_at.push_back(panels);
        panels += ceil_div(columns(p), panel<T>) * depth(p) * panel<T>;
      }
      packed.reserve(std::max(1L, panels));
    }
  }

  void run() {
    const double rows = double(call.steps) * call.batch;
    double work = 8.0 * code.instructions.size() * widest;
    long weights = 0;
    if (call.x) work += double(program.tensors[0].row) * call.input;
    for (const MatrixProduct& p : code.products) work += double(p.rows) * p.depth, weights += p.rows * p.depth * long(sizeof(T));
    int threads = rows * work < double(1 << 16) ? 1 : call.threads;
    const bool enough = call.batch >= 4 * threads && weights <= (700L << 10);
    split_columns = threads > 1 && !enough && can_split();
    if (!split_columns) threads = int(std::min<long>(threads, call.batch));
    Region region;
    Barrier barrier(region, threads);
    region.run(threads, [&](int rank, int size) { work_of(Team{barrier, rank, size}); });
    finish();
  }

 private:
  std::vector<const T*> tensors;
  Buffer<T> own_projected;
  T* projected = nullptr;              // (T, B, G·H): W x + b, if x is what was given
  std::vector<long> temporary, state;  // where planes begin in a row of temporaries; in one of all states
  std::vector<long> staged;            // of a slot: its copy in the row of temporaries, or −1
  bool stages_rows = false, split_columns = false;
  long widest;
  Buffer<T> start, initial;  // (B, states), (states)
  Buffer<T> ring;            // (2, B, saved_row): in a call that saves nothing the states of two steps
  Buffer<T> memory;          // (B, temporaries)
  Buffer<T> carry, cut;      // (2, B, states), (B, states): ∂L/∂(state after t) at t & 1; what resets sent to the initial state
  Buffer<T> sums;            // (threads, sums_row)
  Buffer<T> packed;          // the matrices of the products
  std::deque<Buffer<T>> constants, units;
  std::vector<T*> unit_at;   // of a slot of a unit: its numbers
  std::vector<long> packed_at;

  static T* T_of(const Buffer<T>& b) { return b; }
  Kind kind(const Slot& s) const { return program.tensors[s.index].kind; }
  // Few rows do not pay for packing: `dots` reads the matrices as they are. In a batch of one every product has one row.
  bool few() const { return !backward && (few_rows(call.steps * call.batch) || (call.batch == 1 && one_row_unpacked<T>(call.steps))); }
  bool few_inputs() const { return few_rows(call.steps * call.batch) || (few() && call.steps <= few_steps); }
  static long columns(const MatrixProduct& p) { return p.turned ? p.rows : p.depth; }
  static long depth(const MatrixProduct& p) { return p.turned ? p.depth : p.rows; }

  static Layer<T> times(const ProgramCall<T>& call) {
    Layer<T> layer;
    layer.steps = call.steps, layer.batch = call.batch, layer.lengths = call.lengths, layer.reset = call.reset;
    return layer;
  }

  // Whether threads may share the columns: each must find in its own what its loops need.
  bool can_split() const {
    if (!code.reductions.empty() || stages_rows || !output_is_state<T>(program)) return false;
    for (const Loop& loop : code.loops)
      if (loop.width == 1) return false;
    for (const Slot& s : code.slots)  // a part of a row belongs to other threads than the row
      if (s.offset && s.space != Space::input && s.space != Space::d_input) return false;
    return true;
  }

  // Vectors that all rows share, as whole vectors.
  void copy_units() {
    for (std::size_t i = 0; i < code.slots.size(); i++) {
      const Slot& s = code.slots[i];
      unit_at.push_back(nullptr);
      if (s.space != Space::input || kind(s) != Kind::unit) continue;
      const T* from = tensors[s.index] + s.offset;
      units.emplace_back();
      units.back().zero(plane<T>(s.width) + lanes<T>);
      std::copy_n(from, s.width, T_of(units.back()));
      unit_at[i] = units.back();
    }
  }

  // ---- where rows are ----

  T* new_at(long k, long t, long b) const {
    if (layout.states[k] < 0) return call.output + (t * call.batch + b) * program.states[0];
    return saved_at(t, b) + layout.states[k];
  }
  T* saved_at(long t, long b) const {
    return call.saved ? call.saved + (t * call.batch + b) * layout.saved_row : ring + ((t & 1) * call.batch + b) * layout.saved_row;
  }
  T* old_at(long k, long t, long b) const {
    if (schedule.cut(t, b)) return initial + state[k];
    if (schedule.first(t, b)) return start + b * state.back() + state[k];
    return new_at(k, schedule.before(t), b);
  }
  T* carry_at(long k, long t, long b) const { return carry + ((t & 1) * call.batch + b) * state.back() + state[k]; }
  T* tensor_at(const Slot& s, T* base, long t, long b) const {
    const long row = kind(s) == Kind::step ? t * call.batch + b : b;
    return base + row * program.tensors[s.index].row + s.offset;
  }

  // How the place of a slot changes: it is the same for all rows, or for all steps of a row; it moves on by the same
  // distance with every step; or else it must be looked up.
  enum class Moves { never, by_row, evenly, freely };

  Moves moves(std::size_t i) const {
    const Slot& s = code.slots[i];
    switch (s.space) {
      case Space::reg: case Space::constant: case Space::sum: return Moves::never;
      case Space::input: case Space::d_input:
        return unit_at[i] ? Moves::never : staged[i] >= 0 || kind(s) == Kind::sequence ? Moves::by_row : Moves::evenly;
      case Space::temporary: return Moves::by_row;
      case Space::kept: return Moves::evenly;
      case Space::now: return call.saved || layout.states[s.index] < 0 ? Moves::evenly : Moves::freely;
      case Space::saved: return call.saved ? Moves::evenly : Moves::freely;
      default: return Moves::freely;
    }
  }

  // From step to step, of a slot that moves evenly.
  long distance(std::size_t i) const {
    const Slot& s = code.slots[i];
    const bool outside = s.space == Space::now && layout.states[s.index] < 0;
    return call.batch * (s.space == Space::kept ? layout.kept_row
                         : outside              ? program.states[0]
                         : s.space == Space::now || s.space == Space::saved ? layout.saved_row
                                                                            : program.tensors[s.index].row);
  }

  T* place(std::size_t i, long t, long b) const {
    const Slot& s = code.slots[i];
    T* own = memory + b * temporary.back();
    if (staged[i] >= 0) return own + staged[i];
    switch (s.space) {
      case Space::input: return tensor_at(s, const_cast<T*>(tensors[s.index]), t, b);  // only read
      case Space::d_input: return tensor_at(s, call.d_tensors[s.index], t, b);
      case Space::old: return old_at(s.index, t, b) + s.offset;
      case Space::now: return new_at(s.index, t, b) + s.offset;
      case Space::saved: return saved_at(t, b) + layout.saved[s.index] + s.offset;
      case Space::temporary: return own + temporary[s.index] + s.offset;
      case Space::d_new: return carry_at(s.index, t, b) + s.offset;
      case Space::d_old: return carry_at(s.index, schedule.before(t), b) + s.offset;
      case Space::kept: return call.kept + (t * call.batch + b) * layout.kept_row + layout.kept[s.index] + s.offset;
      default: return nullptr;
    }
  }

  // ---- one thread ----

  struct Mine {
    List<long> rows;
    List<T*> places;       // (rows, slots)
    List<int> free, even;  // slots whose place moves freely, and evenly
    List<int> copied;      // slots that pass through a copy
    List<long> distance;   // of the even ones
    List<T*> first;        // (rows, even ones): at time 0
    Buffer<T> registers;
    List<const T*> a;
    List<T*> c;
  };

  T** row_of(Mine& my, long j) const { return my.places.data() + j * long(code.slots.size()); }

  void prepare(Mine& my, const Team& team) const {
    my.rows = split_columns ? schedule.rows(0, 1) : schedule.rows(team.rank, team.size);
    const long slots = long(code.slots.size()), n = long(my.rows.size()), width = plane<T>(widest);
    my.places.resize(n * slots);
    my.a.resize(n), my.c.resize(n);
    my.registers.reserve(std::max(1L, code.registers * width));
    for (long i = 0; i < slots; i++) {
      if (staged[i] >= 0) my.copied.push_back(int(i));
      const Moves how = moves(i);
      if (how == Moves::freely) my.free.push_back(int(i));
      if (how == Moves::evenly) my.even.push_back(int(i)), my.distance.push_back(distance(i));
      const Slot& s = code.slots[i];
      T* at = s.space == Space::reg        ? my.registers + s.index * width
              : s.space == Space::constant ? T_of(constants[s.index])
              : s.space == Space::sum      ? sums + team.rank * layout.sums_row + layout.sums[s.index] + s.offset
                                           : unit_at[i];
      for (long j = 0; j < n; j++)
        if (how == Moves::never || how == Moves::by_row) row_of(my, j)[i] = at ? at : place(i, 0, my.rows[j]);
    }
    for (long j = 0; j < n; j++)
      for (int i : my.even) my.first.push_back(place(i, 0, my.rows[j]));
  }

  void work_of(const Team& team) {
    Mine my;
    prepare(my, team);
    const bool alone = call.x && few_inputs() && split_columns && own_columns();  // each thread makes what it will read
    if (call.x) project(team, alone);
    pack(team);
    if (!alone) team.sync();
    const Team inner{team.barrier, split_columns ? team.rank : 0, split_columns ? team.size : 1};
    if (backward) begin_carry(my, inner);
    for (long s = 0; s < call.steps; s++) {
      const long t = schedule.time(backward ? call.steps - 1 - s : s), n = schedule.active(my.rows, t);
      for (long j = 0; j < n; j++) enter(my, inner, j, t);
      if (backward) inner.sync();
      const bool last = !backward && s + 1 == call.steps;  // nothing follows that other threads read
      for (const StepStage& stage : code.stages) {
        run_stage(my, inner, stage, n);
        if (!last || &stage != &code.stages.back()) inner.sync();
      }
      if (!split_columns) leave(my, t, n);
      else if (backward && call.reset) {
        send_cuts(my, team.rank, team.size, t, n);
        inner.sync();
      }
    }
  }

  // A thread's columns of a row.
  static void share(int rank, int size, long width, long& from, long& to) {
    const long panels = ceil_div(width, panel<T>);
    from = panels * rank / size * panel<T>;
    to = std::min(width, panels * (rank + 1) / size * panel<T>);
  }

  void enter(Mine& my, const Team& team, long j, long t) const {
    const long b = my.rows[j];
    T** places = row_of(my, j);
    const std::size_t even = my.even.size();
    for (std::size_t k = 0; k < even; k++) places[my.even[k]] = my.first[j * even + k] + t * my.distance[k];
    for (int i : my.free) places[i] = place(i, t, b);
    for (int i : my.copied) {
      const Slot& s = code.slots[i];
      if (s.space == Space::input) std::copy_n(tensor_at(s, const_cast<T*>(tensors[s.index]), t, b), s.width, places[i]);
    }
    if (!backward || !call.d_output) return;
    long from, to;
    share(team.rank, team.size, program.states[0], from, to);
    T* d = carry_at(0, t, b);
    const T* out = call.d_output + (t * call.batch + b) * program.states[0];
    for (long u = from; u < to; u++) d[u] += out[u];
  }

  void leave(Mine& my, long t, long n) const {
    if (!backward && !output_is_state<T>(program))
      for (long j = 0; j < n; j++) {
        const long b = my.rows[j], P = program.states[0];
        std::copy_n(new_at(0, t, b), P, call.output + (t * call.batch + b) * P);
      }
    if (!backward) return;
    for (long j = 0; j < n; j++)
      for (int i : my.copied) {
        const Slot& s = code.slots[i];
        if (s.space == Space::d_input)
          std::copy_n(row_of(my, j)[i], s.width, tensor_at(s, call.d_tensors[s.index], t, my.rows[j]));
      }
    if (call.reset) send_cuts(my, 0, 1, t, n);
  }

  // A reset lies before this step: its gradient belongs to the initial state, and the step before has none.
  void send_cuts(Mine& my, int rank, int size, long t, long n) const {
    for (long j = 0; j < n; j++) {
      const long b = my.rows[j];
      if (!schedule.cut(t, b)) continue;
      for (long k = 0; k < states; k++) {
        T *d = carry_at(k, schedule.before(t), b), *sum = cut + b * state.back() + state[k];
        long from, to;
        share(rank, size, program.states[k], from, to);
        for (long u = from; u < to; u++) sum[u] += d[u], d[u] = 0;
      }
    }
  }

  void begin_carry(Mine& my, const Team& team) const {
    for (long j = team.rank; j < long(my.rows.size()); j += team.size) {
      const long b = my.rows[j], length = schedule.length(b), last = schedule.reverse ? 0 : length - 1;
      for (long k = 0; k < states; k++)
        if (call.d_state_n[k]) std::copy_n(call.d_state_n[k] + b * program.states[k], program.states[k], carry_at(k, last, b));
    }
    team.sync();
  }

  void run_stage(Mine& my, const Team& team, const StepStage& stage, long n) const {
    for (int i = stage.products[0]; i < stage.products[1]; i++) product(my, team, i, n);
    for (int i = stage.reductions[0]; i < stage.reductions[1]; i++) {
      const Reduction& r = code.reductions[i];
      for (long j = 0; j < n; j++) {
        const T* arg = row_of(my, j)[r.arg];
        T* out = row_of(my, j)[r.out];
        if (Opcode(r.op) == Opcode::copy) std::copy_n(arg, code.slots[r.arg].width, out);
        else out[0] = reduce<T>(r.op, arg, code.slots[r.arg].width);
      }
    }
    const Instruction* all = code.instructions.data();
    for (int i = stage.loops[0]; i < stage.loops[1]; i++) {
      const Loop& loop = code.loops[i];
      long from, to;
      share(team.rank, team.size, loop.width, from, to);
      for (long j = 0; j < n; j++)
        for (long u = from; u < to; u += tile_columns)
          execute<T>(all + loop.first, all + loop.last, row_of(my, j), u, std::min(tile_columns, to - u));
    }
  }

  // ---- products ----

  // Whether loops alone read W x + b, all of one width, so that the threads' columns of it are those of their loops.
  bool own_columns() const {
    long width = 0;
    for (const Slot& s : code.slots)
      if (s.space == Space::input && s.index == 0) {
        if ((width && s.width != width) || s.offset % s.width) return false;
        width = s.width;
      }
    for (const MatrixProduct& p : code.products)
      if (code.slots[p.arg].space == Space::input) return false;
    return width && program.tensors[0].row % width == 0 && width == code.loops[0].width;
  }

  // A thread's columns of W x + b: of each gate, or of all of them end to end.
  void project(const Team& team, bool by_gate) {
    const long rows = call.steps * call.batch, columns = program.tensors[0].row, I = call.input;
    const long width = by_gate ? code.loops[0].width : columns;
    long from, to;
    share(team.rank, team.size, width, from, to);
    if (from >= to) return;
    if (few_inputs()) {
      for (long j = 0; j < rows; j++)
        for (long gate = 0; gate < columns; gate += width) project_few(j, gate + from, gate + to);
      return;
    }
    const long first = from / panel<T>, last = ceil_div(to, panel<T>);
    Buffer<T> panels, bias;
    panels.reserve((last - first) * I * panel<T>);
    for (long q = first; q < last; q++) {
      const long n = std::min<long>(panel<T>, columns - q * panel<T>);
      T* own = panels + (q - first) * I * panel<T>;
      if (n < panel<T>) std::fill_n(own, I * panel<T>, T(0));
      transpose<T>(call.weight_ih + q * panel<T> * I, I, n, I, own, panel<T>);
    }
    List<const T*> a(rows);
    List<T*> c(rows);
    for (long j = 0; j < rows; j++) a[j] = call.x + j * I, c[j] = projected + j * columns + from;
    bias.zero((last - first) * panel<T>);
    if (call.bias_ih) std::copy_n(call.bias_ih + from, to - from, T_of(bias));
    const Packed<T> w{panels, I, nullptr, to - from, bias};
    multiply<T>(rows, a.data(), 0, w, 0, last - first, c.data(), Into::store);
  }

  void pack(const Team& team) {
    if (few()) return;
    for (std::size_t i = 0; i < code.products.size(); i++) {
      const MatrixProduct& p = code.products[i];
      const T* weight = tensors[p.tensor] + p.row * p.depth;
      T* to = packed + packed_at[i];
      long from, last;
      team.share(ceil_div(columns(p), panel<T>), from, last);
      if (!p.turned) {
        pack_rows<T>(p.rows, p.depth, [&](long k) { return weight + k * p.depth; }, from, last, to);
        continue;
      }
      for (long q = from; q < last; q++) {
        const long n = std::min<long>(panel<T>, p.rows - q * panel<T>);
        T* own = to + q * p.depth * panel<T>;
        if (n < panel<T>) std::fill_n(own, p.depth * panel<T>, T(0));
        transpose<T>(weight + q * panel<T> * p.depth, p.depth, n, p.depth, own, panel<T>);
      }
    }
  }

  void project_few(long j, long from, long to) const {
    const long I = call.input;
    for (long u = from; u < to; u += lanes<T>) {
      const int count = int(std::min<long>(lanes<T>, to - u));
      Vec<T> sum = dots<T>(call.weight_ih + u * I, I, count, call.x + j * I, I);
      if (call.bias_ih) sum += load_some<T>(call.bias_ih + u, count);
      store_some<T>(projected + j * program.tensors[0].row + u, sum, count);
    }
  }

  // Whether a product may fill the last panel of its result: no other numbers stand there.
  bool whole(const Slot& s) const {
    if (s.offset) return false;
    switch (s.space) {
      case Space::saved: return s.width == program.saved[s.index];
      case Space::temporary: return s.width == code.temporaries[s.index];
      case Space::kept: return s.width == program.kept[s.index];
      case Space::d_old: return s.width == program.states[s.index];
      case Space::now: return layout.states[s.index] >= 0 && s.width == program.states[s.index];
      case Space::d_input: return staged[&s - code.slots.data()] >= 0;
      default: return false;
    }
  }

  void product(Mine& my, const Team& team, int at, long n) const {
    const MatrixProduct& p = code.products[at];
    const Slot& out = code.slots[p.out];
    for (long j = 0; j < n; j++) my.a[j] = row_of(my, j)[p.arg], my.c[j] = row_of(my, j)[p.out];
    long from, to;
    share(team.rank, team.size, out.width, from, to);
    const T* bias = p.bias < 0 ? nullptr : unit_at[p.bias];
    if (few()) {
      const T* weight = tensors[p.tensor] + p.row * p.depth;
      for (long j = 0; j < n; j++)
        for (long u = from; u < to; u += lanes<T>) {
          const int count = int(std::min<long>(lanes<T>, to - u));
          Vec<T> sum = dots<T>(weight + u * p.depth, p.depth, count, my.a[j], p.depth);
          if (bias) sum += load<T>(bias + u);
          store_some<T>(my.c[j] + u, sum, count);
        }
      return;
    }
    const Packed<T> w{packed + packed_at[at], depth(p), nullptr, whole(out) ? plane<T>(out.width) : out.width, bias};
    multiply<T>(n, my.a.data(), 0, w, from / panel<T>, ceil_div(to, panel<T>), my.c.data(), p.add ? Into::add : Into::store);
  }

  // ---- at the end ----

  void finish() const {
    for (long b = 0; b < call.batch; b++) {
      const long length = schedule.length(b), last = schedule.reverse ? 0 : length - 1;
      if (backward) {
        finish_gradients(b, length);
        continue;
      }
      for (long t = length; t < call.steps; t++) std::fill_n(call.output + (t * call.batch + b) * program.states[0], program.states[0], T(0));
      for (long k = 0; k < states; k++) {
        const T* from = length ? new_at(k, last, b) : start + b * state.back() + state[k];
        std::copy_n(from, program.states[k], call.state_n[k] + b * program.states[k]);
      }
    }
    if (!backward) return;
    for (int r = 1; r < call.threads; r++)
      for (long u = 0; u < layout.sums_row; u++) sums[u] += sums[r * layout.sums_row + u];
    if (call.sums) std::copy_n(T_of(sums), layout.sums_row, call.sums);
    for (long k = 0; k < states; k++) {
      if (!call.d_initial[k]) continue;
      std::fill_n(call.d_initial[k], program.states[k], T(0));
      for (long b = 0; call.reset && b < call.batch; b++)
        for (long u = 0; u < program.states[k]; u++) call.d_initial[k][u] += cut[b * state.back() + state[k] + u];
    }
  }

  void finish_gradients(long b, long length) const {
    for (long t = length; t < call.steps; t++) {
      for (std::size_t i = 0; i < program.tensors.size(); i++)
        if (call.d_tensors[i]) std::fill_n(call.d_tensors[i] + (t * call.batch + b) * program.tensors[i].row, program.tensors[i].row, T(0));
      if (call.kept) std::fill_n(call.kept + (t * call.batch + b) * layout.kept_row, layout.kept_row, T(0));
    }
    const long first = schedule.reverse ? length - 1 : 0;
    for (long k = 0; k < states; k++) {
      const T* d = length ? carry_at(k, schedule.before(first), b) : nullptr;
      if (!call.d_state_0[k]) continue;
      T* to = call.d_state_0[k] + b * program.states[k];
      if (d) std::copy_n(d, program.states[k], to);
      else if (call.d_state_n[k]) std::copy_n(call.d_state_n[k] + b * program.states[k], program.states[k], to);
      else std::fill_n(to, program.states[k], T(0));
    }
  }
};

}  // namespace

template <class T>
void program_forward(const StepProgram& program, const ProgramCall<T>& call) {
  Runner<T>(program, call, false).run();
}

template <class T>
void program_backward(const StepProgram& program, const ProgramCall<T>& call) {
  Runner<T>(program, call, true).run();
}

#define INSTANTIATE(T)                                                          \
  template ProgramLayout program_layout<T>(const StepProgram&);                 \
  template void program_forward(const StepProgram&, const ProgramCall<T>&);     \
  template void program_backward(const StepProgram&, const ProgramCall<T>&);
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace carousel
