// A layer whose cell is a program, one direction: the loop over time, forwards and back.
//
// A chunk of steps at a time, W x + b of all its rows is one product, into memory that stays in the cache; then step after
// step. Backwards the chunk's rows of δ stay there in the same way, until their products give ∂L/∂x and the gradients of
// matrices. Threads share the rows of the batch, each alone with its own, or, where there are few rows or much weight, the
// columns of a step, with a barrier after each stage. Sums over rows are taken in one order for a given number of threads.
#include <cstring>

#include "core/gemm.hpp"
#include "core/pool.hpp"
#include "program/gradients.hpp"
#include "program/input.hpp"
#include "program/machine.hpp"
#include "recurrent/layer.hpp"

namespace carousel {

namespace {

constexpr long tile_columns = 256;  // of a loop: a dozen tiles of them fit into the first-level cache
constexpr long most_together = 8;   // rows that an instruction takes at once where they are short

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
ProgramLayout lay_out(const StepProgram& program) {
  ProgramLayout layout;
  long at = 0;
  for (std::size_t k = 0; k < program.states.size(); k++) {
    const bool outside = k == 0 && output_is_state<T>(program);
    layout.states.push_back(outside ? -1 : at);
    if (!outside) at += plane<T>(program.states[k]);
  }
  for (long w : program.saved) layout.saved.push_back(at), at += plane<T>(w);
  layout.saved_row = padded<T>(at + lanes<T>);  // a part at the end of a row may be read by whole vectors
  layout.kept = places<T>(program.kept);
  layout.sums = places<T>(program.sums);
  layout.kept_row = layout.kept.back() + lanes<T>, layout.sums_row = layout.sums.back();
  layout.kept.pop_back(), layout.sums.pop_back();
  const GateRows<T> gates(program.tensors[0].row, program.gate);
  layout.projected_row = gates.row;
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
  const ProgramLayout& layout;
  const Layer<T> layer;
  const Schedule<T> schedule;
  long states;

  Runner(const StepProgram& program, const ProgramCall<T>& call, bool backward)
      : program(program), code(backward ? program.backward : program.forward), call(call), backward(backward),
        layout(program_layout<T>(program)), layer(times(call)), schedule(layer, call.reverse),
        states(long(program.states.size())), chunk(std::max(1L, std::min(call.steps, 512 / std::max(1L, call.batch)))),
        gates(program.tensors[0].row, program.gate),
        input(call, gates, !backward || (reads(Space::input, 0) && !call.projected), few_inputs()),
        gradients(chunk * call.batch), temporary(places<T>(code.temporaries)), state(places<T>(program.states)) {
    const long B = call.batch;
    for (std::size_t i = 0; i < code.slots.size(); i++) {  // rows of tensors that are no whole vectors pass through a copy
      const Slot& s = code.slots[i];
      const bool outside = (s.space == Space::d_input || (s.space == Space::input && kind(s) != Kind::unit)) && s.index != 0;
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
    if (!call.projected && reads(Space::input, 0)) projected.reserve(chunk * B * gates.row);
    memory.reserve(B * temporary.back() + lanes<T>);
    if (backward) {
      carry.zero(2 * B * state.back() + lanes<T>);
      if (call.reset) cut.zero(B * state.back());
      sums.zero(long(call.threads) * std::max(1L, layout.sums_row));
      delta.reserve(chunk * B * gates.row);
      if (!call.kept) kept.reserve(chunk * B * layout.kept_row);
      declare_gradients();
    }
    for (std::size_t k = 0; k < code.constants.size(); k++) {
      constants.emplace_back();
      constants.back().reserve(plane<T>(widest));
      std::fill_n(T_of(constants.back()), plane<T>(widest), T(code.constants[k]));
    }
    copy_units();
    split_products();
  }

  void run() {
    long recurrent = 0;  // numbers of the matrices that every step reads
    for (const MatrixProduct& p : code.products) recurrent += p.rows * p.depth;
    const double rows = double(call.steps) * call.batch;
    const double weights = double(recurrent) + (call.x ? double(program.tensors[0].row) * call.input : 0);
    const double work = rows * (weights + 8.0 * code.instructions.size() * widest);
    int threads = work < double(vector_bytes << 14) && weights * sizeof(T) < double(3 << 18) ? 1 : call.threads;
    const long bytes = recurrent * long(sizeof(T));  // as in recurrent/layer.hpp
    const bool enough = (call.batch >= 4 * threads && bytes <= (700L << 10)) || (call.batch >= 24 * threads && bytes <= (2L << 20));
    split_columns = threads > 1 && !enough && can_split();
    if (!split_columns) threads = int(std::max(1L, std::min<long>(threads, call.batch)));
    own_ends = split_columns && backward && begins_alone();
    Region region;
    Barrier barrier(region, threads);
    region.run(threads, [&](int rank, int size) { work_of(Team{barrier, rank, size}); });
    finish();
  }

 private:
  // A product as it runs: a part of one of the program's, whose argument begins `shift` further.
  struct Part {
    MatrixProduct p;
    long shift, packed_at;
  };

  const long chunk;  // steps
  const GateRows<T> gates;
  InputProduct<T> input;
  Gradients<T> gradients;
  std::vector<int> delta_slots, arg_slots;  // of `gradients`
  Buffer<T> projected, delta, kept;  // (rows of a chunk, ·): W x + b, its gradient, and what the backward step keeps
  std::vector<long> temporary, state;  // where planes begin in a row of temporaries; in one of all states
  std::vector<long> staged;            // of a slot: its copy in the row of temporaries, or −1
  bool stages_rows = false, split_columns = false;
  bool own_ends = false;  // a backward step begins with what the thread itself left
  long widest;
  Buffer<T> start, initial;  // (B, states), (states)
  Buffer<T> ring;            // (2, B, saved_row): in a call that saves nothing the states of two steps
  Buffer<T> memory;          // (B, temporaries)
  Buffer<T> carry, cut;      // (2, B, states), (B, states): ∂L/∂(state after t) at t & 1; what resets sent to the initial state
  Buffer<T> sums;            // (threads, sums_row)
  Buffer<T> packed;          // the matrices of the products
  std::deque<Buffer<T>> constants, units;
  std::vector<T*> unit_at;   // of a slot of a unit: its numbers
  std::vector<std::vector<Part>> parts;  // of each product

  static T* T_of(const Buffer<T>& b) { return b; }
  Kind kind_of(std::size_t tensor) const { return program.tensors[tensor].kind; }
  Kind kind(const Slot& s) const { return kind_of(s.index); }
  // Few rows do not pay for packing: `dots` reads the matrices as they are. In a batch of one every product has one row.
  bool few() const { return !backward && (few_rows(call.steps * call.batch) || (call.batch == 1 && one_row_unpacked<T>(call.steps))); }
  bool few_inputs() const {
    return few_rows(call.steps * call.batch) || (whole_dots<T> && call.batch == 1 && call.steps <= few_steps);
  }
  bool reads(Space space, long index) const {
    for (const Slot& s : code.slots)
      if (s.space == space && s.index == index) return true;
    return false;
  }
  static long columns(const MatrixProduct& p) { return p.turned ? p.rows : p.depth; }
  static long depth(const MatrixProduct& p) { return p.turned ? p.depth : p.rows; }

  static Layer<T> times(const ProgramCall<T>& call) {
    Layer<T> layer;
    layer.steps = call.steps, layer.batch = call.batch, layer.lengths = call.lengths, layer.reset = call.reset;
    return layer;
  }

  // Whether threads may share the columns: each must find in its own what its loops need, or behind a barrier. Numbers that
  // a row has one of are computed by every thread for itself, which pays where there are fewer rows than threads.
  bool can_split() const {
    if (stages_rows || layout.states[0] >= 0) return false;
    bool numbers = false;
    for (const Reduction& r : code.reductions) {
      if (Opcode(r.op) == Opcode::copy) return false;
      numbers = true;
    }
    for (const Loop& loop : code.loops) numbers |= loop.width == 1;
    for (const MatrixProduct& p : code.products)
      if (code.slots[p.out].width == 1) return false;
    if (numbers && call.batch >= call.threads) return false;
    for (long width : program.states)
      if (numbers && width == 1) return false;
    for (const Instruction& i : code.instructions)
      if ((Opcode(i.op) == Opcode::splat && !is_number(i.a)) || (takes_scalar(Opcode(i.op)) && !is_number(i.b))) return false;
    for (const Slot& s : code.slots) {
      const bool gate = (s.space == Space::input || s.space == Space::d_input) && s.index == 0;
      if (is_shared(s) && gate && s.offset % program.gate) return false;
      if (is_shared(s) && !gate && (s.offset || s.width != width_of(s)) && (s.width == 1 || s.offset % panel<T> || s.width % lanes<T>)) return false;
    }
    for (const StepStage& stage : code.stages)
      if (!has_own_columns(stage)) return false;
    return true;
  }

  // In memory that all threads see.
  bool is_shared(const Slot& s) const {
    return s.space != Space::reg && s.space != Space::constant && s.space != Space::sum && !(s.space == Space::input && kind(s) == Kind::unit);
  }
  // One number of a row, or the same in all rows.
  bool is_number(int at) const { return !is_shared(code.slots[at]) || code.slots[at].width == 1; }

  long width_of(const Slot& s) const {
    switch (s.space) {
      case Space::saved: return program.saved[s.index];
      case Space::temporary: return code.temporaries[s.index];
      case Space::kept: return program.kept[s.index];
      case Space::input: case Space::d_input: return program.tensors[s.index].row;
      default: return program.states[s.index];
    }
  }

  // Whether what a stage writes is read in it only by the thread that wrote it.
  bool has_own_columns(const StepStage& stage) const {
    struct Use {
      int slot;
      bool whole, written;  // all of its columns; or else a thread's share
    };
    std::vector<Use> uses;
    for (int i = stage.products[0]; i < stage.products[1]; i++) {
      uses.push_back({code.products[i].arg, true, false}), uses.push_back({code.products[i].out, false, true});
      if (code.products[i].bias >= 0) uses.push_back({code.products[i].bias, false, false});
    }
    for (int i = stage.reductions[0]; i < stage.reductions[1]; i++) {
      const Reduction& r = code.reductions[i];
      uses.push_back({r.arg, true, false}), uses.push_back({r.out, false, true});
      if (Opcode(r.op) == Opcode::dot) uses.push_back({r.other, true, false});
    }
    for (int l = stage.loops[0]; l < stage.loops[1]; l++)
      for (int i = code.loops[l].first; i < code.loops[l].last; i++) {
        const Instruction& of = code.instructions[i];
        uses.push_back({of.out, false, true});
        for (int operand : {of.a, of.b, of.c})
          if (operand >= 0) uses.push_back({operand, false, false});
      }
    for (const Use& w : uses)
      for (const Use& u : uses) {
        const Slot &to = code.slots[w.slot], &from = code.slots[u.slot];
        if (!w.written || !is_shared(to) || to.space != from.space || to.index != from.index) continue;
        const bool apart = to.offset + to.width <= from.offset || from.offset + from.width <= to.offset;
        const bool same = to.offset == from.offset && to.width == from.width;
        if (to.width > 1 && !apart && (u.whole || !same)) return false;
      }
    return true;
  }

  // A number of a row that this step computes: one thread has it in its place, the others for themselves.
  bool is_own_number(const Slot& s) const {
    const bool made = s.space == Space::temporary || s.space == Space::kept || s.space == Space::sum || s.space == Space::d_input;
    return s.width == 1 && (made || (s.space == Space::saved && !backward));
  }

  // Whether threads that share the columns need not wait for one another between two backward steps: the first stage reads
  // only columns that the same thread wrote, and writes nothing that the last one reads of other threads' columns.
  bool begins_alone() const {
    const StepStage &first = code.stages.front(), &last = code.stages.back();
    auto has = [](const int* range) { return range[0] < range[1]; };
    if (call.reset || has(first.products) || has(first.reductions) || has(last.reductions)) return false;
    for (const Slot& s : code.slots)
      if ((s.space == Space::d_new || s.space == Space::d_old) && s.width != program.states[s.index]) return false;
    for (const Loop& loop : code.loops)
      if (has(last.loops) && loop.width != program.states[0]) return false;
    for (const Slot& s : code.slots)
      if (has(last.loops) && s.space == Space::temporary && s.width != width_of(s)) return false;
    for (int i = last.products[0]; i < last.products[1]; i++) {
      const Space arg = code.slots[code.products[i].arg].space;
      if (arg == Space::temporary || arg == Space::d_new || arg == Space::d_old) return false;
    }
    return true;
  }

  // Gates may lie apart in memory: a product with several of them is then one for each.
  void split_products() {
    long panels = 0;
    for (const MatrixProduct& p : code.products) {
      parts.emplace_back();
      const Slot& arg = code.slots[p.arg];
      const bool apart = arg.space == Space::d_input && arg.index == 0 && !gates.contiguous() && arg.width > gates.gate;
      for (long at = 0; at < (apart ? arg.width : 1); at += gates.gate) {
        Part part{p, apart ? gates.at(arg.offset + at) - gates.at(arg.offset) : 0, panels};
        if (apart) part.p.row += at, part.p.rows = gates.gate, part.p.add |= at > 0;
        if (!few()) panels += ceil_div(columns(part.p), panel<T>) * depth(part.p) * panel<T>;
        parts.back().push_back(part);
      }
    }
    if (!few()) packed.reserve(std::max(1L, panels));
  }

  // Sums over all rows, in what receives them; each set of rows of δ and each argument is listed once.
  void declare_gradients() {
    auto zero = [](T* p, long n) {
      if (p) std::fill_n(p, n, T(0));
    };
    for (std::size_t k = 0; k < program.tensors.size(); k++)
      if (program.tensors[k].kind == Kind::unit) zero(call.d_tensors[k], program.tensors[k].row);
    zero(call.d_weight_ih, program.tensors[0].row * call.input), zero(call.d_bias_ih, program.tensors[0].row);
    auto position = [](std::vector<int>& all, int at, auto same) {
      for (std::size_t k = 0; k < all.size(); k++)
        if (same(all[k])) return k;
      all.push_back(at);
      return all.size() - 1;
    };
    auto same_rows = [&](int at) {
      return [this, at](int other) {
        return other >= 0 && at >= 0 ? code.slots[at].space == code.slots[other].space && code.slots[at].index == code.slots[other].index : other == at;
      };
    };
    // δ in slot `at`, a gate at a time; −1 stands for that of all gates, and as an argument for x
    auto each_gate = [&](int at, auto use) {
      const bool input = at < 0 || (code.slots[at].space == Space::d_input && code.slots[at].index == 0);
      const long offset = at < 0 ? 0 : code.slots[at].offset, width = at < 0 ? program.tensors[0].row : code.slots[at].width;
      const std::size_t k = position(delta_slots, input ? -1 : at, same_rows(input ? -1 : at));
      const long step = input && !gates.contiguous() ? gates.gate : width;
      for (long done = 0; done < width; done += step)
        use(k, input ? gates.at(offset + done) : offset, done, std::min(step, width - done));
    };
    auto matrix = [&](int at, int arg, T* to, long depth) {
      if (!to) return;
      const std::size_t place = position(arg_slots, arg, [&](int other) { return other == arg; });
      each_gate(at, [&](std::size_t k, long column, long row, long rows) {
        gradients.matrices.push_back({k, place, column, rows, to + row * depth});
      });
    };
    auto vector = [&](int at, T* to) {
      if (!to) return;
      each_gate(at, [&](std::size_t k, long column, long row, long rows) { gradients.vectors.push_back({k, column, rows, to + row}); });
    };
    for (const MatrixGradient& m : code.matrices) {
      const long depth = code.slots[m.arg].width;
      matrix(m.delta, m.arg, call.d_tensors[m.tensor] ? call.d_tensors[m.tensor] + m.row * depth : nullptr, depth);
    }
    for (const VectorGradient& v : code.vectors) vector(v.delta, call.d_tensors[v.tensor] ? call.d_tensors[v.tensor] + v.start : nullptr);
    if (call.x) matrix(-1, -1, call.d_weight_ih, call.input), vector(-1, call.d_bias_ih);
    for (int at : delta_slots) gradients.deltas.push_back({{}, at < 0 ? gates.gates * gates.plane : row_of_delta(at)});
    for (int at : arg_slots) gradients.args.emplace_back(), gradients.widths.push_back(at < 0 ? call.input : code.slots[at].width);
    gradients.reserve();
  }

  // Numbers of a row of the tensor or the planes that a slot of δ is a part of: its offset counts from their beginning.
  long row_of_delta(int at) const {
    const Slot& s = code.slots[at];
    return s.space == Space::kept ? program.kept[s.index] : program.tensors[s.index].row;
  }

  // Vectors that all rows share: copies where the last vector of one is not whole.
  void copy_units() {
    for (std::size_t i = 0; i < code.slots.size(); i++) {
      const Slot& s = code.slots[i];
      unit_at.push_back(nullptr);
      if (s.space != Space::input || kind(s) != Kind::unit) continue;
      const T* from = call.tensors[s.index] + s.offset;
      if (s.width % panel<T> == 0) {
        unit_at[i] = const_cast<T*>(from);  // only read
        continue;
      }
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
    const long row = kind(s) == Kind::step ? t * call.batch + b : kind(s) == Kind::time ? t : b;
    return base + row * program.tensors[s.index].row + s.offset;
  }

  // How the place of a slot changes: it is the same for all rows, or for all steps of a row; it moves on by the same
  // distance with every step; it is a row of the chunk; it is one of two, in turn; or else it must be looked up.
  enum class Moves { never, by_row, evenly, in_chunk, in_turn, freely };

  Moves moves(std::size_t i) const {
    const Slot& s = code.slots[i];
    switch (s.space) {
      case Space::reg: case Space::constant: case Space::sum: return Moves::never;
      case Space::input: case Space::d_input:
        if (s.index == 0) return s.space == Space::input && call.projected ? Moves::evenly : Moves::in_chunk;
        return unit_at[i] ? Moves::never : staged[i] >= 0 || kind(s) == Kind::sequence ? Moves::by_row : Moves::evenly;
      case Space::temporary: return Moves::by_row;
      case Space::d_new: case Space::d_old: return Moves::in_turn;
      case Space::kept: return call.kept ? Moves::evenly : Moves::in_chunk;
      case Space::now: return call.saved || layout.states[s.index] < 0 ? Moves::evenly : Moves::freely;
      case Space::saved: return call.saved ? Moves::evenly : Moves::freely;
      default: return Moves::freely;
    }
  }

  // From step to step, of a slot that moves evenly.
  long distance(std::size_t i) const {
    const Slot& s = code.slots[i];
    const bool outside = s.space == Space::now && layout.states[s.index] < 0;
    if (s.space == Space::input && kind(s) == Kind::time) return program.tensors[s.index].row;
    return call.batch * (s.space == Space::kept                     ? layout.kept_row
                         : s.space == Space::input && s.index == 0 ? gates.row
                         : outside              ? program.states[0]
                         : s.space == Space::now || s.space == Space::saved ? layout.saved_row
                                                                            : program.tensors[s.index].row);
  }

  // Of a slot in the chunk: its place in row 0, and the length of a row.
  T* chunk_place(const Slot& s, long& row) const {
    row = s.space == Space::kept ? layout.kept_row : gates.row;
    if (s.space == Space::kept) return kept + layout.kept[s.index] + s.offset;
    return (s.space == Space::input ? T_of(projected) : T_of(delta)) + gates.at(s.offset);
  }

  // Of a slot that is not in the chunk.
  T* place(std::size_t i, long t, long b) const {
    const Slot& s = code.slots[i];
    T* own = memory + b * temporary.back();
    if (staged[i] >= 0) return own + staged[i];
    switch (s.space) {
      case Space::input:
        if (s.index == 0) return call.projected + (t * call.batch + b) * gates.row + gates.at(s.offset);
        return tensor_at(s, const_cast<T*>(call.tensors[s.index]), t, b);  // only read
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
    List<long> rows, position, all;  // batch indices, where they stand among all; rows of every thread
    List<T*> places;       // (rows, slots)
    List<int> free, even;  // slots whose place moves freely, and evenly
    List<int> copied;      // slots that pass through a copy
    List<int> chunked;     // slots of rows of the chunk
    List<int> turns;       // slots whose place is one of two
    List<T*> both;         // (rows, those, 2): at even and at odd times
    List<long> distance;   // of the even ones
    List<T*> first;        // (rows, even ones): at time 0
    List<std::ptrdiff_t> ahead[2];  // of each slot: bytes from a usual step to the next one, at an even and at an odd time
    List<T*> chunk_first;  // of the slots of the chunk: in its first row
    List<long> chunk_row;  // and the length of a row
    List<long> offset;     // of each step of the chunk: its first row
    Buffer<T> registers, numbers;
    List<const T*> a;
    List<T*> c;
  };

  T** row_of(Mine& my, long j) const { return my.places.data() + j * long(code.slots.size()); }

  void prepare(Mine& my, const Team& team) const {
    my.rows = split_columns ? schedule.rows(0, 1, &my.position) : schedule.rows(team.rank, team.size, &my.position);
    my.all = schedule.rows(0, 1);
    const long slots = long(code.slots.size()), n = long(my.rows.size()), width = plane<T>(widest);
    my.places.resize(n * slots);
    my.a.resize(n), my.c.resize(n);
    my.registers.reserve(std::max(1L, most_together * code.registers * width));
    if (split_columns && team.rank) my.numbers.zero(slots * n * plane<T>(1));
    for (long i = 0; i < slots; i++) {
      if (split_columns && team.rank && is_own_number(code.slots[i])) {
        for (long j = 0; j < n; j++) row_of(my, j)[i] = my.numbers + (i * n + j) * plane<T>(1);
        continue;
      }
      if (staged[i] >= 0) my.copied.push_back(int(i));
      const Moves how = moves(i);
      if (how == Moves::freely) my.free.push_back(int(i));
      if (how == Moves::in_turn) my.turns.push_back(int(i));
      if (how == Moves::evenly) my.even.push_back(int(i)), my.distance.push_back(distance(i));
      if (how == Moves::in_chunk) {
        my.chunked.push_back(int(i));
        my.chunk_row.push_back(0);
        my.chunk_first.push_back(chunk_place(code.slots[i], my.chunk_row.back()));
      }
      const Slot& s = code.slots[i];
      T* at = s.space == Space::reg        ? T_of(my.registers)
              : s.space == Space::constant ? T_of(constants[s.index])
              : s.space == Space::sum      ? sums + team.rank * layout.sums_row + layout.sums[s.index] + s.offset
                                           : unit_at[i];
      for (long j = 0; j < n; j++)
        if (how == Moves::never || how == Moves::by_row) row_of(my, j)[i] = at ? at : place(i, 0, my.rows[j]);
      for (long j = 0; j < n && s.space == Space::reg; j++)  // of their own for rows that run together
        row_of(my, j)[i] = my.registers + (j % most_together * code.registers + s.index) * width;
    }
    for (long j = 0; j < n; j++)
      for (int i : my.even) my.first.push_back(place(i, 0, my.rows[j]));
    for (long j = 0; j < n; j++)
      for (int i : my.turns)
        for (long t : {0, 1}) my.both.push_back(place(i, t, my.rows[j]));
    if (is_regular() && n) {
      List<T*> at[3];  // in the second step and the two after it
      for (long k = 0; k < 3; k++) {
        at[k].assign(row_of(my, 0), row_of(my, 0) + slots);
        find(my, 0, schedule.time(k + 1), k + 1, (k + 1) * call.batch, at[k].data());
      }
      for (long k = 0; k < 2; k++) {
        const long from = k + (backward ? 1 : 0), to = k + (backward ? 0 : 1);
        for (long i = 0; i < slots; i++)
          my.ahead[schedule.time(to + 1) & 1].push_back(std::ptrdiff_t(reinterpret_cast<std::uintptr_t>(at[to][i]) - reinterpret_cast<std::uintptr_t>(at[from][i])));
      }
    }
  }

  // Whether each step finds what it reads and writes as far from the one before as the next one, but for the first step.
  bool is_regular() const { return !call.lengths && !call.reset && chunk >= 4; }

  void work_of(const Team& team) {
    Mine my;
    prepare(my, team);
    input.pack(team);
    pack(team);
    team.sync();
    const Team inner{team.barrier, split_columns ? team.rank : 0, split_columns ? team.size : 1};
    if (backward) begin_carry(my, inner);
    const long chunks = ceil_div(call.steps, chunk);
    for (long k = 0; k < chunks; k++) {
      const long s0 = (backward ? chunks - 1 - k : k) * chunk, s1 = std::min(call.steps, s0 + chunk);
      const long total = list_rows(my, s0, s1);
      project(my, inner, s0, s1);
      for (long s = backward ? s1 - 1 : s0; s0 <= s && s < s1; s += backward ? -1 : 1) step(my, inner, s, s0);
      if (backward) end_chunk(my, team, s0, s1, total);
    }
  }

  void step(Mine& my, const Team& inner, long s, long s0) {
    const long t = schedule.time(s), n = schedule.active(my.rows, t);
    const bool chunk_begins = s == (backward ? std::min(call.steps, s0 + chunk) - 1 : s0);
    if (is_regular() && !chunk_begins && s > (backward ? 0 : 1)) advance(my, n, t);
    else
      for (long j = 0; j < n; j++) find(my, j, t, s - s0, my.offset[s - s0], row_of(my, j));
    for (long j = 0; j < n; j++) enter(my, inner, j, t);
    if (backward && !own_ends) inner.sync();
    const bool last = backward ? own_ends : s + 1 == call.steps;  // nothing follows that other threads read
    for (const StepStage& stage : code.stages) {
      run_stage(my, inner, stage, n);
      if (!last || &stage != &code.stages.back()) inner.sync();
    }
    if (!split_columns) leave(my, t, n);
    else if (backward && call.reset) {
      send_cuts(my, inner.rank, inner.size, t, n);
      inner.sync();
    }
  }

  // The rows of a chunk in the order of its steps, in a step the longest sequence first, without gaps; their number. Rows of
  // W x + b have gaps instead: the same of them belong to a thread in every chunk, and no thread waits for another.
  long list_rows(Mine& my, long s0, long s1) const {
    long total = 0;
    my.offset.clear();
    for (long s = s0; s < s1; s++) my.offset.push_back(total), total += schedule.active(my.all, schedule.time(s));
    return total;
  }

  // What follows the steps of a chunk: ∂L/∂x, sums over its rows, and δ where the caller wants it.
  void end_chunk(const Mine& my, const Team& team, long s0, long s1, long total) {
    team.sync();
    List<long> times, batch, places;  // of each row; the last of W x + b
    for (long s = s0; s < s1; s++) {
      const long t = schedule.time(s), n = schedule.active(my.all, t);
      for (long j = 0; j < n; j++) times.push_back(t), batch.push_back(my.all[j]), places.push_back((s - s0) * call.batch + j);
    }
    if (team.rank == 0) list_gradients(times, batch, places);
    long from, to;
    team.share(total, from, to);
    if (call.d_x) {
      List<const T*> rows;
      List<T*> d_x;
      for (long r = from; r < to; r++) rows.push_back(delta + r * gates.row), d_x.push_back(call.d_x + (times[r] * call.batch + batch[r]) * call.input);
      input.backward(to - from, rows.data(), d_x.data());
    }
    for (long r = from; call.d_tensors[0] && r < to; r++)
      for (long q = 0; q < gates.gates; q++)
        std::copy_n(delta + r * gates.row + q * gates.plane, gates.gate,
                    call.d_tensors[0] + ((times[r] * call.batch + batch[r]) * gates.gates + q) * gates.gate);
    team.sync();
    gradients.add(team, total);
  }

  void list_gradients(const List<long>& times, const List<long>& batch, const List<long>& places) {
    for (std::size_t k = 0; k < delta_slots.size(); k++) {
      List<const T*>& rows = gradients.deltas[k].rows;
      rows.clear();
      for (std::size_t r = 0; r < times.size(); r++) rows.push_back(delta_row(delta_slots[k], long(r), times[r], batch[r]));
    }
    for (std::size_t k = 0; k < arg_slots.size(); k++) {
      List<const T*>& rows = gradients.args[k];
      rows.clear();
      for (std::size_t r = 0; r < times.size(); r++) rows.push_back(arg_row(arg_slots[k], long(r), places[r], times[r], batch[r]));
    }
  }

  const T* delta_row(int at, long r, long t, long b) const {
    if (at < 0) return delta + r * gates.row;
    const Slot& s = code.slots[at];
    if (s.space == Space::kept) return (call.kept ? call.kept + (t * call.batch + b) * layout.kept_row : kept + r * layout.kept_row) + layout.kept[s.index];
    return call.d_tensors[s.index] + (t * call.batch + b) * program.tensors[s.index].row;
  }

  const T* arg_row(int at, long r, long place_of_input, long t, long b) const {
    if (at < 0) return call.x + (t * call.batch + b) * call.input;
    const Slot& s = code.slots[at];
    if (moves(std::size_t(at)) == Moves::in_chunk) {
      long row;
      const T* first = chunk_place(s, row);
      return first + (s.space == Space::input ? place_of_input : r) * row;
    }
    if (s.space == Space::input && s.index) return tensor_at(s, const_cast<T*>(call.tensors[s.index]), t, b);  // no copy of it
    return place(std::size_t(at), t, b);
  }

  // A thread's columns of a row.
  static void share(int rank, int size, long width, long& from, long& to) {
    const long panels = ceil_div(width, panel<T>);
    from = panels * rank / size * panel<T>;
    to = std::min(width, panels * (rank + 1) / size * panel<T>);
  }

  // Where the slots of a row are in a step: the step's number in the chunk, the first of its rows there.
  void find(const Mine& my, long j, long t, long step, long offset, T** places) const {
    const long b = my.rows[j], input_row = step * call.batch + my.position[j], row = offset + my.position[j];
    const std::size_t even = my.even.size();
    for (std::size_t k = 0; k < my.chunked.size(); k++) {
      const bool is_input = code.slots[my.chunked[k]].space == Space::input;
      places[my.chunked[k]] = my.chunk_first[k] + (is_input ? input_row : row) * my.chunk_row[k];
    }
    for (std::size_t k = 0; k < even; k++) places[my.even[k]] = my.first[j * even + k] + t * my.distance[k];
    const std::size_t turns = my.turns.size();
    for (std::size_t k = 0; k < turns; k++) places[my.turns[k]] = my.both[2 * (j * turns + k) + (t & 1)];
    for (int i : my.free) places[i] = place(i, t, b);
  }

  // The same from the step before, where both are usual.
  void advance(Mine& my, long n, long t) const {
    const std::size_t slots = code.slots.size();
    const std::ptrdiff_t* ahead = my.ahead[t & 1].data();
    for (long j = 0; j < n; j++) {
      T** places = row_of(my, j);
      for (std::size_t i = 0; i < slots; i++) places[i] = reinterpret_cast<T*>(reinterpret_cast<char*>(places[i]) + ahead[i]);
    }
  }

  // What a step of a row begins with: copies of what is no whole vectors, and ∂L/∂(output).
  void enter(Mine& my, const Team& team, long j, long t) const {
    const long b = my.rows[j];
    T** places = row_of(my, j);
    for (int i : my.copied) {
      const Slot& s = code.slots[i];
      if (s.space == Space::input) std::copy_n(tensor_at(s, const_cast<T*>(call.tensors[s.index]), t, b), s.width, places[i]);
    }
    if (!backward || !call.d_output) return;
    long from, to;
    share(team.rank, team.size, program.states[0], from, to);
    T* d = carry_at(0, t, b);
    const T* out = call.d_output + (t * call.batch + b) * program.states[0];
    for (long u = from; u < to; u++) d[u] += out[u];
  }

  void leave(Mine& my, long t, long n) const {
    if (!backward && layout.states[0] >= 0)
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
    for (int i = stage.products[0]; i < stage.products[1]; i++) product(my, team, i, n);  // no reduction reads what they give
    for (int i = stage.reductions[0]; i < stage.reductions[1]; i++) {
      const Reduction& r = code.reductions[i];
      for (long j = 0; j < n; j++) {
        const T* arg = row_of(my, j)[r.arg];
        T* out = row_of(my, j)[r.out];
        if (Opcode(r.op) == Opcode::copy) std::copy_n(arg, code.slots[r.arg].width, out);
        else if (Opcode(r.op) == Opcode::dot) out[0] = dot<T>(arg, row_of(my, j)[r.other], code.slots[r.arg].width);
        else out[0] = reduce<T>(r.op, arg, code.slots[r.arg].width);
      }
    }
    const Instruction* all = code.instructions.data();
    for (int i = stage.loops[0]; i < stage.loops[1]; i++) {
      const Loop& loop = code.loops[i];
      long from = 0, to = 1;
      if (loop.width > 1) share(team.rank, team.size, loop.width, from, to);
      const long together = from < to ? std::min(most_together, std::max(1L, tile_columns / (to - from))) : 1;
      for (long j = 0; j < n; j += together)
        for (long u = from; u < to; u += tile_columns)
          execute<T>(all + loop.first, all + loop.last, row_of(my, j), long(code.slots.size()), std::min(together, n - j), u,
                     std::min(tile_columns, to - u));
    }
  }

  // ---- products ----

  // W x + b of a chunk's rows, or copies of what was given in its place. Threads that share the columns of a step share
  // those of the product, too.
  void project(Mine& my, const Team& team, long s0, long s1) const {
    if (!reads(Space::input, 0) || (backward && call.projected)) return;
    List<const T*> x;
    List<T*> to;
    for (long s = s0; s < s1; s++) {
      const long t = schedule.time(s), n = schedule.active(my.rows, t);
      for (long j = 0; j < n; j++) {
        const long at = t * call.batch + my.rows[j];
        x.push_back(call.x ? call.x + at * call.input : call.tensors[0] + at * program.tensors[0].row);
        to.push_back(call.projected ? call.projected + at * gates.row : projected + ((s - s0) * call.batch + my.position[j]) * gates.row);
      }
    }
    const long n = long(x.size());
    long from, until;
    if (!call.x) {
      team.share(n, from, until);
      for (long j = from; j < until; j++)
        for (long q = 0; q < gates.gates; q++) std::copy_n(x[j] + q * gates.gate, gates.gate, to[j] + q * gates.plane);
    } else if (few_inputs()) {
      share(team.rank, team.size, gates.gate, from, until);
      input.forward_few(n, x.data(), to.data(), from, until);
      if (own_columns()) return;
    } else {
      team.share(input.panels(), from, until);
      input.forward(n, x.data(), to.data(), from, until);
    }
    team.sync();
  }

  // Whether each thread reads W x + b only where it made it, with the weights as they are.
  bool own_columns() const {
    for (const Slot& s : code.slots)
      if (s.space == Space::input && s.index == 0 && s.width != program.gate) return false;
    for (const MatrixProduct& p : code.products)
      if (code.slots[p.arg].space == Space::input) return false;
    for (const Reduction& r : code.reductions)
      if (code.slots[r.arg].space == Space::input || (r.other >= 0 && code.slots[r.other].space == Space::input)) return false;
    return true;
  }

  void pack(const Team& team) {
    if (few()) return;
    for (const auto& product : parts)
      for (const Part& part : product) {
        const MatrixProduct& p = part.p;
        const T* weight = call.tensors[p.tensor] + p.row * p.depth;
        T* to = packed + part.packed_at;
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
    for (const Part& part : parts[at]) {
      const MatrixProduct& p = part.p;
      const Slot& out = code.slots[p.out];
      for (long j = 0; j < n; j++) my.a[j] = row_of(my, j)[p.arg] + part.shift, my.c[j] = row_of(my, j)[p.out];
      long from, to;
      share(team.rank, team.size, out.width, from, to);
      const T* bias = p.bias < 0 ? nullptr : unit_at[p.bias];
      if (few()) {
        const T* weight = call.tensors[p.tensor] + p.row * p.depth;
        for (long j = 0; j < n; j++)
          for (long u = from; u < to; u += lanes<T>) {
            const int count = int(std::min<long>(lanes<T>, to - u));
            Vec<T> sum = dots<T>(weight + u * p.depth, p.depth, count, my.a[j], p.depth);
            if (bias) sum += load<T>(bias + u);
            store_some<T>(my.c[j] + u, sum, count);
          }
        continue;
      }
      const Packed<T> w{packed + part.packed_at, depth(p), nullptr, whole(out) ? plane<T>(out.width) : out.width, bias};
      multiply<T>(n, my.a.data(), 0, w, from / panel<T>, ceil_div(to, panel<T>), my.c.data(), p.add ? Into::add : Into::store);
    }
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
    for (const SumTarget& to : program.targets)
      for (long u = 0; call.d_tensors[to.tensor] && u < program.sums[to.sum]; u++)
        call.d_tensors[to.tensor][to.start + u] += sums[layout.sums[to.sum] + u];
    for (long k = 0; k < states; k++) {
      if (!call.d_initial[k]) continue;
      std::fill_n(call.d_initial[k], program.states[k], T(0));
      for (long b = 0; call.reset && b < call.batch; b++)
        for (long u = 0; u < program.states[k]; u++) call.d_initial[k][u] += cut[b * state.back() + state[k] + u];
    }
  }

  void finish_gradients(long b, long length) const {
    for (long t = length; t < call.steps; t++) {
      if (call.d_x) std::fill_n(call.d_x + (t * call.batch + b) * call.input, call.input, T(0));
      for (std::size_t i = 0; i < program.tensors.size(); i++)
        if (kind_of(i) == Kind::step && call.d_tensors[i]) std::fill_n(call.d_tensors[i] + (t * call.batch + b) * program.tensors[i].row, program.tensors[i].row, T(0));
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
  template ProgramLayout lay_out<T>(const StepProgram&);                        \
  template void program_forward(const StepProgram&, const ProgramCall<T>&);     \
  template void program_backward(const StepProgram&, const ProgramCall<T>&);
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace carousel
