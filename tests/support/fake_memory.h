#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "lib/stacks/native/memory.h"

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
  void write(uint64_t address, std::span<const std::byte> bytes) {
    for_each_part(address, bytes.size(), [&bytes](Page& page, size_t offset, size_t count) {
      std::ranges::copy(bytes.first(count), page.bytes.begin() + static_cast<ptrdiff_t>(offset));
      bytes = bytes.subspan(count);
    });
  }
  /// Zeros, where nothing was written yet.
  void map(uint64_t address, uint64_t count) {
    for_each_part(address, count, [](Page&, size_t, size_t) {});
  }
  /// Calls `visit(address, bytes)` for each page, with zeros where nothing was written, in no
  /// order.
  template <class Visit>
  void for_each_page(Visit&& visit) const {
    for (const auto& [number, page] : pages_)
      visit(number * kPageBytes, std::span<const std::byte>(page.bytes));
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

  /// Marks the bytes as written, and calls `visit(page, offset, count)` for what is in each page.
  template <class Visit>
  void for_each_part(uint64_t address, uint64_t bytes, Visit&& visit) {
    while (bytes > 0) {
      const uint64_t offset = address % kPageBytes;
      const size_t count = std::min<uint64_t>(bytes, kPageBytes - offset);
      Page& page = pages_[address / kPageBytes];
      if (count == kPageBytes) page.written.set();
      for (size_t i = offset; i < offset + count && !page.written.all(); ++i)
        page.written.set(i);
      visit(page, offset, count);
      address += count;
      bytes -= count;
    }
  }

  std::unordered_map<uint64_t, Page> pages_;
};

}  // namespace dlprobe
