// The output layer of a beam search: the k best of log softmax(W h + b) in each row.
#pragma once

#include <cstdint>

#include "output/panels.hpp"

namespace carousel {


template <class T>
struct TopKCall {
  long rows, size, vocab, k;  // N, D, V, k ≤ V
  const T* h;                 // (N, D)
  const T* weight;            // (V, D)
  const T* bias;              // (V); null: none
  const std::int64_t* never;  // (nevers): tokens that are counted but not chosen
  long nevers;
  T* values;             // (N, k): best first, -inf where there are fewer; NaN if a logit of the row is one
  std::int64_t* tokens;  // (N, k): among equals the lower first; 0 where there are fewer
};

template <class T>
void topk(const TopKCall<T>&, OutputPanels<T>&, int threads);

}  // namespace carousel
