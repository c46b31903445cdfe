// Threads: a parallel region that an exception may leave, spin barriers in it, and the floating-point mode of a worker.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <exception>

#include "core/pool.hpp"

// ThreadSanitizer does not see the synchronisation of the OpenMP runtime, so its build uses std::thread.
#if defined(CAROUSEL_STD_THREADS)
#include <thread>
#else
#include <omp.h>
#endif

namespace carousel {

// Denormal numbers count as zero while this lives (a step with them can be twenty times slower); the mode that was
// there before is restored at its end, in every thread that had one.
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

// One parallel region. An exception in one of its threads ends the region, and the caller of run() receives it: the other
// threads stop at their next barrier.
class Region {
 public:
  struct Stopped {};  // thrown at a barrier when another thread has failed; never leaves run()

  bool failed() const { return stop.load(std::memory_order_relaxed); }

  // work(rank, size) on up to `threads` threads; `size` is the number the runtime granted, the one barriers need.
  template <class Work>
  void run(int threads, const Work& work) {
    if (threads == 1) {
      FlushDenormals mode;
      work(0, 1);
      return;
    }
    auto guarded = [&](int rank, int size) {
      FlushDenormals mode;
      try {
        work(rank, size);
      } catch (const Stopped&) {
      } catch (...) {
        if (!stop.exchange(true)) first = std::current_exception();
      }
    };
#if defined(CAROUSEL_STD_THREADS)
    std::vector<std::thread> others;
    for (int rank = 1; rank < threads; rank++) others.emplace_back(guarded, rank, threads);
    guarded(0, threads);
    for (std::thread& other : others) other.join();
#else
#pragma omp parallel num_threads(threads)
    guarded(omp_get_thread_num(), omp_get_num_threads());
#endif
    if (first) std::rethrow_exception(first);
  }

 private:
  std::atomic<bool> stop{false};
  std::exception_ptr first;
};

// A region without barriers.
template <class Work>
void parallel(int threads, const Work& work) {
  Region region;
  region.run(threads, work);
}

// Each thread counts the barriers it has reached where the others can see it: one cache line travels each way.
class Barrier {
 public:
  Barrier(const Region& region, int threads) : region(region), seen(std::size_t(threads)) {}

  void wait(int rank, int size) {
    if (size == 1) return;
    const unsigned now = seen[rank].barriers.load(std::memory_order_relaxed) + 1;
    seen[rank].barriers.store(now, std::memory_order_release);
    for (int other = 0; other < size; other++) {
      for (int spins = 0; int(seen[other].barriers.load(std::memory_order_acquire) - now) < 0; spins++) {
        pause();
        if (spins <= 2000) continue;
        if (region.failed()) throw Region::Stopped();
        sched_yield();  // after some microseconds: there may be fewer cores free than threads
        spins = 1900;
      }
    }
  }

 private:
  struct alignas(64) Seen {
    std::atomic<unsigned> barriers{0};
  };
  const Region& region;
  List<Seen> seen;
};

// The threads that work on one direction, seen from one of them.
struct Team {
  Barrier& barrier;
  int rank, size;

  void sync() const { barrier.wait(rank, size); }

  // This thread's share of n things: [from, to).
  void share(long n, long& from, long& to) const { from = n * rank / size, to = n * (rank + 1) / size; }
};

}  // namespace carousel
