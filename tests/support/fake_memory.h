#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "lib/stacks/memory.h"

namespace dlprobe {

/// A memory that a test makes up: what was not written cannot be read.
class FakeMemory final : public Memory {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void set(uint64_t address, const T& value) {
    write(address, std::as_bytes(std::span(&value, 1)));
  }
  void set_text(uint64_t address, const std::string& text) {
    write(address, std::as_bytes(std::span(text)));
  }
  /// Zeros, where nothing was written yet.
  void map(uint64_t address, uint64_t count) {
    for (; count > 0; --count)
      at(address++);
  }

  Status read(uint64_t address, std::span<std::byte> bytes) const override {
    while (!bytes.empty()) {
      const uint64_t offset = address % kPageBytes;
      const size_t count = std::min<size_t>(bytes.size(), kPageBytes - offset);
      const auto page = pages_.find(address / kPageBytes);
      if (page == pages_.end() || !page->second.has(offset, count)) {
        return failure(ErrorCode::kNotFound, "read memory that is not mapped");
      }
      std::ranges::copy_n(page->second.bytes.begin() + static_cast<ptrdiff_t>(offset),
                          static_cast<ptrdiff_t>(count), bytes.begin());
      bytes = bytes.subspan(count);
      address += count;
    }
    return {};
  }

 private:
  static constexpr uint64_t kPageBytes = 4096;
  struct Page {
    std::array<std::byte, kPageBytes> bytes{};
    std::bitset<kPageBytes> written;

    bool has(size_t offset, size_t count) const {
      if (written.all()) return true;
      for (size_t i = offset; i < offset + count; ++i) {
        if (!written[i]) return false;
      }
      return true;
    }
  };

  std::byte& at(uint64_t address) {
    Page& page = pages_[address / kPageBytes];
    page.written.set(address % kPageBytes);
    return page.bytes[address % kPageBytes];
  }
  void write(uint64_t address, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes)
      at(address++) = byte;
  }

  std::unordered_map<uint64_t, Page> pages_;
};

}  // namespace dlprobe
