// The sum of squares of all numbers of some tensors.
#pragma once

#include "core/pool.hpp"

namespace carousel {

template <class T>
struct Numbers {
  const T* data;
  long count;
};

template <class T>
double squares(const List<Numbers<T>>& tensors, int threads);

}  // namespace carousel
