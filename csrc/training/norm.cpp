// The sum of squares of all numbers of some tensors, in one pass. Pieces of one size are added up in one order, so any
// number of threads gives the same.
#include "training/norm.hpp"

#include <algorithm>

#include "core/simd.hpp"
#include "core/threads.hpp"

namespace carousel {

namespace {

template <class T>
double piece_squares(const T* x, long n) {
  constexpr int some = 4;
  Vec<T> sum[some] = {};
  long i = 0;
  for (; i + some * lanes<T> <= n; i += some * lanes<T>)
#pragma GCC unroll 4
    for (int k = 0; k < some; k++) {
      const Vec<T> v = load<T>(x + i + k * lanes<T>);
      sum[k] += v * v;
    }
  double rest = 0;
  for (; i < n; i++) rest += double(x[i]) * double(x[i]);
  return rest + double(total<T>((sum[0] + sum[1]) + (sum[2] + sum[3])));
}

}  // namespace

template <class T>
double squares(const List<Numbers<T>>& tensors, int threads) {
  constexpr long piece = 1 << 14;
  List<Numbers<T>> pieces;
  for (const Numbers<T>& t : tensors)
    for (long i = 0; i < t.count; i += piece) pieces.push_back({t.data + i, std::min(piece, t.count - i)});
  List<double> sums(pieces.size());
  parallel(pieces.size() < 4 ? 1 : threads, [&](int rank, int size) {
    const long n = long(pieces.size());
    for (long k = n * rank / size; k < n * (rank + 1) / size; k++) sums[k] = piece_squares(pieces[k].data, pieces[k].count);
  });
  double all = 0;
  for (double sum : sums) all += sum;
  return all;
}

template double squares(const List<Numbers<float>>&, int);
template double squares(const List<Numbers<double>>&, int);

}  // namespace carousel
