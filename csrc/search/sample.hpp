// The next token of each row: a chain of samplers on log-probabilities, then one draw.
#pragma once

#include <cstdint>

#include "core/pool.hpp"

namespace carousel {


enum class Sampling { temperature, top_k, random_k, top_p };

struct Sampler {
  Sampling kind;
  double value;  // t, k, k or p
};

template <class T>
struct SampleCall {
  long rows, vocab;
  const T* log_probs;     // (N, V), -inf for never
  const double* uniform;  // (N), in [0, 1), `stride` apart; null: zeros
  long stride;
  std::int64_t* tokens;  // (N)
  T* values;             // (N): the log-probabilities of the tokens
  bool* found;           // (N): whether there was anything to draw from
};

template <class T>
void sample(const SampleCall<T>&, const List<Sampler>&, int threads);

}  // namespace carousel
