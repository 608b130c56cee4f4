#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/finding.h"

namespace dlprobe {

/// Where the facts of start events come from, for evidence.
inline constexpr const char* kShimSource = "dlprobe's witness in the interpreter";
inline constexpr const char* kLoaderSource = "the reference loader's progress lines";

/// "train.py:12", with the last folder's name; empty where the event has no line.
Message short_place(const StartEvent& event);
/// "/data/job/train.py:12".
Message whole_place(const StartEvent& event);

/// " at train.py:12 in main"; empty where the event has no line.
Message place_of(const StartEvent& event);

/// Proves the finding by what was raised and where, and names the user's line.
void add_exception(Finding& finding, const StartEvent& event);

/// What to do where processes that start anew lack `what`.
Remedy pass_to_processes(const Message& what);

/// Whether a DataLoader of the run reads an IterableDataset, as the witness tells.
bool reads_a_stream(const Run& run);
/// For ranks of which some have less to do than others, where they share out a stream.
Remedy share_out_a_stream();

/// The events of that kind (and cause), in time order, without failures of handled children.
std::vector<const StartEvent*> events_of(const Run& run, StartEventKind kind);
std::vector<const StartEvent*> refusals_of(const Run& run, StartRefusal cause);

/// The name of a start method as an interpreter told it: one of Python's, or anything else.
Message method_name(std::string_view method);
/// The start method that the run was under: of its trial, else of the first process started.
Message method_of(const Run& run);

/// Processes of `events`, each once, in key order.
std::vector<ProcessKey> processes_of(std::span<const StartEvent* const> events);

/// A process and whose start it was, in a row of processes that run the same program.
struct Descent {
  std::vector<const ProcessInfo*> chain;  ///< the deepest, the first of them first
};
/// The longest row of processes of the run of which each descends from the one before and runs the
/// same: the same command line, or multiprocessing's own for a child.
Descent deepest_descent(const Run& run);

/// How the command of the run itself ended; null where it has not, or nobody saw it.
const ProcessExit* end_of_command(const Run& run);

/// The collective operation in which torch.distributed raised it, or the backward pass of
/// DistributedDataParallel: "/usr/lib/.../torch/distributed/distributed_c10d.py:1437 all_reduce" ->
/// "all_reduce". Empty: it was raised elsewhere.
std::string collective_of(const StartEvent& event);

/// Whether a wait for other processes had a timeout that ran out: for a batch of a DataLoader, for
/// an item of a queue, for a result of a pool or an executor.
bool is_of_timeout(const StartEvent& event);

/// The first exception of collective_of() or is_of_timeout(), of those from `from` on: who waited
/// gave up. Null where none did, or the command did not fail.
const StartEvent* first_to_give_up(const Run& run, BootNs from);
/// When that was.
std::optional<BootNs> gave_up_at(const Run& run, BootNs from);

/// Whether one that ended by that had done so by then: the others are no longer waited for.
bool had_rank_given_up(const Run& run, BootNs at);

/// The first rank that called abort(), of those that ended from `from` on, in a command that
/// failed: a process group ends its process so once its time is over (NCCL's watchdog), as do other
/// errors of native code. Null: none did.
const ProcessExit* aborted_rank(const Run& run, BootNs from);

/// Whether the command exited with an error.
bool command_failed(const Run& run);
/// Whether it did, was ended, or had not ended when the watch did: not while it still runs.
bool ends_badly(const Run& run);

/// What ended a command that exited with an error, as its interpreters told it.
struct Ending {
  const StartEvent* first = nullptr;  ///< what was raised first, or a process that left its pool
  const StartEvent* last = nullptr;   ///< the exception that ended the program: often the same
  bool is_certain = false;  ///< that the one ended the program, and is the reason for the other

  /// Whether it is raised for a pool or loader that lost a process, and no interpreter told why.
  bool is_broken() const { return first == last && !last->again.empty(); }
};
/// What an exception was when it was raised first; itself where nobody told of another one.
const StartEvent& origin_of(const Run& run, const StartEvent& event);
/// Nothing: no interpreter told of one.
std::optional<Ending> ending_of(const Run& run);

/// The exceptions that may be why a command ended badly, in time order: what ended it, and all that
/// ended one of its processes. Of one that was killed or hangs all that ended anything.
std::vector<const StartEvent*> fatal_exceptions(const Run& run);

/// Of an exception for want of space: the file system had none of inodes. A semaphore takes two
/// (sem_open links its file, and tmpfs counts a link).
bool lacks_inodes(const StartEvent& event);

/// How many processes may live at once in the run's trial: what was allowed, and the workers that
/// its largest DataLoader has.
size_t allowed_processes(const Run& run);

/// How many processes of the run lived at once, at the most, and when that was.
struct Crowd {
  size_t processes = 0;
  BootNs at = 0;
};
Crowd largest_crowd(const Run& run);

}  // namespace dlprobe
