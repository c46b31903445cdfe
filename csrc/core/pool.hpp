// Where the memory of a call comes from. Fresh pages cost more than the arithmetic of a small layer, so large blocks
// return to a free list and not to the system. Nothing here belongs to a call: any number of them may run at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace carousel {

// Fault injection for tests: every allocation of a call asks here first, and one of them can be made to fail.
class Allocations {
 public:
  static void check() {
    if (left.load(std::memory_order_relaxed) >= 0 && left.fetch_sub(1, std::memory_order_relaxed) == 0)
      throw std::bad_alloc();
  }

  // After n more allocations one fails, once; negative: none. Returns how many were left, negative if none was to fail.
  static long fail_after(long n) { return left.exchange(n, std::memory_order_relaxed); }

 private:
  static inline std::atomic<long> left{-1};
};

template <class E>
struct Allocator {
  using value_type = E;
  Allocator() = default;
  template <class Other>
  Allocator(const Allocator<Other>&) {}

  E* allocate(std::size_t n) {
    Allocations::check();
    return std::allocator<E>().allocate(n);
  }
  void deallocate(E* p, std::size_t n) { std::allocator<E>().deallocate(p, n); }
  friend bool operator==(const Allocator&, const Allocator&) { return true; }
  friend bool operator!=(const Allocator&, const Allocator&) { return false; }
};

template <class E>
using List = std::vector<E, Allocator<E>>;

class Pool {
 public:
  static Pool& shared() {
    static Pool* pool = new Pool;  // never destroyed: tensors may outlive everything else at exit
    return *pool;
  }

  // At least `bytes`, aligned to a cache line; `bytes` becomes the block's true size, which give() wants back.
  void* take(std::size_t& bytes) {
    Allocations::check();
    void* block = allocate(bytes);
    if (counting.load(std::memory_order_relaxed)) taken.fetch_add(1, std::memory_order_relaxed);
    return block;
  }

  void give(void* block, std::size_t bytes) {
    if (!block) return;
    if (counting.load(std::memory_order_relaxed)) taken.fetch_sub(1, std::memory_order_relaxed);
    release(block, bytes);
  }

  // For tests: blocks taken and not given back, counted since the first call, so that other programs do not pay for it.
  long in_use() {
    counting.store(true, std::memory_order_relaxed);
    return taken.load(std::memory_order_relaxed);
  }

 private:
  struct Block {
    std::size_t bytes;
    void* block;
  };
  static constexpr std::size_t small = 64 << 10, huge = 2 << 20, most = std::size_t(256) << 20;
  std::mutex mutex;
  std::deque<Block> free;  // in the order they were given back
  std::size_t held = 0;
  std::atomic<bool> counting{false};
  std::atomic<long> taken{0};

  void* allocate(std::size_t& bytes) {
#if defined(__SANITIZE_ADDRESS__)  // exactly what was asked for, so that a stray access shows
    void* exact = nullptr;
    if (posix_memalign(&exact, 64, bytes)) throw std::bad_alloc();
    return exact;
#else
    if (bytes + 128 < small) {  // stays below `small` when rounded up, as give() expects
      bytes = (bytes + 127) / 64 * 64;
      return checked(std::aligned_alloc(64, bytes));
    }
    bytes = size_class(bytes);
    {
      std::lock_guard<std::mutex> lock(mutex);
      for (auto found = free.rbegin(); found != free.rend(); ++found)  // the last one given is the warmest
        if (found->bytes == bytes) {
          void* block = found->block;
          held -= bytes;
          free.erase(std::next(found).base());
          return block;
        }
    }
    void* block = nullptr;
    if (posix_memalign(&block, bytes >= huge ? huge : 4096, bytes)) throw std::bad_alloc();
#if defined(__linux__)
    if (bytes >= huge) madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
#endif
  }

  void release(void* block, std::size_t bytes) noexcept {
#if defined(__SANITIZE_ADDRESS__)
    bytes = 0;
#endif
    if (bytes < small) return std::free(block);
    std::lock_guard<std::mutex> lock(mutex);
    try {
      free.push_back({bytes, block});
    } catch (const std::bad_alloc&) {  // no memory to remember it
      return std::free(block);
    }
    held += bytes;
    while (held > most) {  // the block that waited longest has a size that is no longer asked for
      held -= free.front().bytes;
      std::free(free.front().block);
      free.pop_front();
    }
  }

  // Sizes come in steps of an eighth of a power of two, so that calls of nearly one size share their blocks.
  static std::size_t size_class(std::size_t bytes) {
    std::size_t step = small / 8;
    while (step * 16 < bytes) step *= 2;
    return (bytes + step - 1) / step * step;
  }

  static void* checked(void* block) {
    if (!block) throw std::bad_alloc();
    return block;
  }
};

// Memory that lives as long as the call that needs it.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { Pool::shared().give(data, bytes); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void reserve(long n) {
    Pool::shared().give(data, bytes);
    data = nullptr;
    bytes = std::size_t(n) * sizeof(T);
    data = static_cast<T*>(Pool::shared().take(bytes));
  }
  void zero(long n) {
    reserve(n);
    for (long j = 0; j < n; j++) data[j] = T();
  }
  operator T*() const { return data; }

 private:
  T* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace carousel
