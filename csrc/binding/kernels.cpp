// Compiled once for each instruction set and number type (CAROUSEL_REAL).
#include "binding/kernels.hpp"

#include <map>

#include "recurrent/backward.hpp"
#include "cells/coupled.hpp"
#include "cells/elman.hpp"
#include "cells/gru.hpp"
#include "cells/layernorm.hpp"
#include "cells/lstm.hpp"
#include "cells/peephole.hpp"
#include "recurrent/pointwise.hpp"

namespace carousel {

namespace {

template <class T>
const std::map<std::string, CellKernel<T>>& kernels() {
  static const std::map<std::string, CellKernel<T>> table = {
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
const CellKernel<T>* find_kernel(const std::string& cell) {
  const auto found = kernels<T>().find(cell);
  return found == kernels<T>().end() ? nullptr : &found->second;
}

template <class T>
void run_forward(const Layer<T>& layer, const CellKernel<T>& cell) {
  forward<T>(layer, cell);
}

template <class T>
void run_backward(const Layer<T>& layer, const CellKernel<T>& cell) {
  backward<T>(layer, cell);
}

template <class T>
std::unique_ptr<Walking<T>> make_walk(const Layer<T>& layer, const CellKernel<T>& cell) {
  return std::make_unique<Walk<T>>(layer, cell);
}

template <class T>
void run_output(const Output<T>& call) {
  cross_entropy<T>(call);
}

template <class T>
void run_attend(const Attend<T>& call, int threads) {
  attend<T>(call, threads);
}

template <class T>
void run_look(const Look<T>& call, OutputPanels<T>& panels, int threads) {
  look<T>(call, panels, threads);
}

template <class T>
void run_dropout(const Dropout<T>& call, int threads) {
  dropout<T>(call, threads);
}

template <class T>
double run_squares(const std::vector<Numbers<T>>& tensors, int threads) {
  return squares<T>(tensors, threads);
}

template <class T>
void run_predict(const Prediction<T>& call, OutputPanels<T>& panels, int threads) {
  predict<T>(call, panels, threads);
}

template <class T>
void run_rank(const Ranking<T>& call, OutputPanels<T>& panels, int threads) {
  rank<T>(call, panels, threads);
}

template <class T>
void run_choose(const Choices<T>& call, const std::vector<Sampler>& samplers, int threads) {
  choose<T>(call, samplers, threads);
}

template void run_output(const Output<CAROUSEL_REAL>&);
template void run_attend(const Attend<CAROUSEL_REAL>&, int);
template void run_look(const Look<CAROUSEL_REAL>&, OutputPanels<CAROUSEL_REAL>&, int);
template void run_dropout(const Dropout<CAROUSEL_REAL>&, int);
template double run_squares(const std::vector<Numbers<CAROUSEL_REAL>>&, int);
template void run_predict(const Prediction<CAROUSEL_REAL>&, OutputPanels<CAROUSEL_REAL>&, int);
template void run_rank(const Ranking<CAROUSEL_REAL>&, OutputPanels<CAROUSEL_REAL>&, int);
template void run_choose(const Choices<CAROUSEL_REAL>&, const std::vector<Sampler>&, int);
template void run_forward(const Layer<CAROUSEL_REAL>&, const CellKernel<CAROUSEL_REAL>&);
template void run_backward(const Layer<CAROUSEL_REAL>&, const CellKernel<CAROUSEL_REAL>&);
template std::unique_ptr<Walking<CAROUSEL_REAL>> make_walk(const Layer<CAROUSEL_REAL>&, const CellKernel<CAROUSEL_REAL>&);
template const CellKernel<CAROUSEL_REAL>* find_kernel<CAROUSEL_REAL>(const std::string&);

}  // namespace carousel
