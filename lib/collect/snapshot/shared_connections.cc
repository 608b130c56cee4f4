#include "lib/collect/snapshot/shared_connections.h"

#include <netinet/tcp.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/parse.h"
#include "lib/collect/snapshot/socket_peers.h"
#include "lib/collect/tree/thread_waits.h"
#include "lib/foreign/syscalls.h"
#include "lib/proc/schedstat.h"

namespace dlprobe {
namespace {

constexpr size_t kMostConnectionThreads = 16;
constexpr int kConnectionRounds = 24;

std::string folder_of(const ProcessKey& key) {
  return "proc/" + std::to_string(key.pid);
}

/// The sockets of one process: descriptors by inode.
using Sockets = std::map<uint64_t, int32_t>;

Sockets sockets_of(const Machine& machine, const ProcessKey& key) {
  Sockets sockets;
  const auto folder = machine.root->open_directory(folder_of(key) + "/fd");
  const auto names = folder ? (*folder)->list("") : failure(ErrorCode::kNotFound, "");
  if (!names) return sockets;
  for (const std::string& name : *names) {
    const auto fd = parse_int<int32_t>(name);
    if (!fd || *fd <= kLastStandardStream) continue;
    const auto stat = (*folder)->stat(name);
    if (stat && S_ISSOCK(stat->mode)) sockets.try_emplace(stat->inode, *fd);
  }
  return sockets;
}

/// The ports at the other ends of established connections, by inode.
std::map<uint64_t, uint16_t> connections_of(const Machine& machine, const ProcessKey& key) {
  constexpr size_t kPortDigits = 4;
  constexpr int kHexadecimal = 16;
  std::map<uint64_t, uint16_t> ports;
  for (const TcpSocket& socket : tcp_sockets_of(machine, key.pid)) {
    const std::string_view remote = socket.remote;
    if (socket.state != TCP_ESTABLISHED || remote.size() < kPortDigits) continue;
    const auto port = parse_int<uint16_t>(remote.substr(remote.size() - kPortDigits), kHexadecimal);
    if (port) ports[socket.inode] = *port;
  }
  return ports;
}

/// A thread that waits for what comes on a connection.
struct Reader {
  size_t process = 0;  ///< index in the look
  int32_t tid = 0;
  uint64_t timeslices = 0;  ///< the same later: it has not run meanwhile
  bool operator==(const Reader&) const = default;
};
using Readers = std::map<uint64_t, std::vector<Reader>>;  // by inode

std::optional<uint64_t> timeslices_of(const Machine& machine, const ProcessKey& key, int32_t tid) {
  const std::string path = folder_of(key) + "/task/" + std::to_string(tid) + "/schedstat";
  const auto stat = chain(machine.root->read(path), parse_schedstat);
  return stat ? std::optional(stat->timeslices) : std::nullopt;
}

/// Who reads at the moment from the connections `shared`.
Readers find_readers(const Machine& machine, const std::vector<ProcessKey>& processes,
                     const std::set<uint64_t>& shared) {
  Readers readers;
  for (size_t i = 0; i < processes.size(); ++i) {
    const auto folder = machine.root->open_directory(folder_of(processes[i]));
    if (!folder) continue;
    const auto waits =
        read_thread_waits(*machine.processes, **folder, processes[i].pid, kMostConnectionThreads);
    if (!waits) continue;
    for (const ThreadWait& wait : *waits) {
      const Syscall* call = find_syscall(wait.syscall, own_syscall_machine());
      const bool is_reading =
          call != nullptr && (call->wait == WaitKind::kRead || call->wait == WaitKind::kPoll);
      // Who polls several waits for whichever comes, and may leave this one to others.
      if (!is_reading || wait.files.size() != 1 || !shared.contains(wait.files[0].inode)) continue;
      const auto slices = timeslices_of(machine, processes[i], wait.tid);
      if (slices)
        readers[wait.files[0].inode].push_back(
            {.process = i, .tid = wait.tid, .timeslices = *slices});
    }
  }
  return readers;
}

/// What was seen of one connection.
struct Watched {
  std::map<size_t, std::set<std::pair<int32_t, uint64_t>>> calls;  ///< by process: thread, slice
  std::set<size_t> at_once;
};

/// Of those who read in a round the ones who still do without having run: at the same moment.
void add_round(const std::vector<Reader>& before, const std::vector<Reader>& after, Watched& seen) {
  std::set<size_t> stayed;
  for (const Reader& reader : before) {
    seen.calls[reader.process].insert({reader.tid, reader.timeslices});
    if (std::ranges::find(after, reader) != after.end()) stayed.insert(reader.process);
  }
  if (stayed.size() >= 2) seen.at_once.insert(stayed.begin(), stayed.end());
}

std::map<uint64_t, Watched> watch(const Machine& machine, const std::vector<ProcessKey>& processes,
                                  const std::set<uint64_t>& shared) {
  std::map<uint64_t, Watched> seen;
  Readers before;
  for (int round = 0; round < kConnectionRounds; ++round) {
    Readers now = find_readers(machine, processes, shared);
    for (const auto& [inode, readers] : before)
      add_round(readers, now[inode], seen[inode]);
    before = std::move(now);
  }
  return seen;
}

/// A connection that several have, and all that was seen of it.
struct Found {
  uint64_t inode = 0;
  uint16_t port = 0;
  std::map<size_t, int32_t> descriptors;  ///< by process
  Watched seen;
};

Expected<std::vector<Found>> find_connections(const Machine& machine,
                                              const std::vector<ProcessKey>& processes) {
  std::map<uint64_t, std::map<size_t, int32_t>> sharers;
  for (size_t i = 0; i < processes.size(); ++i)
    for (const auto& [inode, fd] : sockets_of(machine, processes[i]))
      sharers[inode].emplace(i, fd);
  std::erase_if(sharers, [](const auto& entry) { return entry.second.size() < 2; });
  std::vector<Found> found;
  if (sharers.empty()) return found;
  const auto ports = connections_of(machine, processes[sharers.begin()->second.begin()->first]);
  std::set<uint64_t> shared;
  for (auto& [inode, descriptors] : sharers) {
    const auto port = ports.find(inode);
    if (port == ports.end()) continue;
    shared.insert(inode);
    found.push_back({.inode = inode, .port = port->second, .descriptors = std::move(descriptors)});
  }
  if (shared.empty()) return found;
  auto seen = watch(machine, processes, shared);
  for (Found& each : found)
    each.seen = std::move(seen[each.inode]);
  return found;
}

}  // namespace

void SharedConnectionWatch::look(const Machine& machine, SharedFileLook& look) {
  std::vector<ProcessKey> processes;
  std::ranges::transform(look.processes, std::back_inserter(processes), &ProcessFiles::key);
  const auto found = reader_.run<std::vector<Found>>(
      "look at shared connections",
      [machine, processes = std::move(processes)] { return find_connections(machine, processes); });
  if (!found) return;  // a busy machine: at the next look
  for (const Found& connection : *found) {
    for (const auto& [process, fd] : connection.descriptors) {
      SharedFile file{.fd = fd, .inode = connection.inode, .port = connection.port};
      const auto calls = connection.seen.calls.find(process);
      if (calls != connection.seen.calls.end())
        file.reads = static_cast<uint32_t>(calls->second.size());
      file.reads_at_once = connection.seen.at_once.contains(process);
      look.processes[process].files.push_back(std::move(file));
    }
  }
}

}  // namespace dlprobe
