#include "tools/reference_loader/memory_fault.h"

#include <algorithm>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe::loader {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kBlockBytes = 256 * kKiB;

/// As a dataset that was loaded before the workers were forked.
std::vector<std::byte>& memory_to_share() {
  static std::vector<std::byte> memory;
  return memory;
}

}  // namespace

void fill_memory_to_share(const FaultEffects& effects) {
  if (const auto* growth = effects.as<Growth>())
    memory_to_share().assign(growth->shared_bytes, std::byte{1});
}

void MemoryFault::before_batch() {
  if (growth_ == nullptr) return;
  if (!has_started_) start_ = Clock::now();
  const bool is_first = !std::exchange(has_started_, true);
  if (effects_.kind != FaultKind::kPrefetchBacklog) {
    const bool is_here =
        effects_.kind == FaultKind::kCopyOnWriteGrowth || worker_ == effects_.worker;
    if (is_first && is_here)
      thread_ = std::jthread([this](const std::stop_token& stop) { grow(stop); });
    return;
  }
  const std::chrono::duration<double> due(static_cast<double>(done_) /
                                          static_cast<double>(growth_->rate));
  std::this_thread::sleep_until(start_ + std::chrono::duration_cast<Clock::duration>(due));
  done_ += batch_bytes_;
}

void MemoryFault::grow(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const std::chrono::duration<double> elapsed = Clock::now() - start_;
    const auto due = static_cast<uint64_t>(elapsed.count() * static_cast<double>(growth_->rate));
    if (effects_.kind == FaultKind::kCopyOnWriteGrowth) {
      copy_until(due);
    } else {
      keep_until(due);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// As the reference counts of Python objects do it.
void MemoryFault::copy_until(uint64_t due) {
  std::vector<std::byte>& memory = memory_to_share();
  const uint64_t end = std::min<uint64_t>(due, memory.size());
  for (; done_ < end; done_ += kPageBytes)
    memory[done_] = std::byte{2};
}

void MemoryFault::keep_until(uint64_t due) {
  for (; done_ < due; done_ += kBlockBytes) {
    auto block = std::make_unique<std::byte[]>(kBlockBytes);  // zeroed: every page is written to
    kept_.push_back(std::move(block));
  }
}

}  // namespace dlprobe::loader
