// The output layer for a few rows at a time: log softmax(W h + b).
#pragma once

#include "output/panels.hpp"

namespace carousel {


template <class T>
struct LogSoftmaxCall {
  long rows, size, vocab;  // N, D, V
  const T* h;              // (N, D)
  const T* weight;         // (V, D)
  const T* bias;           // (V); null: none
  T* log_probs;            // (N, V)
};

template <class T>
void log_softmax(const LogSoftmaxCall<T>&, OutputPanels<T>&, int threads);

}  // namespace carousel
