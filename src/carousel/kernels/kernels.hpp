// The table of kernels: one entry a cell, in both directions of differentiation.
#pragma once

#include <string>

#include "layer.hpp"

namespace carousel {

template <class T>
struct Kernel {
  void (*forward)(const Layer<T>&);
  void (*backward)(const Layer<T>&);
  long (*value_row)(long hidden);  // elements of a row of `values`
  long (*cell_row)(long hidden);   // elements of a row of `cells`; 0: the cell has no c
  long (*plane)(long hidden);      // distance between gates in a row of `values`
};

// Null for a name that has no kernel.
template <class T>
const Kernel<T>* find_kernel(const std::string& cell);

}  // namespace carousel
