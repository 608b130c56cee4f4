#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/os/file_system.h"

namespace dlprobe {

/// A shared mapping of a file, as the kernel's list of mappings has it.
struct SharedMapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t device = 0;  ///< as st_dev
  uint64_t inode = 0;
  std::string name;  ///< path, with " (deleted)" if it was unlinked; hostile text

  bool operator==(const SharedMapping&) const = default;
};

/// A descriptor of a process.
struct ProcessFile {
  pid_t pid = 0;
  int fd = -1;
};
enum class FileIdentity { kSame, kDifferent };

/// What only a live kernel can say about processes: system calls that are not files. None of them
/// changes anything in the target. The base class says kUnsupported to all: a recorded machine.
class ProcessAccess {
 public:
  virtual ~ProcessAccess() = default;
  ProcessAccess() = default;
  ProcessAccess(const ProcessAccess&) = delete;
  ProcessAccess& operator=(const ProcessAccess&) = delete;

  /// pidfd_open(2).
  virtual Expected<UniqueFd> open_pidfd(pid_t pid) const;

  /// For each pidfd whether its process has ended (it may not be reaped yet); -1 is never ended.
  virtual std::vector<bool> ended(std::span<const int> pidfds) const;

  /// The wait status of an ended process that its parent has reaped; nothing while it is a zombie.
  /// kUnsupported before Linux 6.15.
  virtual Expected<std::optional<int32_t>> exit_status(int pidfd) const;

  /// process_vm_readv(2): fills all of `bytes` or fails. May wait for the target's mmap lock.
  virtual Status read_memory(pid_t pid, uint64_t address, std::span<std::byte> bytes) const;

  /// Which of `count` pages of memory from `address` on are in memory, by /proc/PID/pagemap:
  /// reading others would make page tables for them in the target, or bring them back from swap.
  /// kUnsupported where the kernel has no pagemap.
  virtual Expected<std::vector<bool>> pages_in_memory(pid_t pid, uint64_t address,
                                                      size_t count) const;
  /// Whether two descriptors are of one open file description, with one position: kcmp(2).
  /// kForbidden without the right to trace both, kUnsupported where the kernel was built without.
  virtual Expected<FileIdentity> compare_files(const ProcessFile& one,
                                               const ProcessFile& other) const;

  /// Runs `work` while the calling thread is on that CPU, and no other; what it returns. Fails if
  /// that CPU is offline or not in this process's cpuset. The thread may then run where it might
  /// before.
  virtual Status run_on_cpu(int32_t cpu, const std::function<Status()>& work) const;

  /// The shared file mappings of the process whose /proc directory is `process`, by PROCMAP_QUERY.
  /// kUnsupported before Linux 6.11: read the text of maps then. May wait for the target's mmap
  /// lock.
  virtual Expected<std::vector<SharedMapping>> shared_mappings(const Directory& process) const;
};

/// The live machine's.
class SystemProcesses final : public ProcessAccess {
 public:
  Expected<UniqueFd> open_pidfd(pid_t pid) const override;
  std::vector<bool> ended(std::span<const int> pidfds) const override;
  Expected<std::optional<int32_t>> exit_status(int pidfd) const override;
  Status read_memory(pid_t pid, uint64_t address, std::span<std::byte> bytes) const override;
  Expected<std::vector<bool>> pages_in_memory(pid_t pid, uint64_t address,
                                              size_t count) const override;
  Status run_on_cpu(int32_t cpu, const std::function<Status()>& work) const override;
  Expected<FileIdentity> compare_files(const ProcessFile& one,
                                       const ProcessFile& other) const override;
  Expected<std::vector<SharedMapping>> shared_mappings(const Directory& process) const override;
};

/// Raises the soft limit of open files of dlprobe itself to the hard one, and both to 1024 where
/// they are lower and it may: watching keeps several descriptors per process open. Returns the soft
/// limit that holds now.
uint64_t raise_open_files_limit();

}  // namespace dlprobe
