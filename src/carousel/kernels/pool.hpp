// Where the memory of a call comes from. Fresh pages cost more than the arithmetic of a small layer, so large blocks go
// back to a free list and not to the system. Nothing here belongs to a call: any number of them may run at once.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace carousel {

class Pool {
 public:
  static Pool& shared() {
    static Pool* pool = new Pool;  // never destroyed: tensors may outlive everything else at exit
    return *pool;
  }

  // At least `bytes`, aligned to a cache line; `bytes` becomes the block's true size, which give() wants back.
  void* take(std::size_t& bytes) {
#if defined(__SANITIZE_ADDRESS__)  // exactly what was asked for, so that a stray access shows
    void* exact = nullptr;
    if (posix_memalign(&exact, 64, bytes)) throw std::bad_alloc();
    return exact;
#else
    if (bytes < small) {
      bytes = (bytes + 127) / 64 * 64;
      return checked(std::aligned_alloc(64, bytes));
    }
    {
      std::lock_guard<std::mutex> lock(mutex);
      const auto found = free.lower_bound(bytes);
      if (found != free.end() && found->first <= bytes + bytes / 2) {
        void* block = found->second;
        bytes = found->first;
        held -= bytes;
        free.erase(found);
        return block;
      }
    }
    const std::size_t step = bytes >= huge ? huge : 4096;
    bytes = (bytes + step - 1) / step * step;
    void* block = checked(std::aligned_alloc(step, bytes));
#if defined(__linux__)
    if (bytes >= huge) madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
#endif
  }

  void give(void* block, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    bytes = 0;
#endif
    if (block && bytes >= small) {
      std::lock_guard<std::mutex> lock(mutex);
      if (held + bytes <= most) {
        free.emplace(bytes, block);
        held += bytes;
        return;
      }
    }
    std::free(block);
  }

 private:
  static constexpr std::size_t small = 64 << 10, huge = 2 << 20, most = std::size_t(512) << 20;
  std::mutex mutex;
  std::multimap<std::size_t, void*> free;
  std::size_t held = 0;

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
