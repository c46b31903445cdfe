// Attention of the queries of sequences over their keys and values, with the derivative.
#pragma once

#include <cstdint>

#include "output/panels.hpp"

namespace carousel {

// What one call is given. B sequences; N queries and M keys of D numbers in all, and values of O.
template <class T>
struct Attend {
  long sequences = 0, places = 0, size = 0, out = 0, most = 0;  // B, M, D, O, S
  const T* query = nullptr;  // (N, D), rows as far apart as
  long query_row = 0;        // this says
  const T* key = nullptr;    // (M, D); null: a query's own numbers are its scores, one for each place
  const T* value = nullptr;  // (M, O)
  const T* v = nullptr;      // (D): a score is v · tanh(q + k); null: q · k
  const T* base = nullptr;   // (N, O): the result is tanh(base + context); null: the context
  long base_row = 0;
  const std::int64_t* num_queries = nullptr;  // (B): of each sequence
  const std::int64_t* start = nullptr;        // (B): where its keys and values begin
  const std::int64_t* count = nullptr;        // (B): how many there are
  T* weights = nullptr;                       // (N, S), 0 past a sequence's places
  T* result = nullptr;                        // (N, O)
  const T* d_result = nullptr;                // (N, O): null in a forward call
  const T* d_weights = nullptr;               // (N, S); null: zeros
  T* d_query = nullptr;                       // (N, D)
  T* d_key = nullptr;                         // (M, D)
  T* d_value = nullptr;                       // (M, O)
  T* d_base = nullptr;                        // (N, O)
  T* d_v = nullptr;                           // (B, D): each sequence's part
};

// The weights and the result, or with d_result their gradients.
template <class T>
void attend(const Attend<T>&, int threads);

// One step of a search, from the layers' output to the vector that predicts a token: tanh(U y + context + b), where the
// context is that of additive attention over values which W has been applied to already.
template <class T>
struct AttendStep {
  long rows, sequences, query, size, out, most;  // N, B, H, D, O, S
  const T* y;                                    // (N, H)
  const T* weight;                               // (D + O, H): what makes queries of y, then U
  const T* bias;                                 // (D + O)
  const T* key;                                  // (M, D)
  const T* v;                                    // (D)
  const T* value;                                // (M, O)
  const std::int64_t *num_queries, *start, *count;  // (B): as in Attend
  T* vectors;                                    // (N, O)
};

template <class T>
void attend_step(const AttendStep<T>&, OutputPanels<T>&, int threads);

}  // namespace carousel
