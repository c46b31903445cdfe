// The input's part of a program: W x + b of a chunk of steps, and from its gradient ∂L/∂x.
#pragma once

#include "core/gemm.hpp"
#include "core/pool.hpp"
#include "program/program.hpp"
#include "recurrent/layer.hpp"

namespace carousel {

// Rows of W x + b and of its gradient: each gate begins on a whole vector, and a spare vector stands at the end.
template <class T>
struct GateRows {
  long gates, gate, plane, row;

  GateRows(long numbers, long gate)
      : gates(numbers / gate), gate(gate), plane(up(gate, lanes<T>)), row(padded<T>(gates * plane + lanes<T>)) {}

  long at(long offset) const { return offset / gate * plane + offset % gate; }
  bool contiguous() const { return plane == gate; }
};

template <class T>
class InputProduct {
 public:
  const ProgramCall<T>& call;
  const GateRows<T> rows;

  InputProduct(const ProgramCall<T>& call, const GateRows<T>& rows, bool forwards, bool unpacked)
      : call(call), rows(rows), unpacked(unpacked) {
    if (!call.x) return;
    if (forwards) {
      bias.zero(panels() * panel<T>);
      for (long v = 0; call.bias_ih && v < vectors(); v++) std::copy_n(call.bias_ih + first_row(v), count(v), bias + v * lanes<T>);
      for (long v = 0; v < 2 * panels(); v++) columns.push_back(v < vectors() ? v * lanes<T> : rows.gates * rows.plane);
    }
    if (forwards && !unpacked) packed.reserve(panels() * call.input * panel<T>);
    if (call.d_x) packed_back.reserve(parts() * back_panels() * depth() * panel<T>);
  }

  long panels() const { return ceil_div(vectors(), 2); }

  void pack(const Team& team) {
    const long I = call.input;
    long from, to;
    team.share(panels(), from, to);
    for (long v = 2 * from; packed && v < 2 * to; v++) {
      T* half = packed + v / 2 * I * panel<T> + v % 2 * lanes<T>;
      if (v >= vectors() || count(v) < lanes<T>)
        for (long k = 0; k < I; k++) std::fill_n(half + k * panel<T>, lanes<T>, T(0));
      if (v < vectors()) transpose<T>(call.weight_ih + first_row(v) * I, I, count(v), I, half, panel<T>);
    }
    team.share(back_panels(), from, to);
    for (long q = 0; call.d_x && q < parts(); q++)
      pack_rows<T>(depth(), I, [&](long k) { return call.weight_ih + (q * depth() + k) * I; }, from, to,
                   packed_back + q * back_panels() * depth() * panel<T>);
  }

  // W x + b of n rows, panels from ≤ p < to.
  void forward(long n, const T* const* x, T* const* to_rows, long from, long to) const {
    const Packed<T> w{packed, call.input, columns.data(), 0, bias};
    multiply<T>(n, x, 0, w, from, to, to_rows, Into::store);
  }

  // The same of units from ≤ u < to of each gate, with the weights as they are.
  void forward_few(long n, const T* const* x, T* const* to_rows, long from, long to) const {
    const long I = call.input;
    for (long j = 0; j < n; j++)
      for (long q = 0; q < rows.gates; q++)
        for (long u = from; u < to; u += lanes<T>) {
          const long units = std::min<long>(lanes<T>, rows.gate - u);
          const Vec<T> sum = dots<T>(call.weight_ih + (q * rows.gate + u) * I, I, int(units), x[j], I);
          store<T>(to_rows[j] + q * rows.plane + u, sum + load<T>(bias + q * rows.plane + u));
        }
  }

  // ∂L/∂x of n rows from δ.
  void backward(long n, const T* const* delta, T* const* d_x) const {
    for (long q = 0; q < parts(); q++) {
      const Packed<T> w{packed_back + q * back_panels() * depth() * panel<T>, depth(), nullptr, call.input, nullptr};
      multiply<T>(n, delta, q * rows.plane, w, 0, back_panels(), d_x, q ? Into::add : Into::store);
    }
  }

 private:
  const bool unpacked;
  Buffer<T> packed, packed_back, bias;
  List<long> columns;

  long vectors_of_gate() const { return rows.plane / lanes<T>; }
  long vectors() const { return rows.gates * vectors_of_gate(); }
  long first_row(long v) const { return v / vectors_of_gate() * rows.gate + v % vectors_of_gate() * lanes<T>; }
  long count(long v) const { return std::min<long>(lanes<T>, rows.gate - v % vectors_of_gate() * lanes<T>); }
  long parts() const { return rows.contiguous() ? 1 : rows.gates; }
  long depth() const { return rows.contiguous() ? rows.gates * rows.gate : rows.gate; }
  long back_panels() const { return ceil_div(call.input, panel<T>); }
};

}  // namespace carousel
