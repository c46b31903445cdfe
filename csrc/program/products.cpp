// The products after the loop over time, with all steps at once: the gradients of matrices and of the input.
#include "core/gemm.hpp"
#include "core/pool.hpp"
#include "core/threads.hpp"
#include "program/program.hpp"

namespace carousel {

namespace {

constexpr long chunk = 512;  // rows of B in panels at a time

template <class T>
class Product {
 public:
  explicit Product(const LargeProduct<T>& p) : p(p) {
    if (p.turned) turned.reserve(p.M * padded_chunk);
  }

  void work_of(const Team& team) {
    long from, to, rows_from, rows_to;  // panels of C, rows of Aᵀ
    team.share(ceil_div(p.N, panel<T>), from, to);
    team.share(p.M, rows_from, rows_to);
    Buffer<T> panels;
    panels.reserve(std::max(1L, (to - from) * std::min(chunk, p.K) * panel<T>));
    List<const T*> a(p.M);
    List<T*> c(p.M);
    const long column = from * panel<T>, width = std::min(p.N, to * panel<T>) - column;
    for (long m = 0; m < p.M; m++) c[m] = p.C + m * p.ldc + column;
    for (long k0 = 0; k0 < p.K; k0 += chunk) {
      const long depth = std::min(chunk, p.K - k0);
      if (p.turned) {
        transpose<T>(p.A + k0 * p.lda + rows_from, p.lda, depth, rows_to - rows_from, turned + rows_from * padded_chunk, padded_chunk);
        team.sync();
      }
      for (long m = 0; m < p.M; m++) a[m] = p.turned ? turned + m * padded_chunk : p.A + m * p.lda + k0;
      pack_rows<T>(depth, width, [&](long k) { return p.B + (k0 + k) * p.ldb + column; }, 0, to - from, panels);
      const Packed<T> w{panels, depth, nullptr, width, nullptr};
      multiply<T>(p.M, a.data(), 0, w, 0, to - from, c.data(), p.add || k0 ? Into::add : Into::store);
      if (p.turned) team.sync();
    }
  }

 private:
  static constexpr long padded_chunk = chunk + 64 / long(sizeof(T));
  const LargeProduct<T>& p;
  Buffer<T> turned;  // (M, chunk)
};

}  // namespace

template <class T>
void large_product(const LargeProduct<T>& p) {
  if (p.K <= 0)
    for (long m = 0; m < p.M && !p.add; m++) std::fill_n(p.C + m * p.ldc, p.N, T(0));
  if (p.M <= 0 || p.N <= 0 || p.K <= 0) return;
  const int threads = double(p.M) * p.N * p.K < double(1 << 16) ? 1 : p.threads;
  Product<T> product(p);
  Region region;
  Barrier barrier(region, threads);
  region.run(threads, [&](int rank, int size) { product.work_of(Team{barrier, rank, size}); });
}

template void large_product(const LargeProduct<float>&);
template void large_product(const LargeProduct<double>&);

}  // namespace carousel
