#include "lib/collect/snapshot.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "lib/base/parse.h"
#include "lib/collect/access_gap.h"
#include "lib/collect/channel_ends.h"
#include "lib/collect/last_run.h"
#include "lib/collect/library_look.h"
#include "lib/collect/lock_look.h"
#include "lib/collect/python_look.h"
#include "lib/collect/restarted_calls.h"
#include "lib/collect/shared_files.h"
#include "lib/collect/socket_peers.h"
#include "lib/collect/thread_waits.h"
#include "lib/os/thread_stop.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/schedstat.h"
#include "lib/proc/syscall_file.h"
#include "lib/stacks/futex_wait.h"
#include "lib/stacks/module_cache.h"
#include "lib/stacks/module_symbols.h"
#include "lib/stacks/unwinder.h"

namespace dlprobe {
namespace {

constexpr size_t kMostThreads = 1024;
constexpr uint64_t kStackPreload = 128 << 10;
/// Reading a tree's memory takes milliseconds. A slow disk under a library, a starved machine, may
/// take much longer.
constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(20);

/// The functions on the stacks of a tree that still have no name, by the file that has it.
class Names {
 public:
  void want(const std::shared_ptr<const ElfFile>& file, uint64_t address, StackFrame& frame) {
    Wanted& wanted = by_file_[file.get()];
    wanted.file = file;
    wanted.addresses.push_back(address);
    wanted.frames.push_back(&frame);
  }

  void resolve() {
    for (auto& [key, wanted] : by_file_) {
      std::vector<ElfSymbol> symbols = wanted.file->functions(wanted.addresses);
      for (size_t i = 0; i < symbols.size(); ++i)
        wanted.frames[i]->function = std::move(symbols[i].name);
    }
  }

 private:
  struct Wanted {
    std::shared_ptr<const ElfFile> file;
    std::vector<uint64_t> addresses;
    std::vector<StackFrame*> frames;
  };
  std::map<const ElfFile*, Wanted> by_file_;
};

/// Nothing on a kernel without.
std::optional<SchedStat> read_schedstat(const Directory& process, const std::string& task) {
  const auto stat = chain(process.read(task + "/schedstat"), parse_schedstat);
  return stat ? std::optional(*stat) : std::nullopt;
}

/// The registers of blocked threads that had to be stopped once: as long as such a thread stays in
/// the same call, they stay the same, and it need not be stopped again.
class HeldRegisters {
 public:
  using Thread = std::pair<ProcessKey, int32_t>;

  void keep(const Thread& thread, const SyscallFile& call, const SchedStat& ran,
            Registers registers) {
    held_.insert_or_assign(thread, Held{call, ran.cpu_ns, std::move(registers)});
  }

  /// Null where they are not known, or the thread has run since for longer than it takes to enter
  /// the same call again.
  const Registers* find(const Thread& thread, const SyscallFile& call,
                        const std::optional<SchedStat>& ran) const {
    constexpr uint64_t kToEnterAgain = 300'000;  // ns
    const auto found = held_.find(thread);
    if (found == held_.end() || !ran || found->second.call != call) return nullptr;
    return ran->cpu_ns <= found->second.cpu_ns + kToEnterAgain ? &found->second.registers : nullptr;
  }

 private:
  struct Held {
    SyscallFile call;
    uint64_t cpu_ns = 0;
    Registers registers;
  };
  std::map<Thread, Held> held_;
};

/// What is kept from one look to the next.
struct Kept {
  explicit Kept(const Machine& machine) : last_run(machine) {}
  ModuleCache modules;
  PythonCodeCache codes;
  HeldRegisters held;
  RestartedCalls calls;
  LastRun last_run;
};

/// One process's look: everything that its threads need.
class ProcessLook {
 public:
  ProcessLook(const Machine& machine, const SnapshotOptions& options, const SnapshotTarget& target,
              Kept& kept)
      : machine_(machine),
        options_(options),
        target_(target),
        kept_(kept),
        image_thread_(image_thread(*target.directory, target.key.pid)),
        memory_(machine.processes, image_thread_),
        python_(memory_, kept.codes) {}

  Expected<ProcessSnapshot> look() {
    ProcessSnapshot snapshot{.key = target_.key, .at = machine_.clock->now()};
    DLP_TRY(status_, chain(target_.directory->read("status"), parse_pid_status));
    DLP_TRY(image_, open_image());
    DLP_TRY(const auto tids, list_threads(*target_.directory, target_.key.pid, kMostThreads));
    read_space();
    Unwinder unwinder(memory_, space_, *image_, kept_.modules);
    for (const int32_t tid : tids) {
      if (auto thread = look_at(tid, unwinder)) snapshot.threads.push_back(std::move(*thread));
    }
    if (forbidden_) {
      snapshot.python_note = to_string(*forbidden_);
    } else if (!kernel_thread_) {
      ModuleSymbols symbols(*image_, kept_.modules);
      python_.find(space_, symbols);
      look_again_at_those_who_moved(snapshot, unwinder);
      stop_and_look(snapshot, unwinder);
      python_.assign(snapshot, space_, stack_pointers_);
      snapshot.libraries = look_at_libraries({.space = space_,
                                              .memory = memory_,
                                              .process = *image_,
                                              .main_thread = python_.pthread_of(image_thread_)},
                                             kept_.modules);
    }
    note_gaps();
    return snapshot;
  }

  std::vector<Gap> take_gaps() { return std::move(gaps_); }

  /// The pid namespace of a process in one of its own, where `own_tid` is said; else 0.
  uint64_t nested_namespace() const {
    if (status_.namespace_pids.size() < 2) return 0;
    const auto link = target_.directory->read_link("ns/pid");  // "pid:[4026531836]"
    if (!link || !link->starts_with("pid:[")) return 0;
    return parse_int<uint64_t>(std::string_view(*link).substr(5, link->size() - 6)).value_or(0);
  }

  /// Names of functions, and what follows from them.
  void finish(ProcessSnapshot& snapshot, Names& names) {
    for (ThreadSnapshot& thread : snapshot.threads) {
      bool innermost = true;
      for (StackFrame& frame : thread.stack) {
        // A return address may be the first one behind its function.
        const uint64_t address = innermost ? frame.offset : frame.offset - 1;
        innermost = false;
        if (const auto file = file_of(frame)) names.want(file, address, frame);
      }
    }
  }

  /// What somebody waited for who went on before it was known who has its other end proves nothing.
  void mark_those_who_moved_on(ProcessSnapshot& snapshot) {
    for (ThreadSnapshot& thread : snapshot.threads) {
      if (thread.wait.files.empty() || !thread.consistent || !has_moved_on(thread)) continue;
      thread.consistent = false;
      thread.blocked_since = 0;
    }
  }

  void refine(ProcessSnapshot& snapshot) const {
    for (ThreadSnapshot& thread : snapshot.threads) {
      if (thread.futex) refine_by_stack(*thread.futex, thread.stack, memory_);
      python_.merge(thread);
    }
  }

  void find_locks(ProcessSnapshot& snapshot, bool with_shared, PythonLockPlaces& places) const {
    LockLook(*machine_.processes, image_thread_, space_, memory_, python_)
        .look(snapshot, with_shared, stack_pointers_, places);
  }

 private:
  Expected<std::shared_ptr<const Directory>> open_image() const {
    if (image_thread_ == target_.key.pid) return target_.directory;
    return target_.directory->open_directory("task/" + std::to_string(image_thread_));
  }

  void read_space() {
    auto space = AddressSpace::read(*image_);
    if (space) {
      space_ = std::move(*space);
    } else if (space.error().code == ErrorCode::kForbidden) {
      forbidden_ = std::move(space).error();
    }
  }

  /// Nothing: the thread has ended meanwhile.
  std::optional<ThreadSnapshot> look_at(int32_t tid, Unwinder& unwinder) {
    const Directory& process = *target_.directory;
    const std::string task = "task/" + std::to_string(tid);
    ThreadSnapshot thread{.tid = tid, .wait = {.tid = tid}};
    slices_[tid] = read_schedstat(process, task);
    const auto stat = chain(process.read(task + "/stat"), parse_pid_stat);
    if (!stat) return std::nullopt;
    thread.comm = stat->comm;
    thread.start_ticks = stat->start_ticks;
    thread.state = stat->state;
    thread.cpu_ns = (stat->utime_ticks + stat->stime_ticks) * kNsPerTick;
    if (status_.namespace_pids.size() > 1) thread.own_tid = read_own_tid(task);
    if (is_kernel_thread(*stat)) kernel_thread_ = true;
    auto call = chain(process.read(task + "/syscall"), parse_syscall_file);
    if (call) *call = kept_.calls.resolve(target_.key, tid, *call);
    if (stat->state == 'Z' || stat->state == 'X') {
      thread.stack_note = "it has ended";
    } else if (!call) {
      if (call.error().code == ErrorCode::kForbidden) forbidden_ = call.error();
      thread.stack_note = to_string(call.error());
    } else if (call->running || call->stack_pointer == 0) {
      thread.wait.running = call->running;
      thread.stack_note = "it was running";
      to_stop_.insert(tid);
    } else {
      thread.wait =
          describe_wait(*machine_.processes, process, {.pid = image_thread_, .tid = tid}, *call);
      walk(*call, thread, unwinder);
    }
    if (call && !call->running) {
      thread.blocked_since =
          kept_.last_run.of(process, task, stat->processor).value_or(thread.blocked_since);
    }
    if (!call || stat->state == 'D') thread.wchan = read_wchan(task);
    mark_consistent(thread);
    return thread;
  }

  int32_t read_own_tid(const std::string& task) const {
    const auto status = chain(target_.directory->read(task + "/status"), parse_pid_status);
    return status && !status->namespace_pids.empty() ? status->namespace_pids.back() : 0;
  }

  std::string read_wchan(const std::string& task) const {
    const auto text = target_.directory->read(task + "/wchan");
    return text && *text != "0" ? *text : "";
  }

  /// Whether a thread that waited on files does so no longer, or again.
  bool has_moved_on(const ThreadSnapshot& thread) {
    const Directory& process = *target_.directory;
    const std::string task = "task/" + std::to_string(thread.tid);
    const auto known = calls_.find(thread.tid);
    if (known == calls_.end()) return false;
    auto call = chain(process.read(task + "/syscall"), parse_syscall_file);
    if (!call || call->running) return true;
    *call = kept_.calls.resolve(target_.key, thread.tid, *call);
    const bool is_same =
        call->number == known->second.number && call->stack_pointer == known->second.stack_pointer;
    // Whoever was stopped has run since, to go on waiting.
    if (!is_same || thread.stopped) return !is_same;
    return slices_.at(thread.tid) != read_schedstat(process, task);
  }

  void mark_consistent(ThreadSnapshot& thread) const {
    const auto before = slices_.at(thread.tid);
    const auto after = read_schedstat(*target_.directory, "task/" + std::to_string(thread.tid));
    thread.consistent = before && after && *before == *after;
    if (!thread.consistent) thread.blocked_since = 0;
    if (!after) return;
    thread.cpu_ns = after->cpu_ns;
    thread.queued_ns = after->queued_ns;
    thread.timeslices = after->timeslices;
  }

  /// A blocked thread that was woken while it, or Python, was read is read again, a few times:
  /// whoever is stuck stays blocked.
  void look_again_at_those_who_moved(ProcessSnapshot& snapshot, Unwinder& unwinder) {
    constexpr int kMostLooks = 3;
    for (int i = 0; i < kMostLooks; ++i) {
      std::vector<ThreadSnapshot*> moved;
      for (ThreadSnapshot& thread : snapshot.threads) {
        if (thread.state == 'Z' || to_stop_.contains(thread.tid)) continue;
        mark_consistent(thread);
        if (!thread.consistent && slices_.at(thread.tid)) moved.push_back(&thread);
      }
      if (moved.empty()) return;
      memory_.forget();
      for (ThreadSnapshot* thread : moved) {
        if (auto again = look_at(thread->tid, unwinder)) *thread = std::move(*again);
      }
      python_.read();
    }
  }

  void walk(const SyscallFile& call, ThreadSnapshot& thread, Unwinder& unwinder) {
    if (const Mapping* stack = space_.find(call.stack_pointer)) {
      memory_.preload(call.stack_pointer, std::min(stack->end, call.stack_pointer + kStackPreload));
    }
    stack_pointers_[thread.tid] = call.stack_pointer;
    thread.futex = decode_futex_wait(call, memory_, space_);
    const Registers* held =
        kept_.held.find({target_.key, thread.tid}, call, slices_.at(thread.tid));
    const NativeStack stack =
        unwinder.unwind(held != nullptr ? *held
                                        : Registers{.program_counter = call.program_counter,
                                                    .stack_pointer = call.stack_pointer,
                                                    .others = {}});
    calls_.insert_or_assign(thread.tid, call);
    // One in uninterruptible sleep would not stop, and keep the others waiting.
    if (stack.needs_registers && thread.state != 'D') to_stop_.insert(thread.tid);
    put(stack, thread);
  }

  void put(const NativeStack& stack, ThreadSnapshot& thread) {
    thread.stack_note = stack.cut_off;
    thread.stack.clear();
    for (const uint64_t address : stack.program_counters)
      thread.stack.push_back(frame_at(address));
  }

  /// Running threads, those whose walk needs registers that only a stopped thread shows, and, with
  /// them, those that are about to run: who waits with a timeout, as for the GIL. What Python's
  /// frames need is read while they stand still, too.
  void stop_and_look(ProcessSnapshot& snapshot, Unwinder& unwinder) {
    if (to_stop_.empty()) return;
    std::chrono::nanoseconds left = options_.max_pause;
    constexpr int kMostStops = 2;
    for (int i = 0; i < kMostStops && left.count() > 0; ++i) {
      for (const ThreadSnapshot& thread : snapshot.threads) {
        const bool woke = i > 0 && !thread.consistent && slices_.at(thread.tid);
        if ((thread.futex && thread.futex->timed) || woke) to_stop_.insert(thread.tid);
      }
      left -= stop_once(snapshot, unwinder, left);
      if (std::ranges::all_of(snapshot.threads, &ThreadSnapshot::consistent)) return;
    }
    const auto moves = [&](const ThreadSnapshot& thread) {
      return !thread.consistent && to_stop_.contains(thread.tid);
    };
    if (std::ranges::any_of(snapshot.threads, moves)) python_.read_until_steady(memory_);
  }

  std::chrono::nanoseconds stop_once(ProcessSnapshot& snapshot, Unwinder& unwinder,
                                     std::chrono::nanoseconds budget) {
    const std::vector<int32_t> tids(to_stop_.begin(), to_stop_.end());
    python_.expect_moved(snapshot, space_, stack_pointers_, to_stop_);
    const ThreadStop stop = stop_threads(tids, budget, [&](std::span<const StoppedThread> threads) {
      copy_stacks(threads);
      python_.read_moved();
    });
    snapshot.pause_ns += stop.pause.count();
    for (ThreadSnapshot& thread : snapshot.threads)
      mark_consistent(thread);
    for (const NotStopped& missed : stop.not_stopped) {
      ThreadSnapshot& thread = find(snapshot, missed.tid);
      thread.consistent = false;
      // It stops, and goes on, when it gets a CPU: that is no progress of its own.
      thread.stopped = missed.why.code == ErrorCode::kTimeout;
      add_note(thread, to_string(missed.why));
      if (missed.why.code == ErrorCode::kForbidden) not_stopped_ = missed.why;
    }
    for (const StoppedThread& stopped : stop.threads) {
      ThreadSnapshot& thread = find(snapshot, stopped.tid);
      const Registers registers{.program_counter = stopped.program_counter,
                                .stack_pointer = stopped.stack_pointer,
                                .others = {stopped.registers.begin(), stopped.registers.end()}};
      stack_pointers_[stopped.tid] = stopped.stack_pointer;
      const auto call = calls_.find(stopped.tid);
      const auto ran = slices_.at(stopped.tid);
      if (call != calls_.end() && ran && call->second.stack_pointer == stopped.stack_pointer) {
        kept_.held.keep({target_.key, stopped.tid}, call->second, *ran, registers);
      }
      put(unwinder.unwind(registers), thread);
      if (thread.wait.running && stopped.blocked_in) {
        take_wait(stopped, *stopped.blocked_in, thread);
      }
      thread.stopped = true;
      thread.consistent = stop.in_time;
      if (!stop.in_time) add_note(thread, "it had to go on before all was copied");
    }
    return stop.pause;
  }

  static void add_note(ThreadSnapshot& thread, const std::string& why) {
    if (thread.stack_note.ends_with(why)) return;
    thread.stack_note += (thread.stack_note.empty() ? "" : "; ") + why;
  }

  /// Of a thread that ran when it was looked at, and waited again when it was stopped: one that
  /// wants the GIL wakes every 5 ms.
  void take_wait(const StoppedThread& stopped, const BlockedCall& blocked, ThreadSnapshot& thread) {
    const SyscallFile call = kept_.calls.resolve(target_.key, thread.tid,
                                                 {.number = blocked.number,
                                                  .args = blocked.args,
                                                  .stack_pointer = stopped.stack_pointer,
                                                  .program_counter = stopped.program_counter});
    thread.state = 'S';
    thread.wait = describe_wait(*machine_.processes, *target_.directory,
                                {.pid = image_thread_, .tid = thread.tid}, call);
    thread.futex = decode_futex_wait(call, memory_, space_);
  }

  static ThreadSnapshot& find(ProcessSnapshot& snapshot, int32_t tid) {
    return *std::ranges::find(snapshot.threads, tid, &ThreadSnapshot::tid);
  }

  void copy_stacks(std::span<const StoppedThread> threads) {
    constexpr uint64_t kRedZone = 128;  // System V ABI x86_64: used below the stack pointer
    memory_.forget();
    for (const StoppedThread& thread : threads) {
      const Mapping* stack = space_.find(thread.stack_pointer);
      if (stack == nullptr) continue;
      memory_.preload(thread.stack_pointer - kRedZone,
                      std::min(stack->end, thread.stack_pointer + kStackPreload));
    }
  }

  void note_gaps() {
    const int32_t pid = target_.key.pid;
    if (kernel_thread_) {
      gaps_.push_back({.what = "stacks of process " + std::to_string(pid),
                       .why = "it is a thread of the kernel",
                       .effect = "it has no program whose stack could be shown",
                       .remedy = ""});
    } else if (forbidden_) {
      gaps_.push_back(access_gap(*machine_.root, *target_.directory, pid, *forbidden_));
    }
    if (status_.tracer_pid != 0) {
      const std::string tracer = describe_tracer(*machine_.root, status_.tracer_pid);
      gaps_.push_back({.what = "running threads of process " + std::to_string(pid),
                       .why = "another program traces the process already: " + tracer,
                       .effect = "a thread that runs is looked at without stopping it",
                       .remedy = "detach or end " + tracer});
    } else if (not_stopped_ && !forbidden_) {
      Gap gap = access_gap(*machine_.root, *target_.directory, pid, *not_stopped_);
      gap.what = "running threads of process " + std::to_string(pid);
      gap.effect = "their native stacks are missing";
      gaps_.push_back(std::move(gap));
    }
  }

  StackFrame frame_at(uint64_t address) {
    StackFrame frame{.offset = address};
    const Mapping* mapping = space_.find(address);
    if (mapping == nullptr) return frame;
    frame.file = mapping->path;
    const auto& file = kept_.modules.file_of(*image_, *mapping);
    const auto bias = file ? (*file)->bias(*mapping) : std::nullopt;
    if (!bias) {  // not the ELF file that it was: a place in the file tells more than one in memory
      if (mapping->inode != 0) frame.offset = address - mapping->begin + mapping->offset;
      return frame;
    }
    frame.offset = address - *bias;
    files_.try_emplace(frame.file, *file);
    return frame;
  }

  std::shared_ptr<const ElfFile> file_of(const StackFrame& frame) const {
    const auto found = files_.find(frame.file);
    return found == files_.end() ? nullptr : found->second;
  }

  static constexpr uint64_t kNsPerTick = 10'000'000;  // USER_HZ is 100 on every Linux

  const Machine& machine_;
  const SnapshotOptions& options_;
  const SnapshotTarget& target_;
  Kept& kept_;
  int32_t image_thread_;
  std::shared_ptr<const Directory> image_;  ///< the /proc directory of image_thread_
  PidStatus status_;
  ProcessMemory memory_;
  AddressSpace space_{{}};
  PythonLook python_;
  std::map<std::string, std::shared_ptr<const ElfFile>> files_;  ///< of this process, by path
  std::set<int32_t> to_stop_;
  std::map<int32_t, uint64_t> stack_pointers_;
  std::map<int32_t, SyscallFile> calls_;                ///< of blocked threads
  std::map<int32_t, std::optional<SchedStat>> slices_;  ///< before its look
  bool kernel_thread_ = false;
  std::optional<Error> forbidden_;    ///< a right to look into it is missing
  std::optional<Error> not_stopped_;  ///< a right to stop its threads is missing
  std::vector<Gap> gaps_;
};

/// Owners of locks of processes in a pid namespace of their own: from the number that stands in the
/// lock's word to the one that dlprobe sees.
void translate_owners(TreeSnapshot& tree, std::span<const uint64_t> namespaces) {
  std::map<std::pair<uint64_t, int32_t>, int32_t> tids;
  std::set<int32_t> seen;
  for (size_t i = 0; i < tree.processes.size(); ++i) {
    for (const ThreadSnapshot& thread : tree.processes[i].threads) {
      seen.insert(thread.tid);
      if (namespaces[i] != 0) tids.emplace(std::pair(namespaces[i], thread.own_tid), thread.tid);
    }
  }
  for (size_t i = 0; i < tree.processes.size() && !tids.empty(); ++i) {
    if (namespaces[i] == 0) continue;
    for (ThreadSnapshot& thread : tree.processes[i].threads) {
      if (!thread.futex || !thread.futex->owner_tid) continue;
      const auto found = tids.find({namespaces[i], *thread.futex->owner_tid});
      if (found != tids.end()) {
        thread.futex->owner_tid = found->second;
      } else if (seen.contains(*thread.futex->owner_tid)) {
        // It would name a thread that has nothing to do with it.
        thread.futex->owner_tid.reset();
        thread.futex->owner_gone = true;
      }
    }
  }
}

}  // namespace

struct SnapshotTaker::State {
  State(Machine looked_at, const SnapshotOptions& chosen)
      : machine(std::move(looked_at)), options(chosen), kept(machine) {}

  Machine machine;
  SnapshotOptions options;
  Kept kept;
  SharedFileWatch shared_files;

  TreeSnapshot take(const std::vector<SnapshotTarget>& targets, std::vector<Gap>& gaps) {
    TreeSnapshot tree{.at = machine.clock->now()};
    std::vector<std::unique_ptr<ProcessLook>> looks;
    for (const SnapshotTarget& target : targets) {
      auto look = std::make_unique<ProcessLook>(machine, options, target, kept);
      auto snapshot = look->look();
      if (snapshot) {
        std::ranges::move(look->take_gaps(), std::back_inserter(gaps));
        tree.processes.push_back(std::move(*snapshot));
        looks.push_back(std::move(look));
      } else if (snapshot.error().code != ErrorCode::kVanished &&
                 snapshot.error().code != ErrorCode::kNotFound) {
        gaps.push_back(
            access_gap(*machine.root, *target.directory, target.key.pid, snapshot.error()));
      }
    }
    Names names;
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->finish(tree.processes[i], names);
    names.resolve();
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->refine(tree.processes[i]);
    std::vector<uint64_t> namespaces;
    namespaces.reserve(looks.size());
    for (const auto& look : looks)
      namespaces.push_back(look->nested_namespace());
    translate_owners(tree, namespaces);
    find_locks(looks, tree);
    mark_dead_owners(*machine.root, tree);
    find_socket_peers(machine, tree, gaps);
    find_channel_ends(machine, tree);
    // On a busy machine that takes a while, and a peer that has done its part may be gone by then.
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->mark_those_who_moved_on(tree.processes[i]);
    shared_files.look(machine, tree);
    return tree;
  }

 private:
  /// Semaphores in shared memory are looked at in every process as soon as one thread waits on one:
  /// who has acquired it is known to the holder alone.
  static void find_locks(const std::vector<std::unique_ptr<ProcessLook>>& looks,
                         TreeSnapshot& tree) {
    const auto waits_on_shared = [](const ProcessSnapshot& process) {
      return std::ranges::any_of(process.threads, [](const ThreadSnapshot& thread) {
        return thread.futex && thread.futex->kind == LockKind::kSharedSemaphore;
      });
    };
    const bool any_shared = std::ranges::any_of(tree.processes, waits_on_shared);
    PythonLockPlaces places;
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->find_locks(tree.processes[i], any_shared, places);
  }
};

SnapshotTaker::SnapshotTaker(Machine machine, const SnapshotOptions& options, RecordSink& sink)
    : machine_(std::move(machine)),
      sink_(&sink),
      state_(std::make_shared<State>(machine_, options)) {}

SnapshotTaker::~SnapshotTaker() = default;

TreeSnapshot SnapshotTaker::take(const std::vector<SnapshotTarget>& targets) {
  using Answer = std::pair<TreeSnapshot, std::vector<Gap>>;
  auto answer = reader_.run<Answer>(
      "look at the stacks of the tree",
      [state = state_, targets] -> Expected<Answer> {
        Answer result;
        result.first = state->take(targets, result.second);
        return result;
      },
      kPatience);
  if (!answer) {
    sink_->add(Gap{.what = "stacks of the tree",
                   .why = to_string(answer.error()),
                   .effect = "who waits for what is not known",
                   .remedy = ""});
    return {.at = machine_.clock->now()};
  }
  for (Gap& gap : answer->second)
    sink_->add(std::move(gap));
  return std::move(answer->first);
}

}  // namespace dlprobe
