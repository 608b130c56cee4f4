#include "lib/stacks/native/memory.h"

#include <algorithm>

namespace dlprobe {

Expected<const ProcessMemory::Page*> ProcessMemory::page(uint64_t number) const {
  const auto found = pages_.find(number);
  if (found != pages_.end()) return found->second.get();
  auto page = std::make_unique<Page>();
  DLP_CHECK(processes_->read_memory(pid_, number * kPageBytes, *page));
  return pages_.emplace(number, std::move(page)).first->second.get();
}

Status ProcessMemory::read(uint64_t address, std::span<std::byte> bytes) const {
  if (address + bytes.size() < address) {
    return failure(ErrorCode::kNotFound, "read memory beyond the last address");
  }
  while (!bytes.empty()) {
    const uint64_t offset = address % kPageBytes;
    DLP_TRY(const Page* page, this->page(address / kPageBytes));
    const size_t count = std::min<size_t>(bytes.size(), kPageBytes - offset);
    std::memcpy(bytes.data(), page->data() + offset, count);
    bytes = bytes.subspan(count);
    address += count;
  }
  return {};
}

void ProcessMemory::preload(uint64_t begin, uint64_t end) const {
  const uint64_t first = begin / kPageBytes;
  const uint64_t last = (end + kPageBytes - 1) / kPageBytes;
  if (first >= last) return;
  std::vector<std::byte> bytes((last - first) * kPageBytes);
  if (!processes_->read_memory(pid_, first * kPageBytes, bytes)) return;
  for (uint64_t number = first; number < last; ++number) {
    const auto [entry, is_new] = pages_.try_emplace(number);
    if (!is_new) continue;
    entry->second = std::make_unique<Page>();
    std::memcpy(entry->second->data(), bytes.data() + (number - first) * kPageBytes, kPageBytes);
  }
}

}  // namespace dlprobe
