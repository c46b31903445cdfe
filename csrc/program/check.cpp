// Programs are read and checked: nothing else looks at indices again.
#include <algorithm>
#include <stdexcept>

#include "program/program.hpp"

namespace carousel {

namespace {

constexpr int operands[] = {
#define CAROUSEL_OPERANDS(name, count) count,
    CAROUSEL_OPCODES(CAROUSEL_OPERANDS)
#undef CAROUSEL_OPERANDS
};
constexpr long most = 1L << 31;  // of any width or count: products of two fit into a long

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("program: ") + what);
}

class Reader {
 public:
  Reader(const StepProgram& program, const EncodedCode& from, bool backward, StepCode& code)
      : program(program), backward(backward), code(code) {
    code.constants = std::get<1>(from);
    code.registers = std::get<2>(from);
    code.temporaries = std::get<3>(from);
    require(0 <= code.registers && code.registers < 4096, "too many registers");
    widths(code.temporaries);
    for (const auto& s : std::get<0>(from)) add_slot(s);
    for (const auto& line : std::get<4>(from)) read(line);
    close();
  }

  static void widths(const std::vector<long>& all) {
    for (long w : all) require(0 < w && w < most, "a width that cannot be");
  }

 private:
  enum Line : long { stage, product, reduce, loop, instruction, gradient, total };

  const StepProgram& program;
  const bool backward;
  StepCode& code;
  std::vector<bool> written;  // registers of the loop at hand

  void add_slot(const std::array<long, 4>& s) {
    require(0 <= s[0] && s[0] <= long(Space::kept), "a slot in no space");
    const Slot slot{Space(s[0]), s[1], s[2], s[3]};
    const long size = size_of(slot.space, slot.index);
    if (size >= 0)
      require(slot.offset >= 0 && slot.width > 0 && slot.width < most && slot.offset <= size - slot.width, "a slot that is larger than its plane");
    if (of_gates(slot)) {
      const long gate = program.gate;
      const bool whole = slot.offset % gate == 0 && slot.width % gate == 0;
      require(whole || slot.offset / gate == (slot.offset + slot.width - 1) / gate, "a part of several gates");
    }
    code.slots.push_back(slot);
  }

  // Numbers of a row in a space; −1: as many as a loop has.
  long size_of(Space space, long index) const {
    auto at = [&](const std::vector<long>& all) {
      require(0 <= index && index < long(all.size()), "a slot that is not there");
      return all[index];
    };
    switch (space) {
      case Space::reg: require(0 <= index && index < code.registers, "a register that is not there"); return -1;
      case Space::constant:
        require(0 <= index && index < long(code.constants.size()), "a constant that is not there");
        return -1;
      case Space::input: case Space::d_input:
        require(0 <= index && index < long(program.tensors.size()), "a tensor that is not there");
        require(space == Space::input || (backward && program.tensors[index].kind == Kind::step), "no gradient of that");
        return program.tensors[index].row;
      case Space::old: case Space::now: return at(program.states);
      case Space::d_new: case Space::d_old: require(backward, "a gradient in a forward step"); return at(program.states);
      case Space::saved: return at(program.saved);
      case Space::temporary: return at(code.temporaries);
      case Space::sum: require(backward, "a sum in a forward step"); return at(program.sums);
      case Space::kept: require(backward, "a kept plane in a forward step"); return at(program.kept);
    }
    throw std::invalid_argument("program: no such space");
  }

  const Slot& slot(long at) const {
    require(0 <= at && at < long(code.slots.size()), "a slot that is not there");
    return code.slots[at];
  }
  const Slot& memory(long at) const {
    const Slot& s = slot(at);
    require(s.space != Space::reg && s.space != Space::constant && s.space != Space::sum, "a product or reduction of no row");
    return s;
  }
  // Gates lie apart in memory.
  static bool of_gates(const Slot& s) { return (s.space == Space::input || s.space == Space::d_input) && s.index == 0; }
  bool several_gates(const Slot& s) const { return of_gates(s) && s.width > program.gate; }
  const Slot& row(long at) const {
    const Slot& s = memory(at);
    require(!several_gates(s), "several gates as one row");
    return s;
  }
  const Slot& delta(long at) const {
    const Slot& s = slot(at);
    require(s.space == Space::d_input || s.space == Space::kept, "a gradient of what is not kept");
    return s;
  }
  // Numbers of a tensor that all sequences share.
  long shared(long at) const {
    require(0 <= at && at < long(program.tensors.size()) && program.tensors[at].kind == Kind::unit, "no tensor that all sequences share");
    return program.tensors[at].row;
  }
  void check_out(const Slot& s) const {
    const bool ahead = s.space == Space::now || s.space == Space::saved;
    const bool back = s.space == Space::d_old || s.space == Space::d_input || s.space == Space::kept || s.space == Space::sum;
    require(s.space == Space::reg || s.space == Space::temporary || (backward ? back : ahead), "a result where none may go");
  }

  void read(const std::vector<long>& n) {
    require(!n.empty(), "an empty line");
    require(n[0] == stage || !code.stages.empty(), "code before the first stage");
    switch (n[0]) {
      case stage: return open_stage(n);
      case product: return add_product(n);
      case reduce: return add_reduction(n);
      case loop: return open_loop(n);
      case instruction: return add_instruction(n);
      case gradient: return add_gradient(n);
      case total: return add_total(n);
      default: throw std::invalid_argument("program: an unknown line");
    }
  }

  void open_stage(const std::vector<long>& n) {
    require(n.size() == 1, "a stage with arguments");
    close();
    const int p = int(code.products.size()), r = int(code.reductions.size()), l = int(code.loops.size());
    code.stages.push_back({{p, p}, {r, r}, {l, l}});
  }

  void close() {
    if (code.stages.empty()) return;
    StepStage& s = code.stages.back();
    s.products[1] = int(code.products.size()), s.reductions[1] = int(code.reductions.size()), s.loops[1] = int(code.loops.size());
  }

  bool in_loop() const { return code.stages.back().loops[0] < int(code.loops.size()); }

  void add_product(const std::vector<long>& n) {
    require(n.size() == 10 && !in_loop(), "a product in the wrong place");
    MatrixProduct p{int(n[1]), int(n[2]), int(n[3]), n[4], n[5], n[6], n[7] != 0, n[8] != 0, int(n[9])};
    const Slot &arg = p.turned ? row(n[1]) : memory(n[1]), &out = row(n[2]);
    check_out(out);
    require(backward || (p.turned && !p.add), "a product of a backward step");
    const bool positive = p.row >= 0 && 0 < p.rows && p.rows < most && p.row < most && 0 < p.depth && p.depth < most;
    require(positive && (p.row + p.rows) * p.depth <= shared(n[3]), "a product beyond its matrix");
    require(arg.width == (p.turned ? p.depth : p.rows) && out.width == (p.turned ? p.rows : p.depth), "a product of other sizes");
    if (n[9] != -1) {
      const Slot& bias = slot(n[9]);
      require(p.turned && bias.space == Space::input && program.tensors[bias.index].kind == Kind::unit && bias.width == p.rows, "a bias of another size");
    }
    code.products.push_back(p);
  }

  void add_reduction(const std::vector<long>& n) {
    require(n.size() == 5 && !in_loop(), "a reduction in the wrong place");
    const bool copies = n[1] == long(Opcode::copy), dot = n[1] == long(Opcode::dot);
    require(copies || dot || n[1] == long(Opcode::sum) || n[1] == long(Opcode::amax), "a reduction that there is not");
    const Slot &arg = row(n[2]), &out = row(n[3]);
    check_out(out);
    require(!copies || arg.width == out.width, "a copy of another width");
    require(dot ? row(n[4]).width == arg.width : n[4] == -1, "a second row of another width");
    code.reductions.push_back({int(n[1]), int(n[2]), int(n[3]), int(n[4])});
  }

  void add_gradient(const std::vector<long>& n) {
    require(backward && n.size() == 5, "a gradient in the wrong place");
    const Slot &d = delta(n[1]), &arg = row(n[2]);
    const bool lasts = arg.space == Space::old || arg.space == Space::now || arg.space == Space::saved || arg.space == Space::kept ||
                       (arg.space == Space::input && program.tensors[arg.index].kind != Kind::unit);
    require(lasts, "a gradient by what is not kept");
    require(n[4] >= 0 && n[4] < most && (n[4] + d.width) * arg.width <= shared(n[3]), "a gradient beyond its matrix");
    code.matrices.push_back({int(n[1]), int(n[2]), int(n[3]), n[4]});
  }

  void add_total(const std::vector<long>& n) {
    require(backward && n.size() == 4, "a total in the wrong place");
    require(n[3] >= 0 && n[3] < most && n[3] + delta(n[1]).width <= shared(n[2]), "a total beyond its vector");
    code.vectors.push_back({int(n[1]), int(n[2]), n[3]});
  }

  void open_loop(const std::vector<long>& n) {
    require(n.size() == 2 && 0 < n[1] && n[1] < most, "a loop of no width");
    const int at = int(code.instructions.size());
    code.loops.push_back({n[1], at, at});
    close();
    written.assign(std::size_t(code.registers), false);
  }

  void add_instruction(const std::vector<long>& n) {
    require(n.size() == 6 && in_loop(), "an instruction in the wrong place");
    require(0 <= n[1] && n[1] < long(Opcode::sum), "an unknown instruction");  // reductions come last
    const Opcode op = Opcode(n[1]);
    const long width = code.loops.back().width;
    for (int k = 0; k < 3; k++) {
      if (k >= operands[n[1]]) {
        require(n[3 + k] == -1, "too many operands");
        continue;
      }
      const Slot& s = slot(n[3 + k]);
      require(s.space != Space::sum, "a sum that is read");
      if (s.space == Space::reg) require(written[s.index], "a register that is read before it is written");
      else if (op == Opcode::splat || (k == 1 && takes_scalar(op))) require(s.space == Space::constant || s.width == 1, "a row for one number");
      else if (s.space != Space::constant) require(s.width == width, "an operand of another width");
      require(!several_gates(s), "several gates as one row");
    }
    const Slot& out = slot(n[2]);
    require(out.space != Space::constant && out.space != Space::input && !several_gates(out), "a result where none may go");
    check_out(out);
    require((op == Opcode::accumulate || op == Opcode::accumulate_mul) == (out.space == Space::sum), "a sum that is not accumulated");
    require(out.space != Space::sum || out.width == program.sums[out.index], "a part of a sum");
    if (out.space == Space::reg) written[out.index] = true;
    else require(out.width == width, "a result of another width");
    code.instructions.push_back({int(n[1]), int(n[2]), int(n[3]), int(n[4]), int(n[5])});
    code.loops.back().last = int(code.instructions.size());
  }
};

}  // namespace

std::vector<std::string> opcode_names() {
  return {
#define CAROUSEL_STRING(name, operands) #name,
      CAROUSEL_OPCODES(CAROUSEL_STRING)
#undef CAROUSEL_STRING
  };
}

StepProgram::StepProgram(const std::vector<std::array<long, 2>>& given, long gate, std::vector<long> states_, std::vector<long> saved_,
                         std::vector<long> kept_, std::vector<long> sums_, const std::vector<std::array<long, 3>>& targets_,
                         const EncodedCode& ahead, const EncodedCode* back)
    : gate(gate), states(std::move(states_)), saved(std::move(saved_)), kept(std::move(kept_)), sums(std::move(sums_)), differentiable(back) {
  for (const auto& t : given) {
    require(0 <= t[0] && t[0] <= long(Kind::time) && 0 < t[1] && t[1] < most, "a tensor that cannot be");
    tensors.push_back({Kind(t[0]), t[1]});
  }
  require(!tensors.empty() && tensors[0].kind == Kind::step && gate > 0 && tensors[0].row % gate == 0, "no gates, or parts of one");
  require(!states.empty() && states.size() <= 8, "no states, or more than eight");
  for (const auto* all : {&states, &saved, &kept, &sums}) Reader::widths(*all);
  for (const auto& t : targets_) {
    require(0 <= t[0] && t[0] < long(sums.size()), "a sum that is not there");
    require(0 <= t[1] && t[1] < long(tensors.size()) && tensors[t[1]].kind == Kind::unit, "a sum of no tensor");
    require(0 <= t[2] && t[2] < most && t[2] + sums[t[0]] <= tensors[t[1]].row, "a sum beyond its tensor");
    targets.push_back({int(t[0]), int(t[1]), t[2]});
  }
  Reader(*this, ahead, false, forward);
  if (back) Reader(*this, *back, true, backward);
  layouts[0] = lay_out<float>(*this), layouts[1] = lay_out<double>(*this);
}

}  // namespace carousel
