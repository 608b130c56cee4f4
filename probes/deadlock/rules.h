#pragma once

#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/rank_state.h"
#include "probes/deadlock/facts.h"
#include "probes/deadlock/ranks.h"

namespace dlprobe::probes::deadlock {

/// A cause, and the thread at which the chain of waits ends in it.
struct RootCause {
  Finding finding;
  size_t thread = 0;  ///< index into Facts::threads
};

/// What makes that thread a cause of its own; nothing where `explained` says that it has one.
using ThreadRule = std::optional<RootCause> (*)(const Facts& facts, size_t thread,
                                                const std::vector<bool>& explained);
/// One rule after the other on all threads; what a cause explains, be it of `known`, is none.
std::vector<RootCause> find_unexplained(const Facts& facts, const std::vector<RootCause>& known,
                                        std::span<const ThreadRule> rules);

/// Locks, semaphores and threads that nobody can give any more: DLP0301 to DLP0307.
std::vector<RootCause> find_lost_holders(const Facts& facts);

/// Pools of threads that fork did not copy, waiting or spinning: DLP0302. A multiprocessing.Pool
/// that takes no results in: DLP0305.
std::vector<RootCause> find_lost_pools(const Facts& facts);

/// Pipes without a peer, orphans, stopped processes, storage: DLP0308 to DLP0311.
std::vector<RootCause> find_lost_peers(const Facts& facts);

/// Threads that wait for one another, as far as none of `known` explains them: DLP0303, DLP0306,
/// DLP0106.
std::vector<RootCause> find_circles(const Facts& facts, const std::vector<RootCause>& known);

/// A worker that waits for a thread of its process which is not there, or waits itself, and that
/// the trainer needs; info where it does not.
std::optional<RootCause> lost_notifier(const Facts& facts, size_t index,
                                       const std::vector<bool>& explained);
/// The workers, if all of them are parked; else nothing. Only a pool's own threads give it tasks.
std::set<size_t> idle_processes(const Facts& facts, const std::vector<bool>& explained,
                                bool of_pool);
/// A trainer that waits for a result, while those who could make it wait for tasks, or are gone:
/// DLP0106.
std::optional<RootCause> lost_batch(const Facts& facts, size_t index,
                                    const std::vector<bool>& explained);
/// An event loop that sleeps although what one of its tasks awaits is done: nobody woke it.
std::optional<RootCause> unwoken_loop(const Facts& facts, size_t index,
                                      const std::vector<bool>& explained);
/// A trainer that waits for the result of a task which no thread of its is left to do, or, in its
/// event loop's own thread, for what that loop would have to do.
std::optional<RootCause> task_behind_task(const Facts& facts, size_t index,
                                          const std::vector<bool>& explained);

/// Semaphores without a holder (of queues, barriers, conditions) that a stuck trainer needs to be
/// released, and children that wait for data of the parent that waits for their end: DLP0303.
/// Workers in the middle of a batch that wait for data which nobody is left to write: DLP0308. As
/// far as none of `known` explains them.
std::vector<RootCause> find_closed_groups(const Facts& facts, const std::vector<RootCause>& known);

/// A loader's processes that wait for somebody to open the other end of a FIFO: DLP0308. A trainer
/// without workers may serve whoever comes.
std::vector<RootCause> fifos_without_peer(const Facts& facts, const std::vector<Rank>& ranks);

/// A trainer that reads what a program that it started has written (subprocess), where that program
/// has ended, and one outside of the job has its end of the pipe: DLP0308.
std::optional<RootCause> output_kept_open(const Facts& facts, const Rank& rank);

/// Of a rank whose trainer waits for a batch, the workers in the middle of one: DLP0312, DLP0313.
std::vector<RootCause> find_slow_workers(const Facts& facts, const Rank& rank);

/// Whether a worker waits for a task, or for room for its results.
bool has_done_its_work(const Facts& facts, const ThreadFacts& worker);
/// Whether it has been in one wait all along that ends at a time which is known.
bool ends_when_due(const Facts& facts, const ThreadFacts& thread);
/// Who of a trainer's threads may end its wait: the last on its way, and who may wake that one.
std::vector<size_t> wakers_of(const Facts& facts, const ThreadFacts& trainer, size_t end);
/// A trainer that stands, though its workers have done their work: DLP0314.
std::optional<RootCause> stuck_consumer(const Facts& facts, const Rank& rank);

/// A thread that waits for the GPU and has the lock which a function wants that the GPU's stream
/// calls (cuLaunchHostFunc, in a thread of the driver): DLP0303.
std::optional<RootCause> lock_behind_gpu(const Facts& facts, size_t waiter);

/// For how long a worker has to compute without an end of its batch to be worth a warning. A task
/// of a pool may be anything: a trial, an evaluation.
BootNs long_work(const ThreadFacts& worker);
Remedy remedy_for_long_work(const Facts& facts, const ThreadFacts& worker);

/// Whether a trainer, or its pin-memory thread, waits for a batch the whole time.
bool waits_for_batch(const Facts& facts, const ThreadFacts& trainer);

/// Whether it is in PyTorch's DataLoader, in the trainer.
bool is_in_loader(const ThreadSnapshot& thread);

/// Trainers that are met, at nearly every look, where they wait for a batch: nothing is wrong, but
/// the loader is slower than the training. A note, DLP0313.
std::vector<RootCause> find_slow_loaders(const Facts& facts);

/// Whether it waits, in torch.multiprocessing.spawn(), for the ends of the processes that it
/// started: for no batch, and for none that writes.
bool waits_for_ends(const ThreadSnapshot& thread);

/// The rank's trainer, in code of the user's that its loader has called (a sampler), while its
/// workers wait for tasks and get none: DLP0315.
std::optional<RootCause> busy_in_loader(const Facts& facts, const Rank& rank);

/// A worker that computes, and reads and writes nothing since another one has failed, while
/// trainers wait: DLP0312. It may wait for that one, in a loop; a possible cause.
std::optional<RootCause> computes_since_failure(const Facts& facts);

/// A standstill in which a program waits for its own tasks or threads: that one of its tasks has
/// failed, and is why, comes first.
void blame_failed_task(const Facts& facts, RootCause& cause);

/// What the last look shows of a rank; its cause where `known` has one. What its workers do is not
/// in it.
RankState state_of(const Facts& facts, const Rank& rank, const std::vector<RootCause>& known);

/// The ranks of distributed jobs whose launcher tells their numbers, with what their workers do.
std::vector<RankState> rank_states(const Facts& facts, const std::vector<RootCause>& known,
                                   const WaitGraph& graph);

/// Those of the run that have ended while it was watched.
std::vector<RankState> ended_ranks(const Run& run);

/// The one child of `parent` that has ended without having told which rank it was, as rank `id`;
/// nothing where there are several or none.
std::optional<RankState> unnamed_end(const Run& run, int32_t parent, const JobRank& id);

/// Ranks that others of their job wait for in a collective operation, be it for what `known`
/// explains: DLP0702 to DLP0706, and what their loaders wait for.
std::vector<RootCause> find_late_ranks(const Facts& facts, const std::vector<RootCause>& known);

/// Who computes for long, and whether the loader or its consumer is late; orphans at work: DLP0309,
/// DLP0312 to DLP0315.
std::vector<RootCause> find_slow_parts(const Facts& facts);

/// For so long a standstill may be meant, where only a sleep at one place, again and again, or a
/// lock that another process may release, tells of it.
inline constexpr BootNs kLongRest = 60 * kSecond;

/// For how long at least no thread of the tree has done anything but wait, or sleep again and again
/// at one place; nothing where one does something.
std::optional<BootNs> nothing_goes_on_for(const Facts& facts);

/// What waits, where and how long, if all trainers and workers do nothing but wait, by the first of
/// `causes` if there are any; empty if one of them does something. A wait that is too short for a
/// warning is no proof of health.
Message describe_standstill(const Facts& facts, const std::vector<RootCause>& causes);

/// What does no harm yet: pools that forked workers have lost and would wait for, and several
/// OpenMP runtimes in one process. DLP0604, DLP0605.
std::vector<Finding> find_risks(const Facts& facts, const std::vector<RootCause>& causes, int cpus);

/// A finding about that thread: since when, where it waits, the user's own code that led there.
Finding finding_about(const Facts& facts, FindingCode code, Confidence confidence,
                      const ThreadFacts& thread);

/// Says first that the program of a process which a thread keeps alive ended with an exception.
void blame_failed_program(const Facts& facts, RootCause& cause);

/// A trainer that waits for a connection (accept), where all that it started have ended, and not
/// well: DLP0314.
std::optional<RootCause> deserted_listener(const Facts& facts, const Rank& rank);

/// An event loop whose main task waits at an asyncio.Queue while another has failed, whatever
/// timers the loop has.
std::optional<RootCause> loop_without_a_task(const Facts& facts, const Rank& rank);

/// An orphan that waits for what only other orphans are left to give, for nobody: DLP0309.
RootCause left_with_orphans(const Facts& facts, size_t index);

/// Workers that their trainer left in the middle of a batch: DLP0309.
std::vector<RootCause> orphans_at_work(const Facts& facts);

/// What every finding about an orphan says: its parent, and what to do.
void add_orphan(Finding& finding, const Facts& facts, const ThreadFacts& orphan);

/// Of a thread that computes: that the job's threads are too many for the CPUs, where they are, and
/// the remedy.
void add_crowd(Finding& finding, const Facts& facts);

/// Start workers without a copy of the parent, as what forked `copy` can be told; null: not known.
void add_remedy_of_clean_start(Finding& finding, const Facts& facts, const ProcessSnapshot* copy);
/// What helps with the library of that file; false where nothing is known.
bool add_remedy_for_library(Finding& finding, std::string_view file);
/// Of one that waits for the server of multiprocessing.Manager, for the other side of a TCP
/// connection, where no process of the tree has it, or for who reads what it prints.
void add_remedy_for_answer(Finding& finding, const Facts& facts, const ThreadFacts& thread);
/// Start workers without a copy of the parent's threads; what else helps with the library that
/// waits, where that is known.
void add_remedies_for_fork(Finding& finding, const Facts& facts, const ThreadFacts& thread);

/// The graph of all waits, with the shortest way from the trainer to one of `causes`.
WaitGraph make_wait_graph(const Facts& facts, const std::vector<RootCause>& causes);

}  // namespace dlprobe::probes::deadlock
