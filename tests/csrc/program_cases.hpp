// A minimal gated unit as a program, encoded by hand: forwards and back on arrays of exactly the stated size.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "core/pool.hpp"
#include "program/program.hpp"

namespace carousel {

inline StepProgram mgu_program(long H) {
  auto op = [](const char* name) {
    const std::vector<std::string> names = opcode_names();
    return long(std::find(names.begin(), names.end(), name) - names.begin());
  };
  enum { reg, constant, input, old, now, saved, temporary, d_new, d_old, d_input, sum, kept };
  const EncodedCode forward{
      {{input, 0, 0, H}, {old, 0, 0, H}, {temporary, 0, 0, H}, {reg, 0, 0, 0}, {saved, 0, 0, H}, {temporary, 1, 0, H},
       {temporary, 2, 0, H}, {input, 0, H, H}, {saved, 1, 0, H}, {constant, 0, 0, 0}, {now, 0, 0, H}, {input, 2, 0, H}},
      {1.0}, 1, {H, H, H},
      {{0}, {1, 1, 2, 1, 0, H, H, 1, 0, 11}, {3, H}, {4, op("add"), 3, 0, 2, -1}, {4, op("sigmoid"), 4, 3, -1, -1},
       {4, op("mul"), 5, 4, 1, -1}, {0}, {1, 5, 6, 1, H, H, H, 1, 0, -1}, {3, H}, {4, op("add"), 3, 7, 6, -1},
       {4, op("tanh"), 8, 3, -1, -1}, {4, op("sub"), 3, 9, 4, -1}, {4, op("mul"), 3, 3, 1, -1},
       {4, op("muladd"), 10, 4, 8, 3}}};
  const EncodedCode backward{
      {{d_new, 0, 0, H}, {saved, 0, 0, H}, {saved, 1, 0, H}, {old, 0, 0, H}, {constant, 0, 0, 0}, {reg, 0, 0, 0},
       {reg, 1, 0, 0}, {d_input, 0, H, H}, {d_input, 0, 0, H}, {kept, 0, 0, H}, {kept, 1, 0, H}, {temporary, 0, 0, H},
       {temporary, 1, 0, H}, {temporary, 2, 0, H}, {d_old, 0, 0, H}, {sum, 0, 0, H}},
      {1.0}, 2, {H, H, H},
      {{0}, {3, H}, {4, op("mul"), 5, 0, 1, -1}, {4, op("d_tanh"), 7, 5, 2, -1}, {4, op("mul"), 9, 1, 3, -1},
       {4, op("copy"), 10, 3, -1, -1}, {0}, {1, 7, 11, 1, H, H, H, 0, 0, -1}, {3, H}, {4, op("mul"), 5, 0, 2, -1},
       {4, op("mul"), 6, 0, 3, -1}, {4, op("sub"), 5, 5, 6, -1}, {4, op("muladd"), 5, 11, 3, 5},
       {4, op("d_sigmoid"), 8, 5, 1, -1}, {4, op("accumulate"), 15, 8, -1, -1}, {4, op("sub"), 6, 4, 1, -1},
       {4, op("mul"), 6, 0, 6, -1}, {4, op("muladd"), 12, 11, 1, 6}, {0}, {1, 8, 13, 1, 0, H, H, 0, 0, -1}, {3, H},
       {4, op("add"), 14, 12, 13, -1}}};
  return StepProgram({{2, 2 * H}, {0, 2 * H * H}, {0, H}}, {H}, {H, H}, {H, H}, {H}, forward, &backward);
}

template <class T>
struct ProgramCase {
  StepProgram program;
  ProgramLayout layout;
  ProgramCall<T> call;
  long H, T_, B;
  std::vector<T> projected, matrix, bias, output, saved, state_n, d_output, d_projected, kept, sums, d_state_0, d_initial, state_0, initial;
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
    some(projected, T_ * B * 2 * H), some(matrix, 2 * H * H), some(bias, H), some(d_output, T_ * B * H);
    some(state_0, B * H), some(initial, H);
    output.assign(T_ * B * H, nan), saved.assign(T_ * B * layout.saved_row, nan), state_n.assign(B * H, nan);
    d_projected.assign(T_ * B * 2 * H, nan), kept.assign(T_ * B * layout.kept_row, nan), sums.assign(layout.sums_row, nan);
    d_state_0.assign(B * H, nan), d_initial.assign(H, nan);
    call.steps = T_, call.batch = B, call.threads = threads, call.reverse = options & 1;
    for (long b = 0; b < B; b++) lengths.push_back(long(random() % (T_ + 1)));
    for (long k = 0; k < T_ * B; k++) reset.push_back(random() % 3 == 0);
    if (options & 2) call.lengths = lengths.data();
    if (options & 4) call.reset = reset.data();
    call.tensors = {projected.data(), matrix.data(), bias.data()};
    call.state_0 = {options & 8 ? state_0.data() : nullptr}, call.initial = {options & 4 ? initial.data() : nullptr};
    call.output = output.data(), call.saved = saved.data(), call.state_n = {state_n.data()};
    call.d_output = d_output.data(), call.d_state_n = {nullptr}, call.d_tensors = {d_projected.data(), nullptr, nullptr};
    call.kept = kept.data(), call.sums = sums.data(), call.d_state_0 = {d_state_0.data()}, call.d_initial = {d_initial.data()};
  }

  double loss() {
    program_forward(program, call);
    double sum = 0;
    for (std::size_t k = 0; k < output.size(); k++) sum += double(output[k]) * double(d_output[k]);
    return sum;
  }
};

// The same from x, whose projection is a part of the call: into memory of its own, or into what is given.
template <class T>
bool check_input(ProgramCase<T>& c, std::mt19937& random) {
  std::normal_distribution<double> normal(0, 0.4);
  const long I = 5, rows = c.T_ * c.B, G = 2 * c.H;
  std::vector<T> x(rows * I), weight(G * I), bias(G), given(rows * G);
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
  for (T* memory : {static_cast<T*>(nullptr), given.data()}) {
    c.call.tensors[0] = memory;
    program_forward(c.program, c.call);
    for (std::size_t k = 0; k < expected.size(); k++) right &= std::abs(double(expected[k] - c.output[k])) < 1e-4;
  }
  c.call.x = nullptr, c.call.tensors[0] = c.projected.data();
  return right;
}

// A B and Aᵀ B, stored and added, from matrices of exactly the stated size.
template <class T>
bool check_large_product(long M, long N, long K, int threads, std::mt19937& random) {
  std::normal_distribution<double> normal(0, 1);
  std::vector<T> a(M * K), b(K * N), c(M * N);
  for (auto* v : {&a, &b})
    for (T& n : *v) n = T(normal(random));
  bool right = true;
  for (int turned : {0, 1})
    for (int add : {0, 1}) {
      std::fill(c.begin(), c.end(), add ? T(1) : T(NAN));
      large_product<T>({M, N, K, a.data(), turned ? M : K, turned != 0, b.data(), N, c.data(), N, add != 0, threads});
      for (long m = 0; m < M; m++)
        for (long n = 0; n < N; n++) {
          double sum = add;
          for (long k = 0; k < K; k++) sum += double(a[turned ? k * M + m : m * K + k]) * double(b[k * N + n]);
          right &= std::abs(sum - double(c[m * N + n])) < 1e-3 * (1 + std::sqrt(double(K)));
        }
    }
  if (!right) std::printf("large product: M %ld N %ld K %ld threads %d is wrong\n", M, N, K, threads);
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
  if (sizeof(T) == 8)
    for (std::size_t k = 0; k < c.projected.size(); k += 1 + c.projected.size() / 7) {
      const T at = c.projected[k], step = T(1e-5);
      c.projected[k] = at + step;
      const double up = c.loss();
      c.projected[k] = at - step;
      const double slope = (up - c.loss()) / (2 * double(step));
      c.projected[k] = at;
      right &= std::abs(slope - double(c.d_projected[k])) < 1e-6 * (1 + std::abs(slope));
    }
  right &= check_input(c, random);
  if (!right) std::printf("program: T %ld B %ld H %ld threads %d options %u is wrong\n", steps, batch, hidden, threads, options);
  return right;
}

}  // namespace carousel
