// A cell as a program (carousel/program/lowering.py): places in memory, stages, instructions; and what can be done with
// one: a layer forwards and back, one direction.
//
// The step of a row is cut into stages. A stage begins with products and reductions, which read whole rows; then come
// loops over the columns, in which a virtual machine applies one instruction after another to tiles that stay in the
// first-level cache. A program is checked when it is made: what runs is only what was found to stay within its memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace carousel {

// What an instruction computes: name, number of operands.
#define CAROUSEL_OPCODES(X)                                                                                       \
  X(copy, 1) X(splat, 1) X(accumulate, 1) X(add, 2) X(sub, 2) X(mul, 2) X(div, 2) X(neg, 1) X(sigmoid, 1)         \
  X(tanh, 1) X(relu, 1) X(exp, 1) X(log, 1) X(log1p, 1) X(expm1, 1) X(softplus, 1) X(sqrt, 1) X(rsqrt, 1)         \
  X(square, 1) X(abs, 1) X(sign, 1) X(sin, 1) X(cos, 1) X(erf, 1) X(pow, 2) X(min, 2) X(max, 2) X(lt, 2) X(le, 2) \
  X(eq, 2) X(where, 3) X(d_sigmoid, 2) X(d_tanh, 2) X(mul_d_sigmoid, 3) X(mul_d_tanh, 3) X(accumulate_mul, 2) X(muladd, 3) X(mulsub, 3) X(submul, 3) X(sigmoid_sum, 2)        \
  X(tanh_sum, 2) X(add_scalar, 2) X(sub_scalar, 2) X(mul_scalar, 2) X(muladd_scalar, 3) X(mulsub_scalar, 3)           \
  X(submul_scalar, 3) X(sum, 1) X(amax, 1) X(dot, 2)

enum class Opcode : int {
#define CAROUSEL_NAME(name, operands) name,
  CAROUSEL_OPCODES(CAROUSEL_NAME)
#undef CAROUSEL_NAME
};

std::vector<std::string> opcode_names();

// Whether the second operand is one number for the whole row.
inline bool takes_scalar(Opcode op) { return op >= Opcode::add_scalar && op <= Opcode::submul_scalar; }

// Where numbers are. `old` and `new` are states before and after a step, `saved` what the forward step keeps for the
// backward step, `temporary` what lives for one step, `kept` what the backward step keeps for the gradients of matrices.
enum class Space : int { reg, constant, input, old, now, saved, temporary, d_new, d_old, d_input, sum, kept };

struct Slot {
  Space space;
  long index, offset, width;
};

// out (=, +=) M arg + bias, M in rows row … row + rows of a matrix (·, depth); not turned: Mᵀ arg.
struct MatrixProduct {
  int arg, out, tensor;
  long row, rows, depth;
  bool turned, add;
  int bias;  // slot, or −1
};

struct Instruction {
  int op, out, a, b, c;
};

struct Reduction {  // sum or amax of a row, or dot of two; or copy, of exactly the columns that the slots have
  int op, arg, out, other;
};

struct Loop {
  long width;
  int first, last;  // instructions
};

struct StepStage {
  int products[2], reductions[2], loops[2];  // first, last
};

// What a backward step adds to the gradients of tensors that all sequences share, over all steps and rows: δ argᵀ to rows
// row … of a matrix, as many as δ is wide; and δ itself to numbers `start` … of a vector.
struct MatrixGradient {
  int delta, arg, tensor;
  long row;
};
struct VectorGradient {
  int delta, tensor;
  long start;
};

struct StepCode {
  std::vector<Slot> slots;
  std::vector<double> constants;
  long registers = 0;
  std::vector<long> temporaries;  // widths
  std::vector<MatrixProduct> products;
  std::vector<Reduction> reductions;
  std::vector<Instruction> instructions;
  std::vector<Loop> loops;
  std::vector<StepStage> stages;
  std::vector<MatrixGradient> matrices;
  std::vector<VectorGradient> vectors;
};

enum class Kind : int { unit, sequence, step, time };

struct TensorSpec {
  Kind kind;  // one for all sequences; (B, row); (T, B, row); (T, row), the same for all sequences
  long row;
};

// slots, constants, registers, widths of temporaries, lines
using EncodedCode = std::tuple<std::vector<std::array<long, 4>>, std::vector<double>, long, std::vector<long>,
                               std::vector<std::vector<long>>>;

struct SumTarget {  // the numbers `start` … of a tensor to whose gradient a sum belongs
  int sum, tensor;
  long start;
};

// Where planes begin in a row: of the states (the first may be in the output alone: −1), of what is saved, kept, summed.
struct ProgramLayout {
  std::vector<long> states, saved, kept, sums;
  long saved_row, kept_row, sums_row;
  long projected_row;  // W x + b of all gates
};

struct StepProgram {
  std::vector<TensorSpec> tensors;  // the first is W x + b: `gate` numbers for each gate
  long gate;
  std::vector<long> states, saved, kept, sums;  // widths
  std::vector<SumTarget> targets;
  StepCode forward, backward;
  bool differentiable = false;
  ProgramLayout layouts[2];  // of floats, of doubles

  // Throws std::invalid_argument for code that would leave its memory, or read what nothing has written.
  StepProgram(const std::vector<std::array<long, 2>>& tensors, long gate, std::vector<long> states, std::vector<long> saved,
              std::vector<long> kept, std::vector<long> sums, const std::vector<std::array<long, 3>>& targets,
              const EncodedCode& forward, const EncodedCode* backward);
};

// One direction of one layer. A null pointer stands for what is absent: a zero state, a gradient that is not needed.
template <class T>
struct ProgramCall {
  long steps = 0, batch = 0;
  int threads = 1;
  bool reverse = false;
  const std::int64_t* lengths = nullptr;  // (B)
  const std::uint8_t* reset = nullptr;    // (T, B): the state restarts before this step
  std::vector<const T*> tensors;  // the first is W x + b (T, B, G·H), or null where x is given:
  const T *x = nullptr, *weight_ih = nullptr, *bias_ih = nullptr;  // (T, B, I), (G·H, I), (G·H) or null
  long input = 0;
  T* projected = nullptr;  // (T, B, projected_row) or null: where W x + b is kept for the backward step
  std::vector<const T*> state_0, initial;  // (B, S) each; (S) each
  T* output = nullptr;                     // (T, B, P)
  T* saved = nullptr;                      // (T, B, saved_row); null in a forward-only call
  std::vector<T*> state_n;                 // (B, S)

  const T* d_output = nullptr;
  std::vector<const T*> d_state_n;
  std::vector<T*> d_tensors;  // like `tensors`; null: not needed
  T* kept = nullptr;          // (T, B, kept_row) or null
  T *d_x = nullptr, *d_weight_ih = nullptr, *d_bias_ih = nullptr;
  std::vector<T*> d_state_0, d_initial;
};

template <class T>
ProgramLayout lay_out(const StepProgram&);
template <class T>
const ProgramLayout& program_layout(const StepProgram& program) {
  return program.layouts[sizeof(T) == 8];
}
template <class T>
void program_forward(const StepProgram&, const ProgramCall<T>&);
template <class T>
void program_backward(const StepProgram&, const ProgramCall<T>&);

}  // namespace carousel
