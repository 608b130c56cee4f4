#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/finding.h"
#include "lib/model/recording_view.h"
#include "probes/facts/deaths.h"

namespace dlprobe::probes::exits {

/// Why one process ended.
struct ExitCause : Finding {
  ExitCause() { code = FindingCode::kKilledBySignal; }

  Message clause;          ///< what follows the process's name: "was killed by ..."
  std::string together;    ///< deaths with the same are one event: code, sender, group
  std::optional<Gap> gap;  ///< what more would have been said
};

/// What a process's end means for the job.
struct Judged {
  const Death* death = nullptr;
  ExitCause cause;
};

/// Whoever stops a whole job does so at once.
constexpr BootNs kTogether = 100 * kMillisecond;

bool is_root(const ExitFacts& facts, const ProcessInfo& process);
bool is_of_loader(const ExitFacts& facts, const ProcessInfo& process);
/// Whether it is one that may end that process: its parent, the root, who started the loader.
bool is_above(const ExitFacts& facts, const ProcessInfo& sender, const ProcessInfo& process);
/// Whether multiprocessing started it under the witness, which tells of exceptions and exits.
bool is_witnessed(const Run& run, const ProcessKey& key);

/// Who ended, and how, of processes that ended alike.
Message message_of(const ExitFacts& facts, const std::vector<const Judged*>& group);

/// Whether it ended by a signal, and the command exited with what a shell makes of that.
bool is_passed_on(const ExitFacts& facts, const Death& death);
/// Of a worker: its trainer came to an end that is no failure.
bool trainer_ended_well(const ExitFacts& facts, const Death& death);
/// By os._exit in a task of a multiprocessing.Pool, which never gets the result then.
bool left_task_of_pool(const ExitFacts& facts, const Death& death);
/// By SIGSEGV and others that code brings upon itself.
bool is_crash_signal(int signal);
/// The script of "python -u train.py --epochs 3" that the process runs; of one that another one
/// spawned the other's, else that of the command; "train.py" where there is none.
Message script_of(const Run& run, const ProcessKey& key);
/// How bad it is for the job: by whether it went on, and ended well.
Severity severity_of(const ExitFacts& facts, const Judged& judged);

/// DLP0501, DLP0502: by the kernel's OOM killer; nothing if it was not.
std::optional<ExitCause> oom_cause(const ExitFacts& facts, const Death& death);

/// Says which process had grown until then: one of the finding's, or, of an OOM kill, another one;
/// and the container of the program that grew with it.
void add_growth(Finding& finding, const Run& run);

/// DLP0503: by a signal that somebody sent, or a resource limit; DLP0511 where it is a hang-up.
ExitCause kill_cause(const ExitFacts& facts, const Death& death);

/// The call by which a process of the job sent the signal that ended this one; null: none was told.
const StartEvent* call_that_sent(const ExitFacts& facts, const Death& death);
/// DLP0503: by a timer that it had set itself.
std::optional<ExitCause> timer_cause(const ExitFacts& facts, const Death& death);

/// Whether another child of the same parent, or that, then failed in asking its manager, as this
/// one may have been.
bool was_asked_as_manager(const ExitFacts& facts, const Death& death);
/// Whether it was killed, and the job hung after that until dlprobe ended it: what it held is held
/// for ever.
bool is_before_hang(const ExitFacts& facts, const Death& death);
/// Whether the job lived with it: the trainer started others later, and then failed by an exception
/// of its own.
bool was_survived(const ExitFacts& facts, const Death& death);
/// Whether somebody above it in the job ended it: of a program that fails that is its clean-up.
/// Where the sender could not be seen, what ends after another child failed counts so.
bool was_ended_from_above(const ExitFacts& facts, const Death& death);
/// Of a child that a signal ended: whether the exception that ended the command is raised because
/// of it, which names no process: for a pool that lost one, or soon after the same again.
bool broke_the_job(const ExitFacts& facts, const Death& death);
/// Says the first two of a process that was killed.
void add_aftermath(const ExitFacts& facts, const Death& death, ExitCause& cause);

/// Says so where the trainer ended well although a signal had ended its workers, and started no
/// others.
void add_lost_results(const ExitFacts& facts, const std::vector<const Judged*>& group,
                      Finding& finding);

/// DLP0509: by what its own code did.
ExitCause crash_cause(const ExitFacts& facts, const Death& death);

/// DLP0512; DLP0509 where the memory itself is broken or the fault is none of a mapping.
ExitCause bus_error_cause(const ExitFacts& facts, const Death& death);

/// Of a forked process that raised SIGTERM itself a library that does so there; null: it has none.
const Event* library_that_ends_copies(const ExitFacts& facts, const Death& death);

/// Whether the process was sent it because the thread of its parent ended that had started it.
bool is_of_parents_thread(const ProcessInfo& process, const SignalSent& sent);

/// The signal that the process caught and turned into an exit just after; null: there was none.
const SignalSent* caught_signal(const ExitFacts& facts, const Death& death);
/// DLP0503: by that signal.
ExitCause caught_cause(const ExitFacts& facts, const Death& death, const SignalSent& caught);
/// Where the command left by its handler of a signal, that comes before the thread that it had
/// lost: `raised`, which is then a warning.
void put_handler_first(const ExitFacts& facts, Finding& raised);

/// DLP0510: it called exit.
ExitCause exit_cause(const ExitFacts& facts, const Death& death);

/// What a child itself told of its end.
struct ExitWord {
  Message clause;    ///< ": it called os._exit at data.py:12 in load"
  std::string kind;  ///< what it called, or the class of the exception
  std::vector<Evidence> evidence;
  std::optional<Remedy> remedy;  ///< of an exception, of os.abort, of a trainer's call
};
inline constexpr std::string_view kCallOfAbort = "os.abort";
inline constexpr std::string_view kCallOfExit = "sys.exit";
/// Nothing: it told nothing, or has no witness.
std::optional<ExitWord> word_of(const Run& run, const ProcessKey& key);

/// What else is known of what the system refused, where the exception's text does not say it.
struct Reason {
  Message clause;  ///< "; the file system of /data/x is full ..."
  std::vector<Evidence> evidence;
  Remedy remedy;
};
/// Nothing: no more is known.
std::optional<Reason> reason_of(const Run& run, const StartEvent& event);

/// So long before an exception its reason may have ended; and a rank that left, after it.
constexpr BootNs kJustBefore = 2 * kSecond;

/// The same program of the same parent as what raised the exception that ended the job: a rank that
/// left by an exit of its own. What is known of it is its code alone, and that others lose their
/// connections to it in its last moments: libraries take a second to be unloaded.
bool is_rank_that_left(const ExitFacts& facts, const Death& death);

/// Whether others failed only because this rank left with an error: in a collective operation with
/// it, or as the launcher that started it. Of one that nobody ended.
bool failed_its_job(const ExitFacts& facts, const Death& death);

/// Of the ranks beside that one those that failed in a collective operation (torch.distributed)
/// once it was gone, as all do that meet it: the first exception of each.
std::vector<const StartEvent*> ranks_that_failed_after(const ExitFacts& facts, const Death& gone);
/// Says which they are.
void add_ranks_that_failed_after(const ExitFacts& facts, const Death& gone, Finding& finding);

/// DLP0704: a rank of a job ended with code 0, and another one then failed in a collective
/// operation (torch.distributed), which it waited for it in. DLP0705: before they had met.
std::optional<Finding> rank_that_was_through(const ExitFacts& facts);
/// Whether that process never was in a process group: it failed where ranks find one another.
bool failed_to_meet(const Run& run, const StartEvent& failed);

/// Ranks that failed where they find one another: DLP0705 where two have one number, DLP0703 where
/// they came to different addresses, DLP0514 where another process listens there.
std::optional<Finding> failed_meeting(const Run& run);

/// DLP0705: ranks gave up to wait for others of their job which the command never started, and
/// which have to be here.
std::optional<Finding> rank_never_started(const ExitFacts& facts);
/// DLP0704: a rank of a job ended with code 0, and its launcher then ended the others: as those of
/// MPI do when one leaves without MPI_Finalize, Open MPI after a second.
std::optional<Finding> rank_that_left_its_launcher(const ExitFacts& facts);

/// DLP0603: a process was refused another one, or a thread, and the job did not end well.
std::optional<Finding> no_room_for_tasks(const ExitFacts& facts);

/// DLP0603 ahead: the process whose threads grow the fastest, or the processes of the job do.
std::optional<Finding> growing_tasks(const ExitFacts& facts);

/// DLP0608, DLP0508, DLP0513: an exception for want of space for temporary files, or of a folder
/// for them, or of a process's own memory, or of the room for a copy of it.
std::optional<Finding> refused_resource(const Run& run);

/// DLP0514: the command failed, by an exception that nobody caught; DLP0510: because a process left
/// that it waited for.
std::optional<Finding> uncaught_exception(const Run& run);
/// DLP0514 of a pool whose initializer fails in each worker that it starts, of a command that did
/// not end well.
std::optional<Finding> failing_initializer(const Run& run);
/// DLP0514 of a command that runs yet, or had to be ended: a thread of it has ended so, or an item
/// did not get into its queue. An error where a known finding says that others wait because of it.
std::optional<Finding> lost_part(const Run& run, std::span<const Finding> known);

/// DLP0513: fork failed although memory was free; nothing where the kernel sets no such limit, or
/// a copy of the process would have been within it.
std::optional<ExitCause> refused_fork(const ExitFacts& facts, const Death& death);
/// To start workers without a copy, or to have the kernel grant it.
std::vector<Remedy> remedies_for_refused_copy(const char* title, const char* command);
/// Whether it was read how the kernel grants memory, and how processes ended.
bool saw_overcommit(const RecordingView& recording);

/// Evidence that every death by a signal has: the signal, and who sent it.
std::vector<Evidence> signal_evidence(const ExitFacts& facts, const Death& death);

/// Says why it was not the OOM killer, where that is certain; the gap where it cannot be said.
void rule_out_oom(const ExitFacts& facts, const Death& death, ExitCause& cause);

}  // namespace dlprobe::probes::exits
