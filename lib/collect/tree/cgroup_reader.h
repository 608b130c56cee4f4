#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/model/sample.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// The memory cgroup of a process, where its files are.
struct MemoryCgroup {
  int version = 0;   ///< 1 or 2
  std::string path;  ///< as /proc/PID/cgroup has it
  std::shared_ptr<const Directory> directory;
  int levels = 0;  ///< of groups between the mount and this one
};

/// The memory cgroup of the process whose /proc directory is `process`. kNotFound when it has none
/// or when its files are not mounted where dlprobe runs.
Expected<MemoryCgroup> find_memory_cgroup(const Machine& machine, const Directory& process);

/// Reads the memory of one cgroup again and again, v1 or v2.
class CgroupReader {
 public:
  /// The memory cgroup of the process whose /proc directory is `process`. kNotFound when it has
  /// none or when its files are not mounted where dlprobe runs.
  static Expected<CgroupReader> open(const Machine& machine, const Directory& process);

  /// The numbers now. The limit is read and, of v2, swap and pressure are read at most
  /// once a second; the latter two are absent otherwise.
  Observed<CgroupMemory> read(BootNs now);

 private:
  CgroupReader() = default;
  Status read_v1(CgroupMemory& memory) const;
  Status read_v2(CgroupMemory& memory) const;
  void read_limit_v2();
  void read_swap_and_pressure_v2(CgroupMemory& memory) const;

  MemoryCgroup group_;
  std::unique_ptr<const KeptFile> usage_;
  std::unique_ptr<const KeptFile> stat_;
  std::unique_ptr<const KeptFile> events_;
  std::optional<uint64_t> limit_bytes_;
  BootNs limit_read_at_ = 0;
};

/// Memory of the host now.
Observed<HostMemory> read_host_memory(const Directory& root);

}  // namespace dlprobe
