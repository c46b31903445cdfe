// Programs encoded by hand, forwards and back on arrays of exactly the stated size: a minimal gated unit, and a unit whose
// state is normalised and held at some steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "core/pool.hpp"
#include "program/program.hpp"

namespace carousel {

inline long op(const char* name) {
  const std::vector<std::string> names = opcode_names();
  return long(std::find(names.begin(), names.end(), name) - names.begin());
}
enum { reg, constant, input, old, now, saved, temporary, d_new, d_old, d_input, sum, kept };

inline StepProgram mgu_program(long H) {
  const EncodedCode forward{
      {{input, 0, 0, H}, {old, 0, 0, H}, {temporary, 0, 0, H}, {reg, 0, 0, 0}, {saved, 0, 0, H}, {temporary, 1, 0, H},
       {temporary, 2, 0, H}, {input, 0, H, H}, {saved, 1, 0, H}, {constant, 0, 0, 0}, {now, 0, 0, H}, {input, 2, 0, H},
       {input, 3, 0, H}},
      {1.0}, 1, {H, H, H},
      {{0}, {1, 1, 2, 1, 0, H, H, 1, 0, 11}, {3, H}, {4, op("add"), 3, 0, 2, -1}, {4, op("sigmoid"), 4, 3, -1, -1},
       {4, op("mul"), 5, 4, 1, -1}, {0}, {1, 5, 6, 1, H, H, H, 1, 0, 12}, {3, H}, {4, op("add"), 3, 7, 6, -1},
       {4, op("tanh"), 8, 3, -1, -1}, {4, op("sub"), 3, 9, 4, -1}, {4, op("mul"), 3, 3, 1, -1},
       {4, op("muladd"), 10, 4, 8, 3}}};
  const EncodedCode backward{
      {{d_new, 0, 0, H}, {saved, 0, 0, H}, {saved, 1, 0, H}, {old, 0, 0, H}, {constant, 0, 0, 0}, {reg, 0, 0, 0},
       {reg, 1, 0, 0}, {d_input, 0, H, H}, {d_input, 0, 0, H}, {kept, 0, 0, H}, {d_input, 0, 0, 2 * H}, {temporary, 0, 0, H},
       {temporary, 1, 0, H}, {temporary, 2, 0, H}, {d_old, 0, 0, H}, {sum, 0, 0, H}},
      {1.0}, 2, {H, H, H},
      {{0}, {3, H}, {4, op("mul"), 5, 0, 1, -1}, {4, op("d_tanh"), 7, 5, 2, -1}, {4, op("mul"), 9, 1, 3, -1}, {0}, {1, 7, 11, 1, H, H, H, 0, 0, -1}, {3, H}, {4, op("mul"), 5, 0, 2, -1},
       {4, op("mul"), 6, 0, 3, -1}, {4, op("sub"), 5, 5, 6, -1}, {4, op("muladd"), 5, 11, 3, 5},
       {4, op("d_sigmoid"), 8, 5, 1, -1}, {4, op("accumulate"), 15, 8, -1, -1}, {4, op("sub"), 6, 4, 1, -1},
       {4, op("mul"), 6, 0, 6, -1}, {4, op("muladd"), 12, 11, 1, 6}, {0}, {1, 8, 13, 1, 0, H, H, 0, 0, -1}, {3, H},
       {4, op("add"), 14, 12, 13, -1}, {5, 7, 9, 1, H}, {5, 8, 3, 1, 0}, {6, 7, 3, 0}, {6, 10, 4, 0}}};
  // the vector of 2 H numbers is read by nothing: its gradient is the sum of δ of both gates
  return StepProgram({{2, 2 * H}, {0, 2 * H * H}, {0, H}, {0, H}, {0, 2 * H}}, H, {H}, {H, H}, {H}, {H}, {{0, 2, 0}}, forward, &backward);
}

template <class T>
struct ProgramCase {
  StepProgram program;
  ProgramLayout layout;
  ProgramCall<T> call;
  long H, T_, B;
  std::vector<T> projected, matrix, bias, bias_n, both, output, saved, state_n, d_output, d_projected, d_matrix, d_bias, d_bias_n,
      d_both, kept, d_state_0, d_initial, state_0, initial;
  std::vector<std::int64_t> lengths;
  std::vector<std::uint8_t> reset;

  ProgramCase(long steps, long batch, long hidden, int threads, unsigned options, std::mt19937& random)
      : program(mgu_program(hidden)), layout(program_layout<T>(program)), H(hidden), T_(steps), B(batch) {
    std::normal_distribution<double> normal(0, 0.4);
    auto some = [&](std::vector<T>& v, long n) {
      v.resize(n);
      for (T& x : v) x = T(normal(random));
    };
    const T nan = T(NAN);
    some(matrix, 2 * H * H);
    for (T& w : matrix) w *= T(std::min(1.0, 5 / std::sqrt(double(H))));  // or else what is rounded grows from step to step
    some(projected, T_ * B * 2 * H), some(bias, H), some(bias_n, H), some(both, 2 * H), some(d_output, T_ * B * H);
    some(state_0, B * H), some(initial, H);
    output.assign(T_ * B * H, nan), saved.assign(T_ * B * layout.saved_row, nan), state_n.assign(B * H, nan);
    d_projected.assign(T_ * B * 2 * H, nan), kept.assign(T_ * B * layout.kept_row, nan);
    d_matrix.assign(2 * H * H, nan), d_bias.assign(H, nan), d_bias_n.assign(H, nan), d_both.assign(2 * H, nan);
    d_state_0.assign(B * H, nan), d_initial.assign(H, nan);
    call.steps = T_, call.batch = B, call.threads = threads, call.reverse = options & 1;
    for (long b = 0; b < B; b++) lengths.push_back(long(random() % (T_ + 1)));
    for (long k = 0; k < T_ * B; k++) reset.push_back(random() % 3 == 0);
    if (options & 2) call.lengths = lengths.data();
    if (options & 4) call.reset = reset.data();
    call.tensors = {projected.data(), matrix.data(), bias.data(), bias_n.data(), both.data()};
    call.state_0 = {options & 8 ? state_0.data() : nullptr}, call.initial = {options & 4 ? initial.data() : nullptr};
    call.output = output.data(), call.saved = saved.data(), call.state_n = {state_n.data()};
    call.d_output = d_output.data(), call.d_state_n = {nullptr}, call.d_tensors = {d_projected.data(), d_matrix.data(), d_bias.data(), d_bias_n.data(), d_both.data()};
    if (options & 8) call.kept = kept.data();  // otherwise in memory of its own
    call.d_state_0 = {d_state_0.data()}, call.d_initial = {d_initial.data()};
  }

  double loss() {
    program_forward(program, call);
    double sum = 0;
    for (std::size_t k = 0; k < output.size(); k++) sum += double(output[k]) * double(d_output[k]);
    return sum;
  }
};

// Some of the gradients `d` of `values` against differences of the loss.
template <class T>
bool check_slopes(ProgramCase<T>& c, std::vector<T>& values, const std::vector<T>& d) {
  bool right = true;
  for (std::size_t k = 0; k < values.size(); k += 1 + values.size() / 7) {
    const T at = values[k], step = T(1e-5);
    values[k] = at + step;
    const double up = c.loss();
    values[k] = at - step;
    const double slope = (up - c.loss()) / (2 * double(step));
    values[k] = at;
    right &= std::abs(slope - double(d[k])) < 1e-6 * (1 + std::abs(slope));
  }
  return right;
}

// The same from x, whose projection is a part of the call, with W x + b kept for the backward step or not.
template <class T>
bool check_input(ProgramCase<T>& c, std::mt19937& random) {
  std::normal_distribution<double> normal(0, 0.4);
  const long I = 5, rows = c.T_ * c.B, G = 2 * c.H;
  const T nan = T(NAN);
  std::vector<T> x(rows * I), weight(G * I), bias(G), kept(rows * c.layout.projected_row, nan);
  std::vector<T> d_x(rows * I, nan), d_weight(G * I, nan), d_bias(G, nan);
  for (auto* v : {&x, &weight, &bias})
    for (T& n : *v) n = T(normal(random));
  for (long j = 0; j < rows; j++)
    for (long u = 0; u < G; u++) {
      T& sum = c.projected[j * G + u] = bias[u];
      for (long i = 0; i < I; i++) sum += weight[u * I + i] * x[j * I + i];
    }
  program_forward(c.program, c.call);
  const std::vector<T> expected = c.output;
  bool right = true;
  c.call.x = x.data(), c.call.weight_ih = weight.data(), c.call.bias_ih = bias.data(), c.call.input = I;
  c.call.d_x = d_x.data(), c.call.d_weight_ih = d_weight.data(), c.call.d_bias_ih = d_bias.data();
  c.call.tensors[0] = nullptr, c.call.d_tensors[0] = nullptr;
  for (T* memory : {static_cast<T*>(nullptr), kept.data()}) {
    c.call.projected = memory;
    program_forward(c.program, c.call);
    for (std::size_t k = 0; k < expected.size(); k++) right &= std::abs(double(expected[k] - c.output[k])) < 1e-4;
    program_backward(c.program, c.call);
    if (sizeof(T) < 8) continue;
    right &= check_slopes(c, x, d_x) && check_slopes(c, weight, d_weight) && check_slopes(c, bias, d_bias) && check_slopes(c, c.matrix, c.d_matrix);
  }
  c.call.x = nullptr, c.call.projected = nullptr, c.call.tensors[0] = c.projected.data(), c.call.d_tensors[0] = c.d_projected.data();
  return right;
}

// Forwards with and without saving, and back; results are numbers, and in double those of finite differences.
template <class T>
bool check_program(long steps, long batch, long hidden, int threads, unsigned options, std::mt19937& random) {
  ProgramCase<T> c(steps, batch, hidden, threads, options, random);
  c.loss();
  program_backward(c.program, c.call);
  bool right = true;
  for (const std::vector<T>* all : {&c.output, &c.state_n, &c.d_projected, &c.d_state_0, &c.d_initial})
    for (T x : *all) right &= std::isfinite(double(x));
  const std::vector<T> saved_output = c.output;
  T* kept_memory = c.call.saved;
  c.call.saved = nullptr;
  program_forward(c.program, c.call);
  for (std::size_t k = 0; k < saved_output.size(); k++) right &= saved_output[k] == c.output[k];
  c.call.saved = kept_memory;
  if (sizeof(T) == 8) {
    right &= check_slopes(c, c.projected, c.d_projected) && check_slopes(c, c.matrix, c.d_matrix) && check_slopes(c, c.bias, c.d_bias);
    right &= check_slopes(c, c.bias_n, c.d_bias_n);
    for (long u = 0; u < 2 * hidden; u++) {
      double sum = 0;
      for (long j = 0; j < steps * batch; j++) sum += double(c.d_projected[j * 2 * hidden + u]);
      right &= std::abs(sum - double(c.d_both[u])) < 1e-9 * (1 + std::abs(sum));
    }
  }
  right &= check_input(c, random);
  if (!right) std::printf("program: T %ld B %ld H %ld threads %d options %u is wrong\n", steps, batch, hidden, threads, options);
  return right;
}

// a = x + U h, h = a / √(1 + Σ a²), or what h is held at where the mask is not 0.
inline StepProgram normed_program(long H) {
  const EncodedCode forward{
      {{old, 0, 0, H}, {temporary, 0, 0, H}, {input, 0, 0, H}, {saved, 0, 0, H}, {temporary, 1, 0, 1}, {constant, 0, 0, 0},
       {reg, 0, 0, 0}, {saved, 1, 0, 1}, {reg, 1, 0, 0}, {input, 2, 0, H}, {input, 3, 0, H}, {now, 0, 0, H}},
      {1.0}, 2, {H, 1},
      {{0}, {1, 0, 1, 1, 0, H, H, 1, 0, -1}, {3, H}, {4, op("add"), 3, 2, 1, -1}, {0}, {2, op("dot"), 3, 4, 3}, {3, 1},
       {4, op("add"), 6, 4, 5, -1}, {4, op("rsqrt"), 7, 6, -1, -1}, {3, H}, {4, op("mul_scalar"), 8, 3, 7, -1},
       {4, op("where"), 11, 9, 10, 8}}};
  const EncodedCode backward{
      {{d_new, 0, 0, H}, {input, 2, 0, H}, {constant, 0, 0, 0}, {temporary, 0, 0, H}, {saved, 0, 0, H}, {temporary, 1, 0, 1},
       {saved, 1, 0, 1}, {reg, 0, 0, 0}, {temporary, 2, 0, 1}, {constant, 1, 0, 0}, {reg, 1, 0, 0}, {d_input, 0, 0, H},
       {d_old, 0, 0, H}, {old, 0, 0, H}},
      {0.0, -1.0}, 2, {H, 1, 1},
      {{0}, {3, H}, {4, op("where"), 3, 1, 2, 0}, {0}, {2, op("dot"), 3, 5, 4}, {3, 1}, {4, op("square"), 7, 6, -1, -1},
       {4, op("mul"), 7, 7, 6, -1}, {4, op("mul"), 7, 7, 5, -1}, {4, op("mul"), 8, 7, 9, -1}, {3, H},
       {4, op("mul_scalar"), 10, 3, 6, -1}, {4, op("muladd_scalar"), 11, 4, 8, 10}, {0},
       {1, 11, 12, 1, 0, H, H, 0, 0, -1}, {5, 11, 13, 1, 0}}};
  return StepProgram({{2, H}, {0, H * H}, {3, H}, {3, H}}, H, {H}, {H, 1}, {}, {}, {}, forward, &backward);
}

// The same bits by one thread and by several, which share the columns where there are fewer rows; and, in double, the
// gradients of finite differences.
template <class T>
bool check_normed(long steps, long batch, long hidden, int threads, std::mt19937& random) {
  const StepProgram program = normed_program(hidden);
  const ProgramLayout layout = program_layout<T>(program);
  const long H = hidden, rows = steps * batch;
  std::normal_distribution<double> normal(0, 0.4);
  auto some = [&](long n) {
    std::vector<T> v(n);
    for (T& x : v) x = T(normal(random));
    return v;
  };
  std::vector<T> x = some(rows * H), matrix = some(H * H), held = some(steps * H), weights = some(rows * H), mask(steps * H, T(0));
  for (T& m : mask) m = T(random() % 4 == 0);
  std::vector<T> output(rows * H), saved(rows * layout.saved_row, T(NAN)), state_n(batch * H), d_x(rows * H), d_matrix(H * H), d_state(batch * H);
  ProgramCall<T> call;
  call.steps = steps, call.batch = batch, call.tensors = {x.data(), matrix.data(), mask.data(), held.data()};
  call.state_0 = {nullptr}, call.initial = {nullptr}, call.output = output.data(), call.saved = saved.data(), call.state_n = {state_n.data()};
  call.d_output = weights.data(), call.d_state_n = {nullptr}, call.d_tensors = {d_x.data(), d_matrix.data(), nullptr, nullptr};
  call.d_state_0 = {d_state.data()}, call.d_initial = {nullptr};
  std::vector<T> expected[2];
  bool right = true;
  for (int n : {1, threads}) {
    call.threads = n;
    program_forward(program, call), program_backward(program, call);
    const std::vector<T>* found[] = {&output, &d_x};  // ∂L/∂U is added up in another order
    for (int k = 0; k < 2; k++) {
      if (n == 1) expected[k] = *found[k];
      for (std::size_t i = 0; i < expected[k].size(); i++) right &= std::abs(double((*found[k])[i] - expected[k][i])) < 1e-4;
    }
  }
  auto loss = [&] {
    program_forward(program, call);
    double sum = 0;
    for (std::size_t k = 0; k < output.size(); k++) sum += double(output[k]) * double(weights[k]);
    return sum;
  };
  auto slopes = [&](std::vector<T>& values, const std::vector<T>& d) {
    for (std::size_t k = 0; k < values.size(); k += 1 + values.size() / 7) {
      const T at = values[k], step = T(1e-5);
      values[k] = at + step;
      const double up = loss();
      values[k] = at - step;
      const double slope = (up - loss()) / (2 * double(step));
      values[k] = at;
      right &= std::abs(slope - double(d[k])) < 1e-6 * (1 + std::abs(slope));
    }
  };
  if (sizeof(T) == 8) slopes(x, d_x), slopes(matrix, d_matrix);
  if (!right) std::printf("normed program: T %ld B %ld H %ld threads %d is wrong\n", steps, batch, hidden, threads);
  return right;
}

}  // namespace carousel
