#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/shared_handles.h"
#include "probes/facts/starts.h"

namespace dlprobe {
namespace {

/// A connection that processes share, and how often each of them was seen to wait for its data.
struct Connection {
  uint16_t port = 0;
  int32_t fd = -1;
  BootNs seen_at = 0;
  std::map<ProcessKey, uint32_t> reads;
  std::vector<ProcessKey> at_once;      ///< who read at one and the same moment
  std::vector<const StartEvent*> told;  ///< by workers of one loader that they read from it
};
using Connections = std::map<uint64_t, Connection>;  // by inode, which a socket has to itself

void add(const ProcessKey& process, const SharedFile& file, BootNs at, Connections& connections) {
  if (file.port == 0) return;
  Connection& connection = connections[file.inode];
  connection.port = file.port;
  connection.fd = file.fd;
  connection.seen_at = at;
  connection.reads[process] += file.reads;
  const bool is_known = std::ranges::count(connection.at_once, process) > 0;
  if (file.reads_at_once && !is_known) connection.at_once.push_back(process);
}

// A worker says "socket:[123]", and the other side: "10.0.0.5:443".
void add(const StartEvent& event, Connections& connections) {
  constexpr std::string_view kSocket = "socket:[";
  if (!event.path.starts_with(kSocket) || !event.path.ends_with(']')) return;
  const std::string_view number(event.path.begin() + kSocket.size(), event.path.end() - 1);
  const std::string_view peer = event.shared_file;
  const auto inode = parse_int<uint64_t>(number);
  const auto port = parse_int<uint16_t>(peer.substr(peer.rfind(':') + 1));
  if (!inode || !port) return;
  Connection& connection = connections[*inode];
  connection.port = *port;
  connection.seen_at = event.at;
  connection.told.push_back(&event);
}

Connections connections_of(const Run& run) {
  Connections connections;
  for (const SharedFileLook& look : run.file_looks)
    for (const ProcessFiles& process : look.processes)
      for (const SharedFile& file : process.files)
        add(process.key, file, look.at, connections);
  for (const TreeSnapshot& tree : run.snapshots)
    for (const ProcessSnapshot& process : tree.processes)
      for (const SharedFile& file : process.shared_files)
        add(process.key, file, tree.at, connections);
  for (const StartEvent* event : events_of(run, StartEventKind::kConnectionRead))
    add(*event, connections);
  return connections;
}

// Workers of two epochs never live together.
std::vector<ProcessKey> readers_of_one_loader(const Connection& connection) {
  std::map<std::optional<uint64_t>, std::vector<const StartEvent*>> loaders;
  for (const StartEvent* event : connection.told)
    loaders[event->loader].push_back(event);
  for (const auto& events : loaders | std::views::values)
    if (auto readers = processes_of(events); readers.size() > 1) return readers;
  return {};
}

std::vector<ProcessKey> readers_of(const Connection& connection) {
  constexpr uint32_t kReadsThatProve = 3;
  if (!connection.at_once.empty()) return connection.at_once;
  std::vector<ProcessKey> readers;
  for (const auto& [process, reads] : connection.reads)
    if (reads >= kReadsThatProve) readers.push_back(process);
  return readers.size() > 1 ? readers : readers_of_one_loader(connection);
}

Finding finding_of(const Run& run, const Connection& connection, std::vector<ProcessKey> readers) {
  const bool at_once = !connection.at_once.empty();
  Finding finding = new_finding(FindingCode::kHandleSharedOverFork,
                                at_once ? Confidence::kCertain : Confidence::kLikely);
  if (at_once) finding.severity = Severity::kError;
  finding.message = describe_some(run, readers) + " share one TCP connection (port " +
                    own(connection.port) +
                    "), opened before the fork: each may read an answer meant for another";
  if (!connection.told.empty()) finding.message += place_of(*connection.told.front());
  finding.discriminator = "connection-" + std::to_string(connection.port);
  finding.last_seen = connection.seen_at;
  if (!connection.reads.empty())
    finding.prove(count_fact("open_in", connection.reads.size(),
                             "one inode in /proc/PID/fd and /proc/PID/net/tcp",
                             connection.seen_at));
  for (const StartEvent* event : connection.told)
    finding.prove(text_fact("reads_at", describe(run, event->process) + place_of(*event),
                            kShimSource, event->at));
  for (const ProcessKey& reader : readers) {
    const auto reads = connection.reads.find(reader);
    if (reads == connection.reads.end() || reads->second == 0) continue;
    finding.prove(text_fact("waits_in",
                            describe(run, reader) + ": in " + counted(reads->second, "call") +
                                " on descriptor " + own(connection.fd),
                            "/proc/PID/task/TID/syscall", connection.seen_at));
  }
  if (at_once)
    finding.prove(count_fact("in_a_call_at_once", connection.at_once.size(),
                             "/proc/PID/task/TID/syscall, schedstat", connection.seen_at));
  finding.processes = std::move(readers);
  finding.advise(
      "Connect in the worker (in __getitem__ or worker_init_fn), not in __init__ of the "
      "data set",
      {"def __getitem__(self, i): self.db = self.db or connect(...)",
       "os.register_at_fork(after_in_child=lambda: engine.dispose(close=False))  # "
       "SQLAlchemy"},
      "dlprobe fd --pid PID");
  return finding;
}

}  // namespace

std::vector<Finding> find_shared_connections(const Run& run) {
  std::vector<Finding> findings;
  for (const auto& [inode, connection] : connections_of(run)) {
    std::vector<ProcessKey> readers = readers_of(connection);
    if (readers.size() >= 2) findings.push_back(finding_of(run, connection, std::move(readers)));
  }
  return findings;
}

}  // namespace dlprobe
