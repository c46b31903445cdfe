// The table of kernels: one entry a cell, in both directions of differentiation.
#pragma once

#include <string>

#include "attention/attention.hpp"
#include "recurrent/cell.hpp"
#include "search/sample.hpp"
#include "training/dropout.hpp"
#include "training/norm.hpp"
#include "output/cross_entropy.hpp"
#include "output/topk.hpp"
#include "recurrent/stepwise.hpp"

namespace carousel {

// One layer, forwards in time or back through it.
template <class T>
void run_forward(const Layer<T>&, const CellKernel<T>&);
template <class T>
void run_backward(const Layer<T>&, const CellKernel<T>&);

// A layer a step a call, in training.
template <class T>
std::unique_ptr<Walking<T>> make_walk(const Layer<T>&, const CellKernel<T>&);

// The output layer: losses, and the gradients that have a place to go.
template <class T>
void run_output(const Output<T>&);

// Attention, or its gradients; and a search's step of it.
template <class T>
void run_attend(const Attend<T>&, int threads);
template <class T>
void run_look(const Look<T>&, OutputPanels<T>&, int threads);

template <class T>
void run_dropout(const Dropout<T>&, int threads);

template <class T>
double run_squares(const std::vector<Numbers<T>>&, int threads);

// The output layer for a few rows, all of it or its best, and the choice of a token from each: log-probabilities in,
// tokens out.
template <class T>
void run_predict(const Prediction<T>&, OutputPanels<T>&, int threads);
template <class T>
void run_rank(const Ranking<T>&, OutputPanels<T>&, int threads);
template <class T>
void run_choose(const Choices<T>&, const std::vector<Sampler>&, int threads);

// Null for a name that has no kernel.
template <class T>
const CellKernel<T>* find_kernel(const std::string& cell);

}  // namespace carousel
