#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <type_traits>

#include "lib/base/error.h"
#include "lib/os/process_access.h"

namespace dlprobe {

/// The memory of one process: live, copied, or made up by a test. Addresses are the process's own.
class Memory {
 public:
  virtual ~Memory() = default;
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Fills all of `bytes` from `address` on, or fails: kForbidden, kVanished, kNotFound for an
  /// address that is not mapped.
  virtual Status read(uint64_t address, std::span<std::byte> bytes) const = 0;

  /// The object at `address`, as it lies in memory.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Expected<T> value(uint64_t address) const {
    T result{};
    DLP_CHECK(read(address, std::as_writable_bytes(std::span(&result, 1))));
    return result;
  }
};

/// The memory of a live process by process_vm_readv, page by page, each page once: what was read
/// stays as it was, so that one look gives one picture. Not thread-safe.
class ProcessMemory final : public Memory {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  ProcessMemory(std::shared_ptr<const ProcessAccess> processes, int32_t pid)
      : processes_(std::move(processes)), pid_(pid) {}

  Status read(uint64_t address, std::span<std::byte> bytes) const override;

  /// Reads [begin, end) in one go, rounded out to pages. Pages that were read before stay as they
  /// were. Where a part cannot be read, what can be is kept, and no error is told.
  void preload(uint64_t begin, uint64_t end) const;

  /// Forgets everything: the next read sees the process anew.
  void forget() { pages_.clear(); }

 private:
  using Page = std::array<std::byte, kPageBytes>;
  Expected<const Page*> page(uint64_t number) const;

  std::shared_ptr<const ProcessAccess> processes_;
  int32_t pid_;
  mutable std::map<uint64_t, std::unique_ptr<Page>> pages_;  ///< by address / kPageBytes
};

}  // namespace dlprobe
