// Threads: a parallel region with one spin barrier, and the floating-point mode of a worker.
#pragma once

#include <omp.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace carousel {

// Denormal numbers count as zero while this lives (a step with them can be twenty times slower); the mode that was
// there before comes back with its end, in every thread that had one.
class FlushDenormals {
 public:
#if defined(__SSE2__)
  FlushDenormals() : before(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(before | 0x8040u); }
  ~FlushDenormals() { __builtin_ia32_ldmxcsr(before); }

 private:
  unsigned before;
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before));
    asm volatile("msr fpcr, %0" : : "r"(before | (std::uint64_t(1) << 24)));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" : : "r"(before)); }

 private:
  std::uint64_t before;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Each thread counts the barriers it has come to where the others can see it: one cache line travels each way.
class Barrier {
 public:
  Barrier(int threads) : seen(std::size_t(threads)) {}

  void wait(int rank, int size) {
    if (size == 1) return;
    const unsigned now = seen[rank].barriers.load(std::memory_order_relaxed) + 1;
    seen[rank].barriers.store(now, std::memory_order_release);
    for (int other = 0; other < size; other++) {
      // after some microseconds give the processor away: there may be fewer cores free than threads
      for (int spins = 0; int(seen[other].barriers.load(std::memory_order_acquire) - now) < 0; spins++) {
        pause();
        if (spins > 2000) sched_yield(), spins = 1900;
      }
    }
  }

 private:
  struct alignas(64) Seen {
    std::atomic<unsigned> barriers{0};
  };
  std::vector<Seen> seen;
};

// The threads that work on one direction, seen from one of them.
struct Team {
  Barrier& barrier;
  int rank, size;

  void sync() const { barrier.wait(rank, size); }

  // This thread's share of n things: [from, to).
  void share(long n, long& from, long& to) const { from = n * rank / size, to = n * (rank + 1) / size; }
};

// work(rank, size) on up to `threads` threads; `size` is the number the runtime granted, the one barriers need.
template <class Work>
void parallel(int threads, const Work& work) {
  if (threads == 1) {
    FlushDenormals mode;
    work(0, 1);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    FlushDenormals mode;
    work(omp_get_thread_num(), omp_get_num_threads());
  }
}

}  // namespace carousel
