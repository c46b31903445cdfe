// W and b of an output layer, packed for products of many rows.
#pragma once

#include <algorithm>
#include <limits>

#include "core/gemm.hpp"
#include "core/pool.hpp"

namespace carousel {

// W and b, packed by the first call that has rows enough, for it and all later ones.
template <class T>
struct OutputPanels {
  Buffer<T> weight;  // (panels, D, panel)
  Buffer<T> bias;    // (panels, panel); -inf past the vocabulary
  bool made = false;

  void reserve(long vocab, long size) {
    if (made) return;
    weight.reserve(ceil_div(vocab, panel<T>) * size * panel<T>);
    bias.reserve(ceil_div(vocab, panel<T>) * panel<T>);
  }

  // Panels p0 ≤ p < p1 of W (V, D) and b (V; null: zeros), if they are not there.
  void pack(const T* W, const T* b, long vocab, long size, long p0, long p1) {
    if (made) return;
    for (long p = p0; p < p1; p++) {
      const long v = p * panel<T>, n = std::min<long>(panel<T>, vocab - v);
      if (n < panel<T>) std::fill_n(weight + v * size, size * panel<T>, T(0));
      transpose<T>(W + v * size, size, n, size, weight + v * size, panel<T>);
      for (long j = 0; j < panel<T>; j++)
        bias[v + j] = j >= n ? -std::numeric_limits<T>::infinity() : b ? b[v + j] : T(0);
    }
  }

  void keep() {
    if (!made) made = true;  // where it is, others may be reading
  }
};

}  // namespace carousel
