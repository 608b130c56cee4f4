#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/message.h"
#include "lib/base/units.h"
#include "lib/model/recording.h"
#include "lib/model/wait_graph.h"

namespace dlprobe::probes::deadlock {

/// Why a thread that needs something may never get it.
enum class NeedKind {
  kNothing,       ///< it runs, or its wait ends by itself
  kOutside,       ///< of somebody whom the snapshots do not show: a socket, a terminal, a signal
  kNewClient,     ///< a connection to its socket, which anybody may make
  kOwnedLock,     ///< a lock that says who has it
  kLock,          ///< a lock of this process that does not say who has it
  kNotification,  ///< to be woken by another thread of this process: a condition variable, a queue
  kTeam,          ///< the other members of an OpenMP team
  kSharedLock,    ///< a multiprocessing.Lock or RLock
  kSharedCount,   ///< a multiprocessing.Semaphore, Condition, Queue ...
  kGil,
  kJoin,     ///< the end of a thread
  kChild,    ///< the end of a child process
  kChannel,  ///< data in a pipe or socket, or room in it
  kFileLock,
  kKernel,    ///< a disk, a file system
  kContinue,  ///< SIGCONT, or that its cgroup is thawed
};

/// Looks that are less apart, and stillness that is shorter, say nothing.
inline constexpr BootNs kShortestLook = kSecond;

/// What one thread needs before it goes on, and who could give it.
struct Need {
  NeedKind kind = NeedKind::kNothing;
  std::string object;    ///< id in the graph: "pipe 8123"; empty: no object of its own
  Message label;         ///< of the object, for people
  Message words;         ///< "data in pipe 8123, written by worker 4711"
  std::string relation;  ///< of the object to its providers: "held by", "written by"
  /// Who could give it: indices into Facts::threads.
  std::vector<size_t> providers;
  /// Who shares a lock that anybody may release (all of multiprocessing's but RLock), and is not
  /// known to have it. Where one of them can go on, the wait may yet end.
  std::vector<size_t> savers;
  /// Somebody beyond `providers` may give it, too, or time does.
  bool others_may = true;
  /// It is known that the thread that would have to give it is not there; its tid, or 0.
  std::optional<int32_t> missing_tid;
  /// Who alone could give it, a process that is none of the tree, and is stopped.
  const ChannelEnd* stopped_outside = nullptr;

  /// Only the end of one holder, or a release by it, ends the wait.
  bool has_one_holder() const;
};

/// A thread in one snapshot.
struct Look {
  const ThreadSnapshot* thread = nullptr;
  BootNs at = 0;
};

/// A thread as the last snapshot has it, with what all snapshots tell of it.
struct ThreadFacts {
  const ProcessSnapshot* process = nullptr;
  const ThreadSnapshot* thread = nullptr;
  const ProcessInfo* info = nullptr;  ///< of its process; may be null
  std::vector<Look> looks;            ///< at it, the newest first
  /// It was in an earlier snapshot, too, or the kernel says for how long it has not run.
  bool has_history = false;
  bool still = false;       ///< it did not run from `since` on
  bool woke = false;        ///< it ran between two looks
  bool same_stack = false;  ///< the same functions and lines for long; see lasts_long
  double busy_share = 0;    ///< of one core, running or ready to, from the first look to the last
  BootNs since = 0;         ///< from then on it did not run, maybe from before
  Need need;
  /// A thread of torch's own (c10d, Gloo), of NCCL or of a GPU's driver, without Python: it goes on
  /// as the others of its job do.
  bool serves_group = false;
  /// It ran next to nothing, and was at the same place at every look: one long wait, or a wait with
  /// a timeout in a loop.
  bool waits_again = false;
  /// The same, of a wait on files: poll in a loop.
  bool polls_again = false;
  /// It cannot go on: neither by itself, nor by anybody who can.
  bool doomed = false;

  bool is_main() const { return thread->tid == process->key.pid; }
  Role role() const { return info == nullptr ? Role::kOther : info->role; }
};

/// Whether what the newest `count` looks have in common is no chance: they are all there are, or go
/// back for 3 s at least. What stands still may have done so only since some time into the watch.
bool lasts_long(const ThreadFacts& thread, size_t count);

/// How much of one core the thread took from the oldest of the newest `count` looks to the last
/// one.
struct CoreShare {
  double run = 0;   ///< on a CPU
  double busy = 0;  ///< on a CPU, or ready to run
};
CoreShare core_share(const ThreadFacts& thread, size_t count);

struct Facts;
/// Where the threads of the tree take most of the CPUs, and wait for them longer than they run: how
/// many are ready to run on average. 0: that is not so.
int threads_in_excess(const Facts& facts);

/// What the snapshots of a run tell. Points into the recording.
struct Facts {
  const Run* run = nullptr;
  std::string_view machine;            ///< uname: "x86_64"
  uint64_t ticks_per_second = 100;     ///< of start times
  int cpus = 0;                        ///< that may be used; 0: not known
  const TreeSnapshot* last = nullptr;  ///< null: there was none
  BootNs span = 0;                     ///< from the first snapshot that counts to the last
  std::vector<ThreadFacts> threads;    ///< in the order of processes and threads
  std::map<int32_t, std::vector<size_t>> wakers;  ///< by pid, without who wakes nobody
  std::vector<size_t> bystanders;  ///< in order; taken to help nobody; none unless that is asked

  /// Its index; kNone if there is no such thread.
  size_t find(const ProcessKey& process, int32_t tid) const;
  static constexpr size_t kNone = static_cast<size_t>(-1);
};

/// Facts of the snapshots of `run`; those that are older than a minute count no more.
Facts facts_of(const Run& run, const HostFacts& host);

/// The inode by which the other end of a file is listed among TreeSnapshot::channel_ends: of a pipe
/// its own, of a socket its peer's; nothing where that is not known.
std::optional<uint64_t> other_end(const WaitedFile& file);

/// Whether it is a pipe that the program prints to.
bool is_standard_output(const WaitedFile& file);

/// Whether it leads to the other side of a TCP connection, whose address is known.
bool is_connection(const WaitedFile& file);

/// The first connection that it waits on; of one that another thread of its process is to wake by
/// an eventfd (gRPC), the first that such a thread waits on. Null: there is none.
const WaitedFile* connection_of(const Facts& facts, const ThreadFacts& thread);

/// Whether the process of that end, which is none of the tree, was stopped or frozen at each look
/// since then, and has not run.
bool is_stopped_outside(const Run& run, const ChannelEnd& end, BootNs since);

/// Whether it sleeps while others have a lock of a file that its process has open, or that its code
/// names.
bool may_sleep_for_a_lock(const Facts& facts, const ThreadFacts& thread);
/// The same of a wait, if that is a sleep.
bool asks_for_lock(const Facts& facts, const ThreadWait& wait);

/// The file that the code names which sleeps at one place again and again: for its lock, or until
/// it is gone, it may wait. Null: there is none.
const WaitedFile* polled_file(const ThreadFacts& thread);
/// Who has that file locked, or open; null: nobody.
const ChannelEnd* end_of_file(const Facts& facts, const WaitedFile& file);

/// Marks who cannot go on: a provider who can do something saves all who need him. But what many
/// could do for a waiter none of the bystanders is taken to do.
void mark_doomed(Facts& facts);
/// Threads beside the main one that were asleep at one place look after look, as a heartbeat is:
/// their indices, in order. None where the watch was too short to know them.
std::vector<size_t> bystanders_of(const Facts& facts);

/// What a thread needs; the other threads' history is known by then, their needs are not.
Need need_of(const Facts& facts, const ThreadFacts& waiter);

/// Whether somebody who is not known to have the lock that it waits for might yet release it.
bool may_be_saved(const Facts& facts, const ThreadFacts& waiter);

/// Whether its process has a handler for a signal that programs use to wake themselves or one
/// another (SIGUSR1, SIGALRM ...): what it does is not known.
bool may_be_woken_by_signal(const ThreadFacts& thread);

/// Whether its process has, or for all that could be read may have, a handler for one of these.
bool catches_one_of(const ThreadFacts& thread, std::span<const int> signals);

/// Whether a trainer that cannot go on waits for that thread, be it through others.
bool is_waited_for(const Facts& facts, size_t index);

/// Whether the parent of its process is none of the tree: init, or another that adopts orphans.
bool is_orphan(const Facts& facts, const ThreadFacts& thread);

/// Whether it reads its standard input or a terminal, and nothing else: what input() and
/// breakpoint() do.
bool waits_for_input(const ThreadSnapshot& thread);
/// The same, and nobody of the tree is to write it: a person, or another program.
bool asks_a_person(const ThreadFacts& thread);

/// Whether it waits for what another process is to write, and cannot go on before.
bool waits_for_data(const ThreadFacts& thread);

/// Whether it waits for room in a bounded queue (multiprocessing/queues.py, Queue.put), whose
/// semaphore producers acquire and consumers release: it has no owner.
bool waits_for_room(const ThreadFacts& thread);

/// Whether it is in a loop of asyncio.
bool runs_event_loop(const ThreadSnapshot& thread);

/// Whether it waits until task_done() was called for each item of a JoinableQueue (its join()).
bool waits_for_items_done(const ThreadFacts& thread);

/// In how many functions `wait` of Lib/multiprocessing/synchronize.py it is: one of a Condition,
/// two of an Event, which waits in a Condition of its own.
ptrdiff_t waits_in_synchronize(const ThreadFacts& thread);

/// Whether it is in code of the user's that a library's loop in a process of multiprocessing has
/// called (PyTorch's worker, a pool): in the middle of a task.
bool is_in_a_task(const ThreadSnapshot& thread);

/// Whether a worker waits in a queue of tasks: for data of the trainer, or for the queue's lock.
bool waits_for_task(const Facts& facts, const ThreadFacts& thread);

/// The futex that it waits in; one with the address 0 where it waits in something else.
const FutexWait& futex_of(const ThreadFacts& thread);

/// "worker 4711", or "thread 4713 of worker 4711".
OwnWords name_of(const Facts& facts, const ThreadFacts& thread);

/// The names of the first three of these threads, by their index, and how many more there are.
OwnWords join_names(const Facts& facts, const std::vector<size_t>& threads);

/// The process of the tree whose thread that is, in the last snapshot; nothing if none has it.
std::optional<ProcessKey> process_of_thread(const Facts& facts, int32_t tid);

/// The process that it was forked from, in the last snapshot; null if that is none of the tree.
const ProcessSnapshot* parent_of(const Facts& facts, const ProcessKey& key);

/// Whether the process is a copy of another one that has not called execve since: what its parent's
/// threads held then is held for ever.
bool is_forked_copy(const Run& run, const ProcessKey& key);

/// Whether one of the two started the other as a program of its own: it has the ends of pipes that
/// it was given, and none that fork copied.
bool is_started_by_other(const Facts& facts, const ThreadFacts& one, const ThreadFacts& other);

/// Whether a file of that name is CPython itself, whose threads do what their Python code says.
bool is_python(std::string_view library);
/// A thread that its library keeps for work to come: it began in that library.
bool is_pool_thread(const ThreadSnapshot& thread, std::string_view library);
/// How many threads of the process began in that library.
size_t count_pool_threads(const ProcessSnapshot& process, std::string_view library);

/// The innermost native frame that is not of the C or C++ library, with a name; empty if the stack
/// has none.
std::string blamed_function(const ThreadSnapshot& thread);
/// The file name of the innermost native frame that is not of the C or C++ library: the library
/// that waits.
std::string blamed_library(const ThreadSnapshot& thread);

/// What asks for a lock or semaphore of multiprocessing, whose own file has `with lock:` alone,
/// too; null if that is not known.
const StackFrame* asker_of(const ThreadSnapshot& thread);

/// The innermost Python frame; null if there is none.
const StackFrame* python_frame(const ThreadSnapshot& thread);
/// Whether it waits for a lock inside CPython that guards the buffer of a file (Modules/_io).
bool is_buffer_of_file(const ThreadSnapshot& thread);
/// Whether it waits for a lock of Python's, as far as that is known: by its object, or by who asks.
bool is_lock_of_python(const ThreadFacts& thread);
/// Whether the innermost Python function is of the standard library or an installed package; also
/// where there is no Python.
bool waits_in_a_library(const ThreadSnapshot& thread);
/// Whether it waits for a result of another process: in the queues, pools and connections of
/// multiprocessing, concurrent.futures and PyTorch, or without any Python.
bool waits_for_result(const ThreadFacts& thread);
/// Whether a trainer stands still in such a wait: whoever does not work is needed.
bool trainer_waits_for_result(const Facts& facts);
/// Whether one that is met in the same wait at each look was given something in between. One that
/// waits again after a timeout wakes seldom (torch's 5 s), or reads nothing.
bool goes_on(const Facts& facts, const ThreadFacts& thread);
/// Whether a worker and a trainer have lately read or written between two looks: it takes tasks and
/// hands on results, however slowly. One that reads file after file while its trainer gets nothing
/// does not.
bool hands_on(const Facts& facts, const ThreadFacts& worker);
/// For how long the process has read and written nothing and has hardly run, by the samples: looks
/// reach back for less.
std::optional<BootNs> idle_for(const Facts& facts, const ThreadFacts& thread);
/// Whether it waits for no more than the end of a short sleep, for data that come slowly, or for a
/// lock of one who does; not of one whose process sleeps again and again, and for a minute has done
/// nothing else.
bool ends_by_itself(const Facts& facts, const ThreadFacts& thread);
/// Whether it sleeps at one and the same place again and again: it asks whether something has come.
bool polls_by_sleep(const ThreadFacts& thread);
/// Whether a trainer's main thread works, or gets what it waits for.
bool a_trainer_goes_on(const Facts& facts);
/// A Python frame that is not of the standard library or an installed package.
bool is_of_user(const StackFrame& frame);
/// The innermost such frame; of one that waits in an event loop, of the task that is its main one.
const StackFrame* user_frame(const ThreadSnapshot& thread);
/// The same of a stack: of a task, or of a traceback.
const StackFrame* user_frame(const std::vector<StackFrame>& stack);
/// Whether the user's frames are the same, from the innermost to the outermost.
bool same_user_frames(const ThreadSnapshot& a, const ThreadSnapshot& b);
/// " (main, train.py:41)": where it is, in the user's code if it is in any; empty without Python.
Message place_of(const ThreadFacts& thread);
/// Of a frame; empty of none.
Message place_of(const StackFrame* frame);
/// Of one that waits in an event loop: ", where 4 more tasks wait (consume, train.py:9)", beside
/// the one whose place that is; may be empty.
Message words_of_more_tasks(const ThreadSnapshot& thread);

/// From then on a wait that nobody expects is worth a warning.
inline constexpr BootNs kWorthAWarning = 10 * kSecond;
/// Whether it stands for so long that nobody expects it: by dlprobe's own watch, or by the kernel's
/// clock, which began before. Of one that has hardly worked yet the pace is not known: a first read
/// may be a long one.
bool is_worth_a_warning(const Facts& facts, const ThreadFacts& thread,
                        BootNs without_pace = 30 * kSecond);

}  // namespace dlprobe::probes::deadlock
