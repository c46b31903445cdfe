// The table of kernels, and what can be done with one: a layer forwards, back, or one step at a time.
#pragma once

#include <memory>
#include <string>

#include "recurrent/cell.hpp"

namespace carousel {

template <class T>
void forward(const Layer<T>&, const CellKernel<T>&);
template <class T>
void backward(const Layer<T>&, const CellKernel<T>&);

// One step per call, in training. The layer has T steps of B sequences, the longest first, in one direction. Rows of
// x (T, B, I) and d_output (T, B, P) need be there when their step is called, and only those of sequences that have it.
template <class T>
struct Stepwise {
  Layer<T> layer;

  explicit Stepwise(const Layer<T>& layer) : layer(layer) {}
  virtual ~Stepwise() = default;
  virtual void forward(long t) = 0;   // t = 0, 1, …
  virtual void backward(long t) = 0;  // t = T − 1, T − 2, …
  virtual void finish() = 0;          // gradients of weights and of the first state
};

template <class T>
std::unique_ptr<Stepwise<T>> make_stepwise(const Layer<T>&, const CellKernel<T>&);

// Null for a name that has no kernel.
template <class T>
const CellKernel<T>* find_kernel(const std::string& name);

std::vector<std::string> kernel_names();

// Called before main() or at import, by each cell's translation unit; a name may be added once.
template <class T>
void add_kernel(const char* name, const CellKernel<T>&);

}  // namespace carousel
