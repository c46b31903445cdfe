// What a cell is to the grid: the numbers of one vector of units in one row, before and after a step.
//
// A cell header names its gates in the order of its Python twin and defines
//   gates                  rows of weight_ih and weight_hh, in blocks of H
//   planes                 what a step saves, in vectors a row: the gates first, then what backward needs besides
//   step(Step&)            the equations;  backward(Back&)  their derivative
//   d_planes               what backward yields for the large products: `x_plane` is the first of the planes that
//                          meet W, `h_plane` of those that meet U; `x_order`, `h_order` say which gate each is
//   sums                   what backward sums over rows; `bias_ih`, `bias_hh` say which sums are their gradients,
//                          and the sums after those are weight_ch's, peephole by peephole
#pragma once

#include "recurrent/layer.hpp"

namespace carousel {

enum class Stage { all, gates, candidate };  // of a step; the latter two in a staged cell

template <class T>
class Forward;
template <class T>
class Backward;
template <class T>
struct Stepping;
template <class T>
struct Returning;

template <class Cell, class T>
struct Step {
  Vec<T> x[Cell::gates], u[Cell::gates];  // W x + b and U h₋, gate by gate
  Vec<T> h_, c_;                          // the previous state
  Vec<T> p[Cell::parameters + 1];         // parameters of these units
  Vec<T> at[Cell::planes];                // out: the gates
  Vec<T> h, c;                            // out: the new state; before projection h is m
  Vec<T> v;                               // out of a first stage: what the second multiplies
};

template <class Cell, class T>
struct Back {
  Vec<T> at[Cell::planes], c;      // what the step named
  Vec<T> h_, c_;                   // the previous state
  Vec<T> p[Cell::parameters + 1];  // parameters of these units
  Vec<T> dh, dc;                   // ∂L/∂(new state)
  Vec<T> d[Cell::d_planes];        // out: δ, for the products
  Vec<T> dh_, dc_;                 // out: ∂L/∂(previous state), without what passes through U
  Vec<T> m;                        // out: what the projection multiplied
  Vec<T> dv;                       // of a staged cell: ∂L/∂(what the second product multiplied)
  Vec<T> sum[Cell::sums];          // added to
};

template <class T>
struct Plain {  // defaults
  static constexpr bool has_c = false;      // a cell state beside h
  static constexpr bool sees_h = false;     // step and backward use h₋ outside U
  static constexpr bool direct = false;     // backward has a dh_ outside U
  static constexpr bool staged = false;     // two products a step: see ResetBeforeGRU
  static constexpr int drive_plane = 0;     // the plane where the drive of gate 0 goes
  static constexpr bool whole_rows = false; // the step needs all units of a row: see LayerNorm
  static constexpr int parameters = 0;      // vectors of parameters a unit has
  static constexpr int peepholes = 0;
  // Parameter k of all units, (H), null if absent; its sum is stored with the weights' gradients.
  static const T* parameter(const Direction<T>&, long, int) { return nullptr; }
  // Whether bias_hh of a gate may be added to the drive, before the recurrence.
  static bool folds_bias(int) { return true; }
};

template <class T>
struct LSTMKind : Plain<T> {
  static constexpr bool has_c = true;
};

// A cell as the grid sees it: its numbers, and its arithmetic as functions of rows.
template <class T>
struct CellKernel {
  int gates, planes, drive_plane, d_planes, x_plane, h_plane, sums, parameters, peepholes;
  const int *x_order, *h_order, *bias_ih, *bias_hh;
  bool has_c, sees_h, direct, staged, whole_rows;
  const T* (*parameter)(const Direction<T>&, long hidden, int k);
  bool (*folds_bias)(int gate);
  // one vector of units of some rows; whole rows
  void (*step)(const Forward<T>&, Stepping<T>&, Stage, long j0, long rows, long block, long k);
  void (*step_row)(const Forward<T>&, Stepping<T>&, long j);
  void (*backward)(const Backward<T>&, Returning<T>&, Stage, long j0, long rows, long u0);
  void (*backward_row)(const Backward<T>&, Returning<T>&, long j);
  int first_gates() const { return staged ? gates - 1 : gates; }  // gates of a step's first product
  // Whether a step that saves nothing can read W x + b where the caller has it: Layer::drive.
  bool takes_drive(long hidden) const { return !staged && !whole_rows && !drive_plane && hidden % lanes<T> == 0; }
};

}  // namespace carousel
