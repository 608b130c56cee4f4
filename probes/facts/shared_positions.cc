#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/shared_handles.h"
#include "probes/facts/starts.h"
#include "probes/facts/waits.h"

namespace dlprobe {
namespace {

/// A file that processes share, and what each of them did with its position.
struct SharedPosition {
  std::string path;
  uint64_t first = 0;  ///< position at the first and at the last look
  uint64_t last = 0;
  BootNs seen_at = 0;
  struct Moves {
    uint32_t alone = 0;
    uint32_t maybe = 0;
    uint32_t of_others = 0;
  };
  std::map<ProcessKey, Moves> moves;  ///< of all that have it open
  uint32_t moves_of_nobody = 0;
  std::set<ProcessKey> at_once;         ///< inside a call on it, at one look
  std::vector<const StartEvent*> told;  ///< by workers: others moved it while they read nothing
};
/// Device and inode, and who shares it: what workers of one epoch did says nothing of the next.
using FileId = std::pair<uint64_t, uint64_t>;
using Files = std::map<std::pair<FileId, std::set<ProcessKey>>, SharedPosition>;

/// One descriptor at one look.
struct Opened {
  ProcessKey process;
  const SharedFile* file;
  bool in_call = false;
};

// In a call that reads at the position of that descriptor and moves it; pread64 has an offset of
// its own.
bool is_in_call(const ProcessSnapshot& process, int32_t fd, std::string_view machine) {
  return std::ranges::any_of(process.threads, [&](const ThreadSnapshot& thread) {
    const ThreadWait& wait = thread.wait;
    return thread.consistent && kind_of(wait, machine) == WaitKind::kRead &&
           find_syscall(wait.syscall, machine)->name != "pread64" &&
           std::cmp_equal(wait.args[0], fd);
  });
}

void add_group(BootNs at, const std::vector<Opened>& group, Files& files) {
  const SharedFile& first = *group.front().file;
  std::set<ProcessKey> sharers;
  std::set<ProcessKey> in_call;
  for (const Opened& each : group) {
    sharers.insert(each.process);
    if (each.in_call) in_call.insert(each.process);
  }
  const auto [found, is_new] =
      files.try_emplace({FileId(first.device, first.inode), std::move(sharers)});
  SharedPosition& shared = found->second;
  shared.path = first.path;
  if (is_new) shared.first = first.position;
  shared.last = first.position;
  shared.seen_at = at;
  for (const auto& [process, file, is_in_call] : group) {
    SharedPosition::Moves& moves = shared.moves[process];
    moves.alone += file->moves_alone;
    moves.maybe += file->moves_maybe;
    moves.of_others += file->moves_of_others;
  }
  shared.moves_of_nobody += first.moves_of_nobody;
  if (in_call.size() >= 2) shared.at_once = std::move(in_call);
}

void add_look(BootNs at, const std::vector<Opened>& opened, Files& files) {
  std::map<std::pair<FileId, int32_t>, std::vector<Opened>> groups;
  for (const Opened& each : opened) {
    if (each.file->description == 0) continue;
    groups[{FileId(each.file->device, each.file->inode), each.file->description}].push_back(each);
  }
  for (const auto& [id, group] : groups)
    add_group(at, group, files);
}

Files files_of(const Run& run, std::string_view machine) {
  Files files;
  for (const SharedFileLook& look : run.file_looks) {
    std::vector<Opened> opened;
    for (const ProcessFiles& process : look.processes)
      for (const SharedFile& file : process.files)
        opened.push_back({.process = process.key, .file = &file});
    add_look(look.at, opened, files);
  }
  for (const TreeSnapshot& tree : run.snapshots) {
    std::vector<Opened> opened;
    for (const ProcessSnapshot& process : tree.processes) {
      for (const SharedFile& file : process.shared_files) {
        opened.push_back({.process = process.key,
                          .file = &file,
                          .in_call = is_in_call(process, file.fd, machine)});
      }
    }
    add_look(tree.at, opened, files);
  }
  return files;
}

// What both did of the moves, were it chance: a process beyond the tree, or one that seeks, moves
// the position while they read something else. Then who reads alone is as frequent beside the other
// as beside nobody; who takes turns on it excludes the other.
bool take_turns(uint64_t one_alone, uint64_t other_alone, uint64_t both, uint64_t neither) {
  constexpr uint64_t kTimesChance = 10;
  return one_alone * other_alone > kTimesChance * std::max<uint64_t>(both, 1) * neither;
}

// Whether several move it. Between the seek and the read of one process others may read something
// else, now and then; and who seeks and reads nothing moves it as well.
bool is_moved_by_several(const SharedPosition& shared) {
  constexpr uint32_t kMovesThatProve = 3;
  constexpr uint32_t kOwnForOneOfOthers = 6;
  constexpr uint32_t kAloneThatProve = 3;
  constexpr uint32_t kSeenForOneAlone = 20;
  constexpr uint32_t kSeenForOneUnseen = 4;
  uint32_t seen = 0;
  uint32_t alone_of_all = 0;
  uint32_t most_alone = 0;
  uint32_t most_maybe = 0;
  for (const auto& [process, moves] : shared.moves) {
    const auto& [alone, maybe, of_others] = moves;
    if (of_others < kMovesThatProve || of_others * kOwnForOneOfOthers < alone + maybe) return false;
    seen = std::max(seen, alone + maybe + of_others);
    alone_of_all += alone;
    most_alone = std::max(most_alone, alone);
    most_maybe = std::max(most_maybe, maybe);
  }
  const uint32_t alone_of_others = alone_of_all - most_alone;
  return alone_of_others >= kAloneThatProve && alone_of_others * kSeenForOneAlone >= seen &&
         (shared.moves_of_nobody * kSeenForOneUnseen <= seen ||
          take_turns(most_alone, alone_of_others, most_maybe, shared.moves_of_nobody));
}

// Those who read it by its position, at least two; none where one process may have done it all.
std::vector<ProcessKey> readers_of(const SharedPosition& shared) {
  std::vector<ProcessKey> readers(shared.at_once.begin(), shared.at_once.end());
  if (!readers.empty() || !is_moved_by_several(shared)) return readers;
  for (const auto& [process, moves] : shared.moves)
    if (moves.alone > 0) readers.push_back(process);
  return readers;
}

// By the word of a worker whose data set or task has a lock beside the file.
bool is_under_lock(const StartEvent& event) {
  return event.kind == StartEventKind::kPositionMoved && event.wanted == "lock";
}

// Each worker of a loader that says so reads it, too; one alone may not be the trainer's only
// reader.
std::vector<SharedPosition> told_by_workers(const Run& run) {
  std::map<std::pair<std::optional<uint64_t>, std::string>, SharedPosition> files;
  for (const StartEvent* event : events_of(run, StartEventKind::kPositionMoved)) {
    if (is_under_lock(*event)) continue;
    SharedPosition& shared = files[{event->loader, event->shared_file}];
    shared.path = event->shared_file;
    shared.seen_at = event->at;
    shared.told.push_back(event);
  }
  std::vector<SharedPosition> told;
  for (SharedPosition& shared : files | std::views::values)
    if (processes_of(shared.told).size() > 1) told.push_back(std::move(shared));
  return told;
}

void add_remedies(Finding& finding) {
  finding.advise(
      "Open the file in each worker (in __getitem__, worker_init_fn or the initializer of "
      "a pool), not before they are forked",
      {"def __getitem__(self, i): self.file = self.file or open(path, 'rb')"},
      "dlprobe deadlock --pid PID");
  finding.advise("Or read at an offset (pread), which leaves the position alone",
                 {"os.pread(file.fileno(), count, offset)"}, "dlprobe deadlock --pid PID");
}

// What was raised in a library that reads, in one of several workers that were forked from one
// process and read a file by the position that it has: it may be over before anybody looks.
bool failed_by_shared_position(const Run& run, const StartEvent& event) {
  const bool is_of_user =
      event.raised_in.starts_with(event.file + ":" + std::to_string(event.line) + " ");
  return event.shared_file.starts_with('/') && !is_of_user && has_shared_handle(run, event);
}

// In reading it by the position that others move, or of what that gave.
const StartEvent* failure_at(const Run& run, const SharedPosition& shared) {
  if (!ends_badly(run)) return nullptr;
  const auto failures = events_of(run, StartEventKind::kFailed);
  const auto found = std::ranges::find(failures, shared.path, &StartEvent::shared_file);
  return found == failures.end() ? nullptr : *found;
}

bool is_read_under_lock(const Run& run, const SharedPosition& shared) {
  return shared.at_once.empty() && failure_at(run, shared) == nullptr &&
         std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
           return is_under_lock(event) && event.shared_file == shared.path;
         });
}

Finding finding_of(const Run& run, const StartEvent& event) {
  Finding finding = new_finding(FindingCode::kHandleSharedOverFork, Confidence::kPossible);
  finding.severity = Severity::kError;
  const std::string name(base_name(event.shared_file));
  finding.message =
      say("{} failed while reading. It shares the file position of {} with other workers since "
          "fork: their reads move it",
          describe(run, event.process), as_path(name));
  finding.discriminator = name;
  finding.prove(
      text_fact("file", as_path(event.shared_file), "/proc/PID/fd, /proc/PID/fdinfo", event.at));
  add_exception(finding, event);
  finding.processes = {event.process};
  finding.last_seen = event.at;
  add_remedies(finding);
  return finding;
}

void prove_moves(Finding& finding, const Run& run, const SharedPosition& shared,
                 const std::vector<ProcessKey>& readers) {
  const BootNs at = shared.seen_at;
  for (const StartEvent* event : shared.told) {
    finding.prove(text_fact("position_moved",
                            say("while {} read nothing: {} times", describe(run, event->process),
                                own(event->count.value_or(0))),
                            kShimSource, event->at));
  }
  if (!shared.told.empty()) {
    finding.prove(text_fact("file", as_path(shared.path), kShimSource, at));
    return;
  }
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
}

Finding finding_of(const Run& run, const SharedPosition& shared, std::vector<ProcessKey> readers) {
  const BootNs at = shared.seen_at;
  const bool at_once = !shared.at_once.empty();
  const StartEvent* failure = failure_at(run, shared);
  Finding finding = new_finding(FindingCode::kHandleSharedOverFork,
                                at_once ? Confidence::kCertain : Confidence::kLikely);
  if (at_once || failure != nullptr) finding.severity = Severity::kError;
  const std::string name(base_name(shared.path));
  finding.message =
      describe_some(run, readers) + " read " + as_path(name) +
      " through one file position, shared since fork: each read moves it for the others" +
      (at_once || failure != nullptr ? "" : " (harmless if they lock around seek and read)");
  if (!shared.told.empty() && failure == nullptr)
    if (const Message place = place_of(*shared.told.front()); !place.empty())
      finding.message += "; the code is" + place;
  if (failure != nullptr) {
    finding.message += say("; {} failed with {}{}", describe(run, failure->process),
                           as_text(failure->message), place_of(*failure));
    add_exception(finding, *failure);
  }
  finding.discriminator = name;
  finding.last_seen = at;
  prove_moves(finding, run, shared, readers);
  if (at_once) {
    finding.prove(
        count_fact("in_a_call_at_once", shared.at_once.size(), "/proc/PID/task/TID/syscall", at));
  }
  finding.processes = std::move(readers);
  if (failure != nullptr && std::ranges::count(finding.processes, failure->process) == 0)
    finding.processes.push_back(failure->process);
  add_remedies(finding);
  return finding;
}

}  // namespace

bool has_shared_handle(const Run& run, const StartEvent& event) {
  const ProcessInfo* child = run.find_process(event.process);
  if (event.shared_file.empty() || child == nullptr) return false;
  return std::ranges::count_if(run.processes, [&](const ProcessInfo& each) {
           return each.ppid == child->ppid && each.role == child->role;
         }) > 1;
}

bool may_share_handles(const Run& run, std::string_view machine) {
  constexpr size_t kTrainerAndTwo = 3;
  return std::ranges::any_of(files_of(run, machine), [](const auto& file) {
    const SharedPosition& shared = file.second;
    return shared.moves.size() >= kTrainerAndTwo && shared.first != shared.last &&
           readers_of(shared).size() < 2;
  });
}

std::vector<Finding> find_shared_handles(const Run& run, std::string_view machine) {
  std::vector<Finding> findings = find_shared_connections(run);
  std::set<FileId> told;
  std::set<std::string> named;
  for (const auto& [id, shared] : files_of(run, machine)) {
    std::vector<ProcessKey> readers = readers_of(shared);
    if (readers.size() < 2 || is_read_under_lock(run, shared)) continue;
    if (!told.insert(id.first).second) continue;
    findings.push_back(finding_of(run, shared, std::move(readers)));
    named.insert(shared.path);
  }
  for (const SharedPosition& shared : told_by_workers(run)) {
    if (named.insert(shared.path).second)
      findings.push_back(finding_of(run, shared, processes_of(shared.told)));
  }
  if (!findings.empty() || !ends_badly(run)) return findings;
  for (const StartEvent* event : events_of(run, StartEventKind::kFailed)) {
    if (!failed_by_shared_position(run, *event)) continue;
    findings.push_back(finding_of(run, *event));
    break;
  }
  return findings;
}

}  // namespace dlprobe
