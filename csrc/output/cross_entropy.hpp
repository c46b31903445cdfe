// The output layer of a language model: linear, softmax and cross-entropy, with the derivative.
#pragma once

#include <cstdint>

namespace carousel {

// What one call is given. N tokens, D features, V classes; null pointers stand for what is absent or not wanted.
template <class T>
struct Output {
  long tokens = 0, features = 0, classes = 0;
  int threads = 1;
  const T* hidden = nullptr;              // (N, D)
  const T* weight = nullptr;              // (V, D)
  const T* bias = nullptr;                // (V)
  const std::int64_t* targets = nullptr;  // (N)
  std::int64_t ignore_index = -100;       // tokens with this target are left out of everything
  double smoothing = 0;                   // the share of y that is spread over all classes
  bool mean = false;                      // gradients are those of the mean over tokens, else those of the sum,
  const T* scale = nullptr;               // (N): of a sum with these factors
  T* losses = nullptr;                    // (N): 0 where ignored
  T* d_hidden = nullptr;                  // (N, D)
  T* d_weight = nullptr;                  // (V, D)
  T* d_bias = nullptr;                    // (V)
};

// Losses, and the gradients that have a place to go.
template <class T>
void cross_entropy(const Output<T>&);

}  // namespace carousel
