#include "probes/deadlock/facts.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <ranges>
#include <set>
#include <utility>

#include "lib/base/path_name.h"
#include "lib/foreign/libraries.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/patience.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

constexpr BootNs kOldest = 60 * kSecond;

const ProcessSnapshot* find_process(const TreeSnapshot& tree, const ProcessKey& key) {
  const auto found = std::ranges::find(tree.processes, key, &ProcessSnapshot::key);
  return found == tree.processes.end() ? nullptr : &*found;
}

const ThreadSnapshot* find_thread_of(const ProcessSnapshot& process, int32_t tid) {
  const auto found = std::ranges::find(process.threads, tid, &ThreadSnapshot::tid);
  return found == process.threads.end() ? nullptr : &*found;
}

// A thread that never ran in between is still in the same wait. One that dlprobe stopped and let go
// has run for as long as it takes to enter the same call again.
bool stood_still(const ThreadSnapshot& before, const ThreadSnapshot& after, uint64_t stops) {
  constexpr uint64_t kWokenByALook = 4;  // timeslices
  constexpr uint64_t kTimeOfALook = 200'000;
  const uint64_t slices = stops * kWokenByALook;
  const uint64_t time = stops * kTimeOfALook;
  return !after.wait.running && after.timeslices <= before.timeslices + slices &&
         after.cpu_ns <= before.cpu_ns + time && before.wait.syscall == after.wait.syscall &&
         before.wait.args == after.wait.args;
}

constexpr BootNs kAtOnce = 5 * kSecond;  // looks for motion are a second apart

// Whether a process of the job was killed about then, after which there was not much more.
bool was_killed_about(const Run& run, BootNs at) {
  const bool goes_on = !run.samples.empty() && run.samples.back().at > at + 2 * kAtOnce;
  return !goes_on && std::ranges::any_of(run.exits, [&](const ProcessExit& exit) {
    return WIFSIGNALED(exit.wait_status.value_or(0)) && std::abs(exit.at - at) <= kAtOnce;
  });
}

// When something moved for the last time that was no end of the job.
BootNs last_motion(const Run& run) {
  BootNs last = 0;
  for (const Event& event : run.events) {
    if (event.kind != kMovesAgain) continue;
    const auto gave_up = gave_up_at(run, event.at - kAtOnce);
    const bool is_end =
        (gave_up && *gave_up <= event.at + kAtOnce) || was_killed_about(run, event.at);
    if (!is_end) last = event.at;
  }
  return last;
}

// A look at a rank that is giving up tells nothing of what it waited for.
bool is_giving_up(const Run& run, const std::optional<Patience>& patience, BootNs at) {
  if (patience && at >= patience->over_at) return true;
  if (had_rank_given_up(run, at + kSecond)) return true;
  const StartEvent* gave_up = first_to_give_up(run, at - kAtOnce);
  // Who waits for a batch does so until its time is over.
  const bool is_of_loader = gave_up != nullptr && is_of_timeout(*gave_up);
  return gave_up != nullptr && gave_up->at <= at + (is_of_loader ? kSecond / 4 : kSecond);
}

// The snapshots that count, newest first: not those of a standstill that has ended by itself, as
// that of a command which then ended well.
std::vector<const TreeSnapshot*> recent(const Run& run, std::string_view machine) {
  std::vector<const TreeSnapshot*> trees;
  const ProcessExit* end = end_of_command(run);
  const bool ended_well = end != nullptr && end->wait_status && *end->wait_status == 0;
  if (ended_well && has_subject_ended(run) && !was_ended_by_dlprobe(run)) return trees;
  const auto group = ended_group(run);
  const BootNs until = group ? group->at : std::numeric_limits<BootNs>::max();
  const BootNs newest = std::min(until, run.snapshots.empty() ? 0 : run.snapshots.back().at);
  const BootNs from = std::min(last_motion(run), group ? group->since : until);
  const auto patience = ended_patience(run, machine);
  for (const TreeSnapshot& tree : run.snapshots | std::views::reverse) {
    if (tree.at < from || newest - tree.at > kOldest) break;
    if (tree.at < until && !is_giving_up(run, patience, tree.at)) trees.push_back(&tree);
  }
  return trees;
}

/// Since when a look says that the thread has not run: at the latest since the look itself.
BootNs blocked_since(const ThreadSnapshot& look, BootNs at) {
  return look.blocked_since != 0 ? std::min(look.blocked_since, at) : at;
}

// Asleep in the same call of the same Python code. What the interpreter itself stands at changes
// when it has specialized the code (CPython 3.11), which it does after a few rounds of a loop.
bool is_same_wait(const ThreadSnapshot& one, const ThreadSnapshot& other) {
  const auto of_python = std::views::filter(&StackFrame::python);
  return !one.wait.running && !other.wait.running && one.wait.syscall == other.wait.syscall &&
         std::ranges::any_of(one.stack, &StackFrame::python) &&
         std::ranges::equal(one.stack | of_python, other.stack | of_python);
}

// The newest looks that show one stack. One that met it awake between two waits does not count.
size_t looks_at_same_place(const std::vector<Look>& looks) {
  size_t same = 1;
  for (size_t i = 1; i < looks.size(); ++i) {
    const ThreadSnapshot& thread = *looks[i].thread;
    const ThreadSnapshot& last = *looks.front().thread;
    const bool is_same = thread.stack == last.stack || is_same_wait(thread, last);
    if (is_same) same = i + 1;
    if (!is_same && !thread.wait.running) break;
  }
  return same;
}

void add_history(const std::vector<const TreeSnapshot*>& trees, std::string_view machine,
                 ThreadFacts& facts) {
  const ThreadSnapshot& now = *facts.thread;
  const BootNs end = trees.front()->at;
  facts.still = true;
  facts.since = blocked_since(now, end);
  facts.looks = {{.thread = &now, .at = end}};
  BootNs still_from = end;
  uint64_t stops = now.stopped ? 1 : 0;  // its counters are read after the stop
  for (size_t i = 1; i < trees.size(); ++i) {
    const ProcessSnapshot* process = find_process(*trees[i], facts.process->key);
    const ThreadSnapshot* before = process == nullptr ? nullptr : find_thread_of(*process, now.tid);
    if (before == nullptr) break;
    facts.looks.push_back({.thread = before, .at = trees[i]->at});
    facts.has_history = true;
    if (before->stopped) ++stops;
    facts.still = facts.still && stood_still(*before, now, stops);
    if (!facts.still) continue;
    still_from = trees[i]->at;
    facts.since = std::min(facts.since, blocked_since(*before, trees[i]->at));
  }
  facts.woke = !facts.still;
  // What stood still from some snapshot on stands still now; what did before dlprobe came, too.
  const bool kernel_says_so = end - facts.since >= kShortestLook;
  facts.still = (still_from < end || kernel_says_so) && end - facts.since >= kShortestLook;
  facts.has_history = facts.has_history || kernel_says_so;
  facts.busy_share = core_share(facts, facts.looks.size()).busy;
  const size_t same = looks_at_same_place(facts.looks);
  facts.same_stack = lasts_long(facts, same);
  constexpr double kMostOfAPoll = 0.01;  // of a core
  facts.waits_again = facts.looks.size() > 1 && facts.same_stack && !now.wait.running &&
                      core_share(facts, same).run < kMostOfAPoll &&
                      (!facts.woke || may_wake_for_nothing(now, machine));
  facts.polls_again = facts.waits_again && !now.wait.files.empty();
  // A wait with a timeout in a loop is one wait.
  if (facts.waits_again) facts.since = std::min(facts.since, facts.looks[same - 1].at);
}

}  // namespace

const StackFrame* asker_of(const ThreadSnapshot& thread) {
  const auto found = std::ranges::find_if(thread.stack, [](const StackFrame& frame) {
    return frame.python && !is_of_multiprocessing(frame.file, "synchronize.py");
  });
  return found == thread.stack.end() ? nullptr : &*found;
}

namespace {

// Whether that is this method of a multiprocessing.Queue or SimpleQueue.
bool is_of_queue(const StackFrame* frame, std::string_view method) {
  return frame != nullptr && is_of_multiprocessing(frame->file, "queues.py") &&
         (frame->function == method || frame->function.ends_with("Queue." + std::string(method)));
}

// What is known of parents is from the end of the watch; a trainer may have lived until after the
// last look.
bool trainer_died_since(const Facts& facts) {
  return std::ranges::any_of(facts.threads, [&](const ThreadFacts& thread) {
    return thread.is_main() && thread.role() == Role::kTrainer &&
           is_known_dead(*facts.run, thread.process->key, std::numeric_limits<BootNs>::max());
  });
}

const StackFrame* blamed_frame(const ThreadSnapshot& thread) {
  const auto found = std::ranges::find_if(thread.stack, [](const StackFrame& frame) {
    return !frame.python && !frame.file.empty() && !is_language_runtime(frame.file);
  });
  return found == thread.stack.end() ? nullptr : &*found;
}

}  // namespace

bool Need::has_one_holder() const {
  return kind == NeedKind::kOwnedLock || kind == NeedKind::kSharedLock || kind == NeedKind::kJoin ||
         kind == NeedKind::kChild || kind == NeedKind::kFileLock;
}

bool lasts_long(const ThreadFacts& thread, size_t count) {
  constexpr BootNs kLong = 3 * kSecond;
  if (count == thread.looks.size()) return true;
  return count > 0 && thread.looks.front().at - thread.looks[count - 1].at >= kLong;
}

size_t Facts::find(const ProcessKey& process, int32_t tid) const {
  const auto found = std::ranges::find_if(threads, [&](const ThreadFacts& each) {
    return each.process->key == process && each.thread->tid == tid;
  });
  return found == threads.end() ? kNone : static_cast<size_t>(found - threads.begin());
}

namespace {

// A thread of torch's own that serves a process group, or one that began in NCCL or the driver of a
// GPU. Debian has Gloo as a library of its own.
bool is_of_group(const ThreadSnapshot& thread) {
  constexpr std::array<std::string_view, 4> kOfGpu = {"libcuda.so", "libnccl.so", "libamdhip64.so",
                                                      "libhsa-runtime64.so"};
  const std::string library = blamed_library(thread);
  const bool is_of_gpu =
      is_pool_thread(thread, library) &&
      std::ranges::any_of(kOfGpu, [&](std::string_view name) { return library.starts_with(name); });
  return python_frame(thread) == nullptr &&
         (is_of_gpu || library.starts_with("libtorch") || library.starts_with("libgloo"));
}

// The server of Lib/multiprocessing/resource_sharer.py, which a process starts with the first
// tensor that it sends: it duplicates descriptors for its clients, and wakes nobody here.
bool only_hands_out_descriptors(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "resource_sharer.py");
  });
}

}  // namespace

Facts facts_of(const Run& run, const HostFacts& host) {
  Facts facts{.run = &run,
              .machine = host.machine,
              .ticks_per_second = host.ticks_per_second,
              .cpus = host.cpus};
  const auto trees = recent(run, host.machine);
  if (trees.empty()) return facts;
  facts.last = trees.front();
  facts.span = trees.front()->at - trees.back()->at;
  for (const ProcessSnapshot& process : facts.last->processes) {
    for (const ThreadSnapshot& thread : process.threads) {
      ThreadFacts one{
          .process = &process, .thread = &thread, .info = run.find_process(process.key)};
      one.serves_group = is_of_group(thread);
      add_history(trees, facts.machine, one);
      if (!only_hands_out_descriptors(thread))
        facts.wakers[process.key.pid].push_back(facts.threads.size());
      facts.threads.push_back(std::move(one));
    }
  }
  for (ThreadFacts& thread : facts.threads)
    thread.need = need_of(facts, thread);
  mark_doomed(facts);
  return facts;
}

bool may_be_saved(const Facts& facts, const ThreadFacts& waiter) {
  return std::ranges::any_of(waiter.need.savers,
                             [&](size_t each) { return !facts.threads[each].doomed; });
}

bool may_be_woken_by_signal(const ThreadFacts& thread) {
  if (thread.info == nullptr) return false;
  if (!thread.info->signals_caught) return true;
  constexpr int kFirstRealTime = 34;  // 32 and 33 are the C library's own
  return catches_one_of(thread,
                        std::array{SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGURG}) ||
         *thread.info->signals_caught >> static_cast<unsigned>(kFirstRealTime - 1) != 0;
}

bool catches_one_of(const ThreadFacts& thread, std::span<const int> signals) {
  return thread.info != nullptr && std::ranges::any_of(signals, [&](int signal) {
           return thread.info->catches(signal).value_or(true);
         });
}

bool is_waited_for(const Facts& facts, size_t index) {
  std::set<size_t> seen;
  std::vector<size_t> queue;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (thread.role() != Role::kTrainer || !thread.doomed) continue;
    seen.insert(i);
    queue.push_back(i);
  }
  while (!queue.empty()) {
    const ThreadFacts& waiter = facts.threads[queue.back()];
    queue.pop_back();
    for (const size_t next : waiter.need.providers)
      if (seen.insert(next).second && facts.threads[next].doomed) queue.push_back(next);
  }
  return seen.contains(index);
}

bool is_orphan(const Facts& facts, const ThreadFacts& thread) {
  if (thread.info == nullptr || trainer_died_since(facts)) return false;
  // One that was started in the background has no other parent.
  if (thread.role() == Role::kTrainer || thread.role() == Role::kLauncher) return false;
  if (thread.info->orphaned) return true;
  return thread.info->ppid == 1 &&
         std::ranges::none_of(facts.run->processes,
                              [](const ProcessInfo& info) { return info.key.pid == 1; });
}

bool waits_for_data(const ThreadFacts& thread) {
  return thread.doomed && thread.need.kind == NeedKind::kChannel &&
         thread.need.relation == "written by";
}

bool waits_for_room(const ThreadFacts& thread) {
  return is_of_queue(python_frame(*thread.thread), "put");
}

bool runs_event_loop(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return frame.python && is_of_standard_library(frame.file, "asyncio/");
  });
}

bool waits_for_items_done(const ThreadFacts& thread) {
  return is_of_queue(asker_of(*thread.thread), "join");
}

ptrdiff_t waits_in_synchronize(const ThreadFacts& thread) {
  return std::ranges::count_if(thread.thread->stack, [](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "synchronize.py") &&
           (frame.function == "wait" || frame.function.ends_with(".wait"));
  });
}

bool is_in_a_task(const ThreadSnapshot& thread) {
  // What starts the target of a process.
  const auto start = std::ranges::find_if(thread.stack, [](const StackFrame& frame) {
    return frame.python && (is_of_multiprocessing(frame.file, "process.py") ||
                            is_of_multiprocessing(frame.file, "spawn.py"));
  });
  if (start == thread.stack.end()) return false;
  const auto of_user = std::find_if(thread.stack.begin(), start, is_of_user);
  return std::any_of(of_user, start, [](const StackFrame& frame) {
    return frame.python && is_of_a_library(frame.file);
  });
}

bool waits_for_task(const Facts& facts, const ThreadFacts& thread) {
  if (thread.role() != Role::kWorker || waits_for_room(thread)) return false;
  if (is_in_a_task(*thread.thread)) return false;
  if (thread.need.kind == NeedKind::kSharedLock || thread.need.kind == NeedKind::kSharedCount) {
    const StackFrame* asker = asker_of(*thread.thread);
    return asker == nullptr ? thread.need.kind == NeedKind::kSharedLock
                            : is_of_multiprocessing(asker->file);
  }
  return thread.need.kind == NeedKind::kChannel &&
         std::ranges::any_of(thread.need.providers, [&](size_t each) {
           return facts.threads[each].role() == Role::kTrainer;
         });
}

std::optional<uint64_t> other_end(const WaitedFile& file) {
  if (file.kind == FileKind::kPipe) return file.inode;
  const bool is_socket = file.kind == FileKind::kSocket || file.kind == FileKind::kConnectingSocket;
  if (is_socket && file.peer != 0) return file.peer;
  return std::nullopt;
}

bool is_stopped_outside(const Run& run, const ChannelEnd& end, BootNs since) {
  const auto is_it = [&](const ChannelEnd& each) {
    return each.inode == end.inode && each.pid == end.pid;
  };
  const auto stands = [&](const ChannelEnd& each) {
    const bool is_stopped = each.state == 'T' || each.state == 't' || !each.frozen_by.empty();
    return is_stopped && each.cpu_ticks == end.cpu_ticks;
  };
  return std::ranges::all_of(run.snapshots, [&](const TreeSnapshot& tree) {
    return tree.at < since ||
           std::ranges::all_of(
               tree.channel_ends,
               [&](const ChannelEnd& each) { return !is_it(each) || stands(each); });
  });
}

const FutexWait& futex_of(const ThreadFacts& thread) {
  static const FutexWait no_futex;
  return thread.thread->futex ? *thread.thread->futex : no_futex;
}

OwnWords name_of(const Facts& facts, const ThreadFacts& thread) {
  OwnWords process = describe(*facts.run, thread.process->key);
  if (thread.is_main()) return process;
  return "thread " + own(thread.thread->tid) + " of " + process;
}

OwnWords join_names(const Facts& facts, const std::vector<size_t>& threads) {
  constexpr size_t kMost = 3;
  OwnWords text;
  for (size_t i = 0; i < std::min(kMost, threads.size()); ++i)
    text += (i == 0 ? "" : ", ") + name_of(facts, facts.threads[threads[i]]);
  if (threads.size() > kMost) text += " and " + own(threads.size() - kMost) + " more";
  return text;
}

std::optional<ProcessKey> process_of_thread(const Facts& facts, int32_t tid) {
  const auto found = std::ranges::find_if(
      facts.threads, [tid](const ThreadFacts& each) { return each.thread->tid == tid; });
  if (found == facts.threads.end()) return std::nullopt;
  return found->process->key;
}

const ProcessSnapshot* parent_of(const Facts& facts, const ProcessKey& key) {
  const ProcessInfo* process = facts.run->find_process(key);
  if (process == nullptr) return nullptr;
  const auto parent = std::ranges::find_if(facts.last->processes, [&](const ProcessSnapshot& each) {
    return each.key.pid == process->ppid;
  });
  return parent == facts.last->processes.end() ? nullptr : &*parent;
}

bool is_forked_copy(const Run& run, const ProcessKey& key) {
  const ProcessInfo* process = run.find_process(key);
  return process != nullptr && process->start_method &&
         *process->start_method != StartMethod::kSpawn;
}

bool is_started_by_other(const Facts& facts, const ThreadFacts& one, const ThreadFacts& other) {
  const auto started = [&](const ThreadFacts& parent, const ThreadFacts& child) {
    return parent_of(facts, child.process->key) == parent.process &&
           !is_forked_copy(*facts.run, child.process->key);
  };
  return started(one, other) || started(other, one);
}

bool is_python(std::string_view library) {
  return library.starts_with("libpython") || library.starts_with("python");
}

bool is_pool_thread(const ThreadSnapshot& thread, std::string_view library) {
  const auto inwards = thread.stack | std::views::reverse;
  const auto outermost = std::ranges::find_if(inwards, [](const StackFrame& frame) {
    return frame.python || (!frame.file.empty() && !is_language_runtime(frame.file));
  });
  return outermost != inwards.end() && !outermost->python && base_name(outermost->file) == library;
}

size_t count_pool_threads(const ProcessSnapshot& process, std::string_view library) {
  return static_cast<size_t>(std::ranges::count_if(
      process.threads,
      [&](const ThreadSnapshot& thread) { return is_pool_thread(thread, library); }));
}

std::string blamed_function(const ThreadSnapshot& thread) {
  const StackFrame* frame = blamed_frame(thread);
  return frame == nullptr ? "" : frame->function;
}

std::string blamed_library(const ThreadSnapshot& thread) {
  const StackFrame* frame = blamed_frame(thread);
  return frame == nullptr ? "" : std::string(base_name(frame->file));
}

const StackFrame* python_frame(const ThreadSnapshot& thread) {
  const auto found = std::ranges::find(thread.stack, true, &StackFrame::python);
  return found == thread.stack.end() ? nullptr : &*found;
}

bool is_buffer_of_file(const ThreadSnapshot& thread) {
  return (thread.futex && thread.futex->python_type.starts_with("_io.Buffered")) ||
         std::ranges::count(thread.stack, "_enter_buffered_busy", &StackFrame::function) > 0;
}

bool is_lock_of_python(const ThreadFacts& thread) {
  const FutexWait& futex = futex_of(thread);
  return !futex.python_type.empty() || futex.kind == LockKind::kPythonMutex ||
         is_buffer_of_file(*thread.thread);
}

bool waits_in_a_library(const ThreadSnapshot& thread) {
  const StackFrame* frame = python_frame(thread);
  return frame == nullptr || is_of_a_library(frame->file);
}

bool waits_for_result(const ThreadFacts& thread) {
  // Whoever reads a queue has its lock: which of the readers that is is chance.
  if (thread.need.kind == NeedKind::kSharedLock) {
    return is_of_queue(asker_of(*thread.thread), "get");
  }
  if (thread.need.kind != NeedKind::kChannel && thread.need.kind != NeedKind::kNotification &&
      thread.need.kind != NeedKind::kJoin) {
    return false;
  }
  // Who runs an event loop may wait for what that loop would have to do.
  if (runs_event_loop(*thread.thread)) return false;
  // threading's own frames tell how it waits, the next one who asked for it.
  const auto found = std::ranges::find_if(thread.thread->stack, [](const StackFrame& frame) {
    const bool waits = is_of_standard_library(frame.file, "threading.py") ||
                       is_of_standard_library(frame.file, "selectors.py") ||
                       is_of_standard_library(frame.file, "queue.py");
    return frame.python && !waits;
  });
  if (found == thread.thread->stack.end()) return python_frame(*thread.thread) == nullptr;
  return is_of_multiprocessing(found->file) || is_of_torch(found->file) ||
         is_of_standard_library(found->file, "concurrent/futures/");
}

bool trainer_waits_for_result(const Facts& facts) {
  return std::ranges::any_of(facts.threads, [](const ThreadFacts& each) {
    return each.is_main() && each.role() == Role::kTrainer && (each.still || each.polls_again) &&
           waits_for_result(each);
  });
}

bool is_of_user(const StackFrame& frame) {
  return frame.python && !is_of_a_library(frame.file);
}

const StackFrame* user_frame(const std::vector<StackFrame>& stack) {
  const auto found = std::ranges::find_if(stack, is_of_user);
  return found == stack.end() ? nullptr : &*found;
}

Message place_of(const StackFrame* frame) {
  if (frame == nullptr) return {};
  return " (" + as_name(frame->function) + ", " + as_path(frame->file) + ":" + own(frame->line) +
         ")";
}

const StackFrame* user_frame(const ThreadSnapshot& thread) {
  const StackFrame* in_task =
      thread.tasks.empty() ? nullptr : user_frame(thread.tasks.front().stack);
  if (in_task != nullptr) return in_task;
  // Beyond where a child began lies what fork copied of its parent's stack.
  const auto& stack = thread.stack;
  const auto begin_of_child = std::ranges::find_if(stack, [](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "process.py") &&
           frame.function.ends_with("_bootstrap");
  });
  const auto found = std::find_if(stack.begin(), begin_of_child, is_of_user);
  return found == begin_of_child ? nullptr : &*found;
}

bool same_user_frames(const ThreadSnapshot& a, const ThreadSnapshot& b) {
  return std::ranges::equal(a.stack | std::views::filter(is_of_user),
                            b.stack | std::views::filter(is_of_user));
}

namespace {

bool waits_for_lock_of_loop(const WaitingTasks& tasks) {
  return std::ranges::any_of(tasks.stack, [](const StackFrame& frame) {
    return is_of_standard_library(frame.file, "asyncio/locks.py") &&
           frame.function.ends_with("Lock.acquire");
  });
}

}  // namespace

Message words_of_more_tasks(const ThreadSnapshot& thread) {
  constexpr size_t kMostPlaces = 2;
  std::vector<Message> words;
  for (const WaitingTasks& each : thread.tasks) {
    const int32_t count = each.count - (&each == thread.tasks.data() ? 1 : 0);
    if (count < 1 || words.size() == kMostPlaces) continue;
    words.push_back(counted(static_cast<uint64_t>(count), "more task") +
                    (count == 1 ? " waits" : " wait") +
                    (waits_for_lock_of_loop(each) ? " for an asyncio.Lock" : "") +
                    place_of(user_frame(each.stack)));
  }
  return words.empty() ? "" : ", where " + joined(words);
}

Message place_of(const ThreadFacts& thread) {
  const StackFrame* frame = user_frame(*thread.thread);
  return place_of(frame == nullptr ? python_frame(*thread.thread) : frame) +
         words_of_more_tasks(*thread.thread);
}

}  // namespace dlprobe::probes::deadlock
