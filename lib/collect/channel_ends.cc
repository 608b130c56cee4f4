#include "lib/collect/channel_ends.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lib/base/parse.h"
#include "lib/proc/fdinfo.h"

namespace dlprobe {
namespace {

/// What threads wait on, by inode.
struct Wanted {
  std::set<uint64_t> pipes;
  std::set<uint64_t> locked_files;
};

Wanted wanted_of(const TreeSnapshot& tree) {
  Wanted wanted;
  for (const ProcessSnapshot& process : tree.processes) {
    for (const ThreadSnapshot& thread : process.threads) {
      for (const WaitedFile& file : thread.wait.files) {
        if (file.kind == "pipe") wanted.pipes.insert(file.inode);
        if (file.kind == "file" && thread.wait.syscall == SYS_flock) {
          wanted.locked_files.insert(file.inode);
        }
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
    const auto names = machine_.root->list(folder + "fd");
    if (!names) {
      // One that is gone holds nothing.
      if (names.error().code == ErrorCode::kForbidden) tree_.all_ends_seen = false;
      return;
    }
    for (const std::string& name : *names)
      look_at_descriptor(pid, folder, name);
  }

 private:
  void look_at_descriptor(int32_t pid, const std::string& folder, const std::string& name) {
    const auto stat = machine_.root->stat(folder + "fd/" + name);
    if (!stat) return;
    const bool is_pipe = wanted_.pipes.contains(stat->inode) && S_ISFIFO(stat->mode);
    const bool is_file = wanted_.locked_files.contains(stat->inode) && S_ISREG(stat->mode);
    if (!is_pipe && !is_file) return;
    const auto info = chain(machine_.root->read(folder + "fdinfo/" + name), parse_fdinfo);
    if (!info || (is_file && !info->holds_flock)) return;
    const uint64_t access = info->flags & O_ACCMODE;
    tree_.channel_ends.push_back({.inode = stat->inode,
                                  .kind = is_pipe ? "pipe" : "file lock",
                                  .pid = pid,
                                  .comm = comm_of(pid, folder),
                                  .fd = parse_int<int32_t>(name).value_or(-1),
                                  .reads = is_pipe && access != O_WRONLY,
                                  .writes = is_file || access != O_RDONLY});
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

/// Whether some wait for reading could be ended by nobody but those who wait themselves, as far as
/// the ends tell that were found in the tree.
bool some_have_no_peer(const TreeSnapshot& tree, const Wanted& wanted) {
  const auto is_waiting_for = [&](int32_t pid, uint64_t inode) {
    return std::ranges::any_of(tree.processes, [&](const ProcessSnapshot& process) {
      return process.key.pid == pid &&
             std::ranges::any_of(process.threads, [&](const ThreadSnapshot& thread) {
               return std::ranges::find(thread.wait.files, inode, &WaitedFile::inode) !=
                      thread.wait.files.end();
             });
    });
  };
  const auto has_peer = [&](uint64_t inode) {
    return std::ranges::any_of(tree.channel_ends, [&](const ChannelEnd& end) {
      return end.inode == inode && !is_waiting_for(end.pid, inode);
    });
  };
  return !std::ranges::all_of(wanted.pipes, has_peer) ||
         !std::ranges::all_of(wanted.locked_files, has_peer);
}

}  // namespace

void find_channel_ends(const Machine& machine, TreeSnapshot& tree) {
  const Wanted wanted = wanted_of(tree);
  if (wanted.pipes.empty() && wanted.locked_files.empty()) return;
  EndFinder finder(machine, wanted, tree);
  for (const ProcessSnapshot& process : tree.processes)
    finder.look_at(process.key.pid);
  if (some_have_no_peer(tree, wanted)) {
    for (const std::string& name : machine.root->list("proc").value_or(std::vector<std::string>{}))
      if (const auto pid = parse_int<int32_t>(name)) finder.look_at(*pid);
  }
  std::ranges::sort(tree.channel_ends, {},
                    [](const ChannelEnd& end) { return std::tuple(end.inode, end.pid, end.fd); });
}

}  // namespace dlprobe
