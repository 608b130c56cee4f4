#include "lib/collect/snapshot/channel_ends.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/collect/shm/holdings.h"
#include "lib/collect/snapshot/freezer_look.h"
#include "lib/collect/snapshot/named_files.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/foreign/syscalls.h"
#include "lib/proc/fdinfo.h"
#include "lib/proc/file_locks.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/processes.h"

namespace dlprobe {
namespace {

/// What threads wait on, by inode.
struct Wanted {
  std::set<uint64_t> pipes;
  std::set<uint64_t> pipes_to_read;   ///< of these: by whom data is waited for
  std::set<uint64_t> pipes_to_write;  ///< of these: by whom room is waited for
  std::set<uint64_t> sockets;         ///< the peers of those that are waited on
  std::set<uint64_t> eventfds;        ///< by their ids
  std::set<uint64_t> locked_files;
  std::set<uint64_t> named_files;  ///< of these: that no descriptor of the waiter leads to
  std::set<std::pair<uint64_t, uint64_t>> semaphores;  ///< device and inode; those that are taken,
                                                       ///< and that nobody of the tree has taken
};

// Of a lock, as far as the counts tell: other semaphores are acquired here and released there.
bool is_lock_taken_by_nobody(const TreeSnapshot& tree, uint64_t semaphore) {
  return std::ranges::all_of(tree.processes, [&](const ProcessSnapshot& process) {
    return std::ranges::all_of(process.sem_locks, [&](const SemLockState& state) {
      return state.inode != semaphore || (state.max_value == 1 && state.count == 0);
    });
  });
}

void add_files(const ThreadWait& wait, Wanted& wanted) {
  for (const WaitedFile& file : wait.files) {
    if (file.kind == FileKind::kPipe) {
      const bool writes = wait.syscall == SYS_write || wait.syscall == SYS_writev;
      wanted.pipes.insert(file.inode);
      (writes ? wanted.pipes_to_write : wanted.pipes_to_read).insert(file.inode);
    }
    if (file.peer != 0) wanted.sockets.insert(file.peer);
    if (file.kind == FileKind::kEventfd && file.inode != 0) wanted.eventfds.insert(file.inode);
    const bool asks_for_lock =
        wait.syscall == SYS_flock || wait.syscall == SYS_fcntl || may_be_in_sleep(wait);
    if (file.kind != FileKind::kFile || !asks_for_lock) continue;
    wanted.locked_files.insert(file.inode);
    if (file.fd < 0) wanted.named_files.insert(file.inode);
  }
}

Wanted wanted_of(const TreeSnapshot& tree) {
  Wanted wanted;
  for (const ProcessSnapshot& process : tree.processes) {
    for (const ThreadSnapshot& thread : process.threads) {
      add_files(thread.wait, wanted);
      const auto& futex = thread.futex;
      if (futex && futex->kind == LockKind::kSharedSemaphore && futex->inode != 0 &&
          is_lock_taken_by_nobody(tree, futex->inode)) {
        wanted.semaphores.emplace(futex->device, futex->inode);
      }
    }
  }
  return wanted;
}

class EndFinder {
 public:
  EndFinder(const Machine& machine, const Wanted& wanted, TreeSnapshot& tree)
      : machine_(machine), wanted_(wanted), tree_(tree) {}

  void look_at(int32_t pid) {
    if (!seen_.insert(pid).second) return;
    const std::string folder = "proc/" + std::to_string(pid) + "/";
    const auto descriptors = machine_.root->open_directory(folder + "fd");
    const auto names = chain(descriptors, [](const auto& each) { return each->list(""); });
    if (!names) {
      // One that is gone holds nothing.
      if (names.error().code == ErrorCode::kForbidden) tree_.all_ends_seen = false;
      return;
    }
    for (const std::string& name : *names)
      look_at_descriptor(pid, folder, (*descriptors)->stat(name), name);
    if (!wanted_.semaphores.empty()) look_at_mappings(pid, folder);
  }

 private:
  void look_at_descriptor(int32_t pid, const std::string& folder, const Expected<FileStat>& stat,
                          const std::string& name) {
    if (!stat) return;
    const bool is_pipe = wanted_.pipes.contains(stat->inode) && S_ISFIFO(stat->mode);
    if (wanted_.sockets.contains(stat->inode) && S_ISSOCK(stat->mode)) {
      add_end({.inode = stat->inode, .kind = EndKind::kSocket, .reads = true, .writes = true}, pid,
              name);
      return;
    }
    const bool is_file = wanted_.locked_files.contains(stat->inode) && S_ISREG(stat->mode);
    // What is no file of any file system: an eventfd, an epoll ...
    const bool may_be_eventfd = !wanted_.eventfds.empty() && (stat->mode & S_IFMT) == 0;
    if (!is_pipe && !is_file && !may_be_eventfd) return;
    const auto info = chain(machine_.root->read(folder + "fdinfo/" + name), parse_fdinfo);
    if (may_be_eventfd) {
      if (info && wanted_.eventfds.contains(info->eventfd_id))
        add_end({.inode = info->eventfd_id, .reads = true, .writes = true}, pid, name);
      return;
    }
    const bool is_named = wanted_.named_files.contains(stat->inode);
    if (!info || (is_file && !info->holds_lock && !is_named)) return;
    const uint64_t access = info->flags & O_ACCMODE;
    add_end({.inode = stat->inode,
             .kind = is_pipe ? EndKind::kPipe : EndKind::kFileLock,
             .reads = is_pipe ? access != O_WRONLY : std::ranges::count(info->lock_takers, pid) > 0,
             .writes = is_file ? info->holds_lock : access != O_RDONLY},
            pid, name);
  }

  void add_end(ChannelEnd end, int32_t pid, std::string_view descriptor) {
    end.pid = pid;
    end.comm = comm_of(pid, "proc/" + std::to_string(pid) + "/");
    end.fd = parse_int<int32_t>(descriptor).value_or(-1);
    end.orphaned_sibling = is_orphaned_sibling(pid);
    add_state(end);
    tree_.channel_ends.push_back(std::move(end));
  }

  void look_at_mappings(int32_t pid, const std::string& folder) {
    const auto maps = chain(machine_.root->open_directory("proc/" + std::to_string(pid)),
                            [this](const std::shared_ptr<const Directory>& process) {
                              return read_shared_mappings(*machine_.processes, *process);
                            });
    if (!maps) {
      if (maps.error().code == ErrorCode::kForbidden) tree_.all_ends_seen = false;
      return;
    }
    for (const SharedMapping& entry : *maps) {
      if (!wanted_.semaphores.contains({entry.device, entry.inode})) continue;
      tree_.channel_ends.push_back({.inode = entry.inode,
                                    .kind = EndKind::kSemaphore,
                                    .pid = pid,
                                    .comm = comm_of(pid, folder),
                                    .reads = true,
                                    .writes = true,
                                    .orphaned_sibling = is_orphaned_sibling(pid)});
    }
  }

  bool is_of_tree(int32_t pid) const {
    return std::ranges::any_of(
        tree_.processes, [&](const ProcessSnapshot& process) { return process.key.pid == pid; });
  }

  // What a look at a process of the tree tells by its threads.
  void add_state(ChannelEnd& end) {
    if (is_of_tree(end.pid)) return;
    const auto stat = stat_of(end.pid);
    if (!stat) return;
    end.state = state_of(*stat);
    end.cpu_ticks = stat->utime_ticks + stat->stime_ticks;
    if (const auto folder = machine_.root->open_directory("proc/" + std::to_string(end.pid)))
      end.frozen_by = frozen_by(machine_, **folder);
  }

  char state_of(const PidStat& stat) const {
    const auto is_stopped = [](char state) { return state == 'T' || state == 't'; };
    if (!is_stopped(stat.state)) return stat.state;
    const std::string tasks = "proc/" + std::to_string(stat.pid) + "/task";
    for (const std::string& name :
         machine_.root->list(tasks).value_or(std::vector<std::string>{})) {
      std::string file = tasks;
      file.append("/").append(name).append("/stat");
      const auto task = chain(machine_.root->read(file), parse_pid_stat);
      if (task && !is_stopped(task->state)) return task->state;
    }
    return stat.state;
  }

  std::optional<PidStat> stat_of(int32_t pid) const {
    const auto stat = read_pid_stat(*machine_.root, pid);
    return stat ? std::optional(*stat) : std::nullopt;
  }

  // Forked from one process (the same randomised addresses) whose death left both to one adopter.
  bool is_orphaned_sibling(int32_t pid) const {
    if (is_of_tree(pid)) return false;
    const auto stat = stat_of(pid);
    if (!stat || !is_orphan(machine_, *stat)) return false;
    return std::ranges::any_of(tree_.processes, [&](const ProcessSnapshot& process) {
      const auto own = stat_of(process.key.pid);
      return own && own->ppid == stat->ppid && forked_without_exec(*stat, *own) == true;
    });
  }

  std::string comm_of(int32_t pid, const std::string& folder) {
    auto& comm = comms_[pid];
    if (comm.empty()) {
      comm = machine_.root->read(folder + "comm").value_or("?");
      while (comm.ends_with('\n'))
        comm.pop_back();
    }
    return comm;
  }

  const Machine& machine_;
  const Wanted& wanted_;
  TreeSnapshot& tree_;
  std::set<int32_t> seen_;
  std::map<int32_t, std::string> comms_;
};

/// The files that the process has open, and of which another open file has a lock.
std::vector<WaitedFile> locked_by_others(const Machine& machine, const std::set<uint64_t>& locked,
                                         int32_t pid) {
  const std::string folder = "proc/" + std::to_string(pid) + "/";
  const auto path_of = [&](const std::string& name) { return folder + "fd/" + name; };
  const auto info_of = [&](const std::string& name) { return folder + "fdinfo/" + name; };
  std::map<uint64_t, WaitedFile> files;  // by inode
  std::set<uint64_t> own;
  for (const std::string& name :
       machine.root->list(folder + "fd").value_or(std::vector<std::string>{})) {
    const auto stat = machine.root->stat(path_of(name));
    if (!stat || !S_ISREG(stat->mode) || !locked.contains(stat->inode)) continue;
    const auto info = chain(machine.root->read(info_of(name)), parse_fdinfo);
    if (!info || info->holds_lock) own.insert(stat->inode);
    files[stat->inode] = {.fd = parse_int<int32_t>(name).value_or(-1),
                          .kind = FileKind::kFile,
                          .inode = stat->inode,
                          .path = machine.root->read_link(path_of(name)).value_or("")};
  }
  std::vector<WaitedFile> found;
  for (auto& [inode, file] : files)
    if (!own.contains(inode)) found.push_back(std::move(file));
  return found;
}

/// A thread that sleeps may wait for such a file's lock.
void add_polled_locks(const Machine& machine, TreeSnapshot& tree) {
  std::optional<std::set<uint64_t>> locked;
  for (ProcessSnapshot& process : tree.processes) {
    std::optional<std::vector<WaitedFile>> files;
    for (ThreadSnapshot& thread : process.threads) {
      const bool has_descriptor = std::ranges::any_of(
          thread.wait.files, [](const WaitedFile& file) { return file.fd >= 0; });
      if (has_descriptor || !may_be_in_sleep(thread.wait)) continue;
      if (!locked) locked = parse_file_locks(machine.root->read("proc/locks").value_or(""));
      if (locked->empty()) return;
      if (!files) files = locked_by_others(machine, *locked, process.key.pid);
      if (!files->empty()) thread.wait.files = *files;
    }
  }
}

/// Whether the process has a thread that waits on that pipe or file.
bool waits_on(const TreeSnapshot& tree, int32_t pid, uint64_t inode) {
  return std::ranges::any_of(tree.processes, [&](const ProcessSnapshot& process) {
    return process.key.pid == pid &&
           std::ranges::any_of(process.threads, [&](const ThreadSnapshot& thread) {
             return std::ranges::find(thread.wait.files, inode, &WaitedFile::inode) !=
                    thread.wait.files.end();
           });
  });
}

/// Whether somebody of the tree who does not wait himself has the end that is asked for.
bool has_peer(const TreeSnapshot& tree, uint64_t inode, bool writer) {
  return std::ranges::any_of(tree.channel_ends, [&](const ChannelEnd& end) {
    return end.inode == inode && (writer ? end.writes : end.reads) &&
           !waits_on(tree, end.pid, inode);
  });
}

/// Whether the rest of the machine has to be looked at: the tree alone does not explain who could
/// end some wait.
bool needs_whole_machine(const TreeSnapshot& tree, const Wanted& wanted) {
  if (!wanted.semaphores.empty()) return true;
  const auto has_writer = [&](uint64_t inode) { return has_peer(tree, inode, true); };
  const auto has_reader = [&](uint64_t inode) { return has_peer(tree, inode, false); };
  return !std::ranges::all_of(wanted.pipes_to_read, has_writer) ||
         !std::ranges::all_of(wanted.pipes_to_write, has_reader) ||
         !std::ranges::all_of(wanted.sockets, has_writer) ||
         !std::ranges::all_of(wanted.locked_files, has_writer);
}

}  // namespace

void find_channel_ends(const Machine& machine, TreeSnapshot& tree) {
  add_polled_locks(machine, tree);
  const Wanted wanted = wanted_of(tree);
  if (wanted.pipes.empty() && wanted.sockets.empty() && wanted.locked_files.empty() &&
      wanted.semaphores.empty() && wanted.eventfds.empty()) {
    return;
  }
  EndFinder finder(machine, wanted, tree);
  for (const ProcessSnapshot& process : tree.processes)
    finder.look_at(process.key.pid);
  if (needs_whole_machine(tree, wanted)) {
    for (const int32_t pid : list_pids(*machine.root).value_or(std::vector<int32_t>{}))
      finder.look_at(pid);
  }
  std::ranges::sort(tree.channel_ends, {},
                    [](const ChannelEnd& end) { return std::tuple(end.inode, end.pid, end.fd); });
}

}  // namespace dlprobe
