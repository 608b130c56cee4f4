#include "lib/collect/tree/cpu_use.h"

#include <algorithm>
#include <utility>

namespace dlprobe {

CpuUse::CpuUse(const Machine& machine, std::vector<int> cpus)
    : root_(machine.root), cpus_(std::move(cpus)), first_(look()) {}

std::vector<CpuTime> CpuUse::look() const {
  auto times = chain(root_->read("proc/stat"), parse_cpu_stat);
  if (!times) return {};
  std::erase_if(*times,
                [&](const CpuTime& time) { return std::ranges::count(cpus_, time.number) == 0; });
  return std::move(*times);
}

// As shares: the clock of these times stands still while a machine sleeps.
std::optional<double> CpuUse::busy_cpus() const {
  std::optional<double> busy;
  for (const CpuTime& now : look()) {
    const auto then = std::ranges::find(first_, now.number, &CpuTime::number);
    if (then == first_.end() || now.total_ticks <= then->total_ticks) continue;
    if (now.busy_ticks < then->busy_ticks) continue;
    busy = busy.value_or(0) + static_cast<double>(now.busy_ticks - then->busy_ticks) /
                                  static_cast<double>(now.total_ticks - then->total_ticks);
  }
  return busy;
}

}  // namespace dlprobe
