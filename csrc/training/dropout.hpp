// Dropout without a mask in memory.
#pragma once

#include <cstdint>

namespace carousel {

// y = x, with a share `rate` < 1 of the places 0 and the others scaled so that the mean stays. The mask has `places`
// places and is used `times` times, one after the other.
template <class T>
struct Dropout {
  long places, times;
  std::uint64_t seed;
  double rate;
  const T* x;  // (times, places)
  T* y;        // (times, places)
};

template <class T>
void dropout(const Dropout<T>&, int threads);

}  // namespace carousel
