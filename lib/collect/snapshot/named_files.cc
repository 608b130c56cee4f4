#include "lib/collect/snapshot/named_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "lib/foreign/syscalls.h"
#include "lib/proc/file_locks.h"

namespace dlprobe {

bool may_be_in_sleep(const ThreadWait& wait) {
  const Syscall* call = wait.running ? nullptr : find_syscall(wait.syscall, own_syscall_machine());
  return call != nullptr && (call->wait == WaitKind::kSleep || call->wait == WaitKind::kSelect);
}

void add_named_file(const Machine& machine, const Directory& process,
                    const std::set<std::string>& names, ThreadWait& wait) {
  constexpr uint64_t kBytesOfLockFile = 64;  // a host's name and a pid
  std::set<uint64_t> locked;
  std::vector<WaitedFile> small;
  if (!names.empty()) locked = parse_file_locks(machine.root->read("proc/locks").value_or(""));
  for (const std::string& name : names) {
    const auto stat = process.stat(name.starts_with('/') ? "root" + name : "cwd/" + name);
    if (!stat || !S_ISREG(stat->mode)) continue;
    WaitedFile file{.fd = -1, .kind = FileKind::kFile, .inode = stat->inode, .path = name};
    if (locked.contains(stat->inode)) {
      wait.files = {std::move(file)};
      return;
    }
    const bool is_known = std::ranges::count(small, stat->inode, &WaitedFile::inode) > 0;
    if (stat->size_bytes <= kBytesOfLockFile && !is_known) small.push_back(std::move(file));
  }
  if (small.size() == 1) wait.files = std::move(small);
}

}  // namespace dlprobe
