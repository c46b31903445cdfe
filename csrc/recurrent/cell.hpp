// What a cell is to the grid: the numbers of one vector of units in one row, before and after a step.
//
// A cell header names its gates and states in the order of its Python twin and defines
//   gates, gate_names      blocks of H rows of weight_ih and weight_hh
//   states, state_names    state 0 is h, the output
//   own                    parameters besides those of the grid: their slots follow slot::own in this order
//   planes, saved          what a step saves, in vectors per row: the gates first, then `saved`, what backward also needs
//   step(Step&)            the equations;  backward(Back&)  their derivative
//   states_again(Back&)    states 1, 2, … from what was saved: zoneout has replaced those that the equations gave
//   d_planes               what backward yields for the large products: `x_plane` is the first of the planes that
//                          multiply W, `h_plane` of those that multiply U; `x_order`, `h_order` say which gate each is
//   sums                   what backward sums over rows; `bias_ih`, `bias_hh` say which sums are their gradients, and
//                          gradients(Sums, d) stores those of its own parameters
// and ends with CAROUSEL_KERNEL(name, cell), which puts it into the table of kernels.
#pragma once

#include <array>
#include <iterator>

#include "recurrent/layer.hpp"

namespace carousel {

enum class Stage { all, gates, candidate };  // of a step; the latter two in a staged cell

template <class T>
class Forward;
template <class T>
class Backward;
template <class T>
struct ForwardRows;
template <class T>
struct BackwardRows;

template <class Cell, class T>
struct Step {
  Vec<T> x[Cell::gates], u[Cell::gates];  // W x + b and U h₋, gate by gate
  Vec<T> old[Cell::states];               // the previous state
  Vec<T> p[Cell::vectors + 1];            // parameters of these units
  Vec<T> at[Cell::planes];                // out: the gates
  Vec<T> now[Cell::states];               // out: the new state; before projection h is m
  Vec<T> v;                               // out of a first stage: what the second multiplies
};

template <class Cell, class T>
struct Back {
  Vec<T> at[Cell::planes];      // what the step saved
  Vec<T> now[Cell::states];     // the new state, but for h
  Vec<T> old[Cell::states];     // the previous state
  Vec<T> p[Cell::vectors + 1];  // parameters of these units
  Vec<T> d_now[Cell::states];   // ∂L/∂(new state)
  Vec<T> d[Cell::d_planes];     // out: δ, for the products
  Vec<T> d_old[Cell::states];   // out: ∂L/∂(previous state), without what passes through U
  Vec<T> m;                     // out: what the projection multiplied
  Vec<T> dv;                    // of a staged cell: ∂L/∂(what the second product multiplied)
  Vec<T> sum[Cell::sums];       // added to
};

// One row of a cell whose step needs all units: see LayerNorm. States are (plane) each.
template <class T>
struct StepRow {
  const Sizes<T>& size;
  const T* const* w;         // parameters by slot
  T* at;                     // a row of values with W x in its input planes; out: the gates
  T* u;                      // (G, plane): U h₋, may be overwritten
  const T* old[max_states];  // the previous state
  T* now[max_states];        // out: the new state; may be where the previous one is
};

template <class T>
struct BackRow {
  const Sizes<T>& size;
  const T* const* w;
  const T* at;               // a row of values
  const T* old[max_states];  // the previous state
  const T* now[max_states];  // the new state, but for h; null where zoneout has replaced it
  T* spare;                  // (state_row): scratch
  const T* dm;               // (plane): ∂L/∂m
  T* d_state[max_states];    // ∂L/∂(new state), replaced by ∂L/∂(previous state); not of h
  T* delta;                  // (d_planes, plane): out
  T* m;                      // out: what the projection multiplied; null: not needed
  T* sums;                   // (sums, plane): added to
};

// What backward has summed over rows, as gradients of parameters.
template <class T>
struct Sums {
  const T* sum;  // (sums, plane)
  long plane, hidden;

  // Sum k becomes block q of a gradient (·, H), if that is wanted.
  void store(int k, T* to, int q = 0) const {
    if (to) std::copy_n(sum + k * plane, hidden, to + q * hidden);
  }
};

struct Parameter {
  const char* name;
  int vectors;  // its shape is (vectors·H)
};

template <class T>
struct Plain {  // defaults
  static constexpr int states = 1;
  static constexpr const char* state_names[] = {"h"};
  static constexpr std::array<Parameter, 0> own = {};
  static constexpr std::array<const char*, 0> saved = {};
  static constexpr bool sees_h = false;      // step and backward use h₋ outside U
  static constexpr bool direct = false;      // backward has a d_old[H] outside U
  static constexpr bool staged = false;      // two products per step: see ResetBeforeGRU
  static constexpr bool projects = false;    // backward gives m, so that W_hr may follow
  static constexpr int input_plane = 0;      // the plane where W x + b of gate 0 is stored
  static constexpr bool whole_rows = false;  // the step needs all units of a row: see LayerNorm
  static constexpr int vectors = 0;          // vectors of parameters that a unit's step reads
  // Vector k of them, (H), null if absent; w: parameters by slot.
  static const T* vector(const T* const*, long, int) { return nullptr; }
  // Whether bias_hh of a gate may be added to W x + b, before the recurrence.
  static bool folds_bias(int) { return true; }
  static void gradients(const Sums<T>&, T* const*) {}
  template <class B>
  static void states_again(B&) {}
};

template <class T>
struct LSTMKind : Plain<T> {
  static constexpr int states = 2;
  static constexpr const char* state_names[] = {"h", "c"};
  static constexpr bool projects = true;
};

// A cell as the grid sees it: its numbers, and its arithmetic as functions of rows.
template <class T>
struct CellKernel {
  int gates, states, planes, input_plane, d_planes, x_plane, h_plane, sums, vectors, num_own;
  const char *const *gate_names, *const *state_names, *const *saved;  // (gates), (states), (planes − gates)
  const Parameter* own;                                               // (num_own)
  const int *x_order, *h_order, *bias_ih, *bias_hh;
  bool sees_h, direct, staged, projects, whole_rows;
  const T* (*vector)(const T* const* w, long hidden, int k);
  bool (*folds_bias)(int gate);
  void (*gradients)(const Sums<T>&, T* const* d);
  // one vector of units of some rows; whole rows
  void (*step)(const Forward<T>&, ForwardRows<T>&, Stage, long j0, long rows, long block, long k);
  void (*step_row)(const Forward<T>&, ForwardRows<T>&, long j);
  void (*backward)(const Backward<T>&, BackwardRows<T>&, Stage, long j0, long rows, long u0);
  void (*backward_row)(const Backward<T>&, BackwardRows<T>&, long j);

  Sizes<T> sizes(long hidden) const { return Sizes<T>(planes, states, hidden); }
  int num_parameters() const { return slot::own + num_own; }
  int first_gates() const { return staged ? gates - 1 : gates; }  // gates of a step's first product
  // Whether a step that saves nothing can read W x + b where the caller has it: Layer::input_projection.
  bool takes_input_projection(long hidden) const {
    return !staged && !whole_rows && !input_plane && hidden % lanes<T> == 0;
  }
};

}  // namespace carousel
