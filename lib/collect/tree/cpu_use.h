#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/os/machine.h"
#include "lib/proc/cpu_stat.h"

namespace dlprobe {

/// How busy the CPUs are that dlprobe may use, whoever runs on them.
class CpuUse {
 public:
  /// Looks for the first time. `cpus`: their numbers.
  CpuUse(const Machine& machine, std::vector<int> cpus);

  /// How many of them were busy since, on average; nothing where the kernel does not say.
  std::optional<double> busy_cpus() const;

 private:
  std::vector<CpuTime> look() const;

  std::shared_ptr<const Directory> root_;
  std::vector<int> cpus_;
  std::vector<CpuTime> first_;
};

}  // namespace dlprobe
