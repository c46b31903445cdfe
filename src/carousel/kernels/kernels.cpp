// Compiled once for each instruction set and number type (CAROUSEL_REAL).
#include "kernels.hpp"

#include <map>

#include "backward.hpp"
#include "coupled.hpp"
#include "elman.hpp"
#include "gru.hpp"
#include "layernorm.hpp"
#include "lstm.hpp"
#include "peephole.hpp"

namespace carousel {

namespace {

template <class Cell, class T>
Kernel<T> kernel() {
  return {forward<Cell, T>, backward<Cell, T>, [](long hidden) { return Sizes<Cell, T>(hidden).value_row; },
          [](long hidden) { return Cell::has_c ? Sizes<Cell, T>(hidden).cell_row : 0; },
          [](long hidden) { return Sizes<Cell, T>(hidden).plane; }};
}

template <class T>
const std::map<std::string, Kernel<T>>& kernels() {
  static const std::map<std::string, Kernel<T>> table = {
      {"elman-tanh", kernel<Elman<T, Tanh>, T>()},
      {"elman-relu", kernel<Elman<T, Relu>, T>()},
      {"elman-sigmoid", kernel<Elman<T, Sigmoid>, T>()},
      {"lstm", kernel<LSTM<T>, T>()},
      {"peephole", kernel<Peephole<T>, T>()},
      {"coupled", kernel<Coupled<T, false>, T>()},
      {"coupled-peephole", kernel<Coupled<T, true>, T>()},
      {"layernorm", kernel<LayerNorm<T>, T>()},
      {"gru", kernel<GRU<T>, T>()},
      {"gru-reset-before", kernel<ResetBeforeGRU<T>, T>()},
  };
  return table;
}

}  // namespace

template <class T>
const Kernel<T>* find_kernel(const std::string& cell) {
  const auto found = kernels<T>().find(cell);
  return found == kernels<T>().end() ? nullptr : &found->second;
}

template const Kernel<CAROUSEL_REAL>* find_kernel<CAROUSEL_REAL>(const std::string&);

}  // namespace carousel
