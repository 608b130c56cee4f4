#include "probes/facts/shared_positions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/waits.h"

namespace dlprobe {
namespace {

/// A file that processes share, and what each of them did with its position.
struct SharedPosition {
  std::string path;
  uint64_t first = 0;  ///< position at the first and at the last look
  uint64_t last = 0;
  struct Moves {
    uint32_t alone = 0;
    uint32_t maybe = 0;
    uint32_t of_others = 0;
  };
  std::map<ProcessKey, Moves> moves;  ///< of all that have it open
  std::set<ProcessKey> at_once;       ///< inside a call on it, at one look
};
/// Device, inode and descriptor number: a copy has the number of the original.
using FileId = std::tuple<uint64_t, uint64_t, int32_t>;

// In a call that reads, or writes, at the position of that descriptor and moves it.
bool is_in_call(const ProcessSnapshot& process, int32_t fd, std::string_view machine) {
  constexpr int64_t kPread64OfX86 = 17;  // takes an offset of its own
  constexpr int64_t kPread64OfArm = 67;
  return std::ranges::any_of(process.threads, [&](const ThreadSnapshot& thread) {
    const ThreadWait& wait = thread.wait;
    return thread.consistent && kind_of(wait, machine) == WaitKind::kRead &&
           wait.syscall != kPread64OfX86 && wait.syscall != kPread64OfArm &&
           std::cmp_equal(wait.args[0], fd);
  });
}

void add_look(const TreeSnapshot& tree, std::string_view machine,
              std::map<FileId, SharedPosition>& files) {
  std::map<FileId, std::set<ProcessKey>> in_call;
  for (const ProcessSnapshot& process : tree.processes) {
    for (const SharedFile& file : process.shared_files) {
      if (file.description == 0) continue;
      const FileId id(file.device, file.inode, file.fd);
      const auto [found, is_new] = files.try_emplace(id);
      SharedPosition& shared = found->second;
      shared.path = file.path;
      if (is_new) shared.first = file.position;
      shared.last = file.position;
      SharedPosition::Moves& moves = shared.moves[process.key];
      moves.alone += file.moves_alone;
      moves.maybe += file.moves_maybe;
      moves.of_others += file.moves_of_others;
      if (is_in_call(process, file.fd, machine)) in_call[id].insert(process.key);
    }
  }
  for (auto& [id, processes] : in_call)
    if (processes.size() >= 2) files[id].at_once = std::move(processes);
}

// Those who read it by its position, at least two; none where one process may have done it all.
std::vector<ProcessKey> readers_of(const SharedPosition& shared) {
  constexpr uint32_t kMovesThatProve = 3;
  std::vector<ProcessKey> readers(shared.at_once.begin(), shared.at_once.end());
  if (!readers.empty()) return readers;
  const auto add_where = [&](auto condition) {
    readers.clear();
    for (const auto& [process, moves] : shared.moves)
      if (condition(moves)) readers.push_back(process);
  };
  const bool others_move_it = std::ranges::all_of(
      shared.moves, [](const auto& entry) { return entry.second.of_others >= kMovesThatProve; });
  if (!others_move_it) return {};
  add_where([](const SharedPosition::Moves& moves) { return moves.alone > 0; });
  if (readers.size() < 2)
    add_where([](const SharedPosition::Moves& moves) { return moves.alone + moves.maybe > 0; });
  return readers;
}

OwnWords names_of(const Run& run, const std::vector<ProcessKey>& keys) {
  OwnWords names = describe(run, keys[0]) + " and " + describe(run, keys[1]);
  if (keys.size() > 2) names += " and " + own(keys.size() - 2) + " more";
  return names;
}

Finding finding_of(const Run& run, const SharedPosition& shared, std::vector<ProcessKey> readers) {
  const BootNs at = run.snapshots.back().at;
  const bool at_once = !shared.at_once.empty();
  Finding finding = new_finding(FindingCode::kHandleSharedOverFork, Confidence::kCertain);
  if (at_once) finding.severity = Severity::kError;
  const std::string name(base_name(shared.path));
  finding.message = names_of(run, readers) + " read " + as_path(name) +
                    " by one position: it was opened before the fork, and each of them moves it "
                    "for the others";
  finding.discriminator = name;
  finding.last_seen = at;
  finding.prove(text_fact("file", as_path(shared.path), "/proc/PID/fd, kcmp(KCMP_FILE)", at));
  finding.prove(count_fact("open_in", shared.moves.size(), "kcmp(KCMP_FILE)", at));
  finding.prove(count_fact("position_before", shared.first, "/proc/PID/fdinfo/FD"));
  finding.prove(count_fact("position", shared.last, "/proc/PID/fdinfo/FD", at));
  for (const ProcessKey& reader : readers) {
    const auto moves = shared.moves.find(reader);
    if (moves == shared.moves.end()) continue;
    const auto& [alone, maybe, of_others] = moves->second;
    finding.prove(text_fact("position_moved",
                            "while " + describe(run, reader) +
                                " alone read: " + counted(alone, "time") +
                                ", it and others: " + own(maybe) + ", others: " + own(of_others),
                            "/proc/PID/io beside /proc/PID/fdinfo/FD", at));
  }
  if (at_once) {
    finding.prove(
        count_fact("in_a_call_at_once", shared.at_once.size(), "/proc/PID/task/TID/syscall", at));
  }
  finding.processes = std::move(readers);
  finding.remedies.push_back(
      {.title = "Open the file in the worker, at its first sample or in worker_init_fn, not in "
                "__init__ of the data set",
       .commands = {"def __getitem__(self, i): self.file = self.file or open(path, 'rb')"},
       .verify = "dlprobe deadlock --pid PID"});
  finding.remedies.push_back({.title = "Or read at an offset, which moves no position",
                              .commands = {"os.pread(file.fileno(), count, offset)"},
                              .verify = "dlprobe deadlock --pid PID"});
  return finding;
}

}  // namespace

std::vector<Finding> find_shared_positions(const Run& run, std::string_view machine) {
  std::map<FileId, SharedPosition> files;
  for (const TreeSnapshot& tree : run.snapshots)
    add_look(tree, machine, files);
  std::vector<Finding> findings;
  for (const auto& [id, shared] : files) {
    std::vector<ProcessKey> readers = readers_of(shared);
    if (readers.size() >= 2) findings.push_back(finding_of(run, shared, std::move(readers)));
  }
  return findings;
}

}  // namespace dlprobe
