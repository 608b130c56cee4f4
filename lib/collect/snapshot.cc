#include "lib/collect/snapshot.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "lib/base/parse.h"
#include "lib/collect/thread_waits.h"
#include "lib/os/thread_stop.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/syscall_file.h"
#include "lib/stacks/futex_wait.h"
#include "lib/stacks/merge_stacks.h"
#include "lib/stacks/module_cache.h"
#include "lib/stacks/module_symbols.h"
#include "lib/stacks/python_frames.h"
#include "lib/stacks/unwinder.h"

namespace dlprobe {
namespace {

constexpr size_t kMostThreads = 1024;
constexpr uint64_t kStackPreload = 128 << 10;
/// Reading a tree's memory takes milliseconds; a slow disk under a library may take longer.
constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(2);

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

/// CPU time and timeslices (Documentation/scheduler/sched-stats.rst); nothing on a kernel without.
std::optional<std::pair<uint64_t, uint64_t>> read_schedstat(const Directory& process,
                                                            const std::string& task) {
  const auto text = process.read(task + "/schedstat");
  if (!text) return std::nullopt;
  const auto fields = split_fields(trim(*text));
  if (fields.size() != 3) return std::nullopt;
  const auto cpu = parse_int<uint64_t>(fields[0]);
  const auto slices = parse_int<uint64_t>(fields[2]);
  if (!cpu || !slices) return std::nullopt;
  return std::pair(*cpu, *slices);
}

/// One process's look: everything that its threads need.
class ProcessLook {
 public:
  ProcessLook(const Machine& machine, const SnapshotOptions& options, const SnapshotTarget& target,
              ModuleCache& modules, PythonCodeCache& codes)
      : machine_(machine),
        options_(options),
        target_(target),
        codes_(codes),
        modules_(modules),
        memory_(machine.processes, target.key.pid) {}

  Expected<ProcessSnapshot> look() {
    ProcessSnapshot snapshot{.key = target_.key, .at = machine_.clock->now()};
    DLP_TRY(space_, AddressSpace::read(*target_.directory));
    DLP_TRY(auto waits, read_thread_waits(*machine_.processes, *target_.directory, target_.key.pid,
                                          kMostThreads));
    Unwinder unwinder(memory_, space_, *target_.directory, modules_);
    for (ThreadWait& wait : waits)
      snapshot.threads.push_back(look_at(std::move(wait), unwinder));
    if (options_.max_pause.count() > 0) stop_and_look(snapshot, unwinder);
    read_python(snapshot);
    return snapshot;
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

  void refine(ProcessSnapshot& snapshot) const {
    for (ThreadSnapshot& thread : snapshot.threads) {
      if (thread.futex) refine_by_stack(*thread.futex, thread.stack, memory_);
      merge_python(thread);
    }
  }

 private:
  void read_python(ProcessSnapshot& snapshot) {
    ModuleSymbols symbols(*target_.directory, modules_);
    const auto runtime = find_python(memory_, space_, symbols);
    if (!runtime || !*runtime) {
      if (!runtime) snapshot.python_note = to_string(runtime.error());
      return;
    }
    snapshot.python = to_string((*runtime)->version);
    auto stacks = read_python_stacks(memory_, **runtime, codes_);
    if (!stacks) {
      snapshot.python_note = to_string(stacks.error());
      return;
    }
    for (PythonThread& thread : stacks->threads) {
      const auto tid = tid_of(thread, snapshot);
      if (!tid) continue;
      if (thread.holds_gil) snapshot.gil_holder = *tid;
      python_.insert_or_assign(*tid, std::move(thread));
    }
  }

  /// The thread's own word (CPython 3.11 on) where such a thread exists, else by its stack: a
  /// thread's pthread_self() lies at the upper end of the mapping that holds its stack. The main
  /// thread's does not; it is what is left.
  std::optional<int32_t> tid_of(const PythonThread& python, const ProcessSnapshot& snapshot) const {
    const Mapping* own = space_.find(python.pthread_id);
    for (const ThreadSnapshot& thread : snapshot.threads) {
      const auto stack = stack_pointers_.find(thread.tid);
      if (stack != stack_pointers_.end() && own != nullptr && space_.find(stack->second) == own) {
        return thread.tid;
      }
    }
    const auto has = [&](int32_t tid) {
      return std::ranges::find(snapshot.threads, tid, &ThreadSnapshot::tid) !=
             snapshot.threads.end();
    };
    if (python.native_tid && has(*python.native_tid)) return python.native_tid;
    if (python_.contains(target_.key.pid)) return std::nullopt;
    return target_.key.pid;
  }

  void merge_python(ThreadSnapshot& thread) const {
    const auto found = python_.find(thread.tid);
    if (found == python_.end()) return;
    MergedStack merged = merge_stacks(thread.stack, found->second.frames);
    thread.stack = std::move(merged.frames);
    const auto add_note = [&](const std::string& note) {
      if (!note.empty()) thread.stack_note += (thread.stack_note.empty() ? "" : "; ") + note;
    };
    add_note(merged.note);
    if (found->second.cut_off) add_note("Python: " + to_string(*found->second.cut_off));
  }

  ThreadSnapshot look_at(ThreadWait wait, Unwinder& unwinder) {
    const Directory& process = *target_.directory;
    const std::string task = "task/" + std::to_string(wait.tid);
    ThreadSnapshot thread{.tid = wait.tid};
    const auto before = read_schedstat(process, task);
    const auto stat = chain(process.read(task + "/stat"), parse_pid_stat);
    if (stat) {
      thread.comm = stat->comm;
      thread.state = stat->state;
      thread.cpu_ns = (stat->utime_ticks + stat->stime_ticks) * kNsPerTick;
    }
    const auto call = chain(process.read(task + "/syscall"), parse_syscall_file);
    if (!call) {
      thread.stack_note = to_string(call.error());
    } else if (call->running || call->stack_pointer == 0) {
      thread.stack_note = "it was running";
      to_stop_.push_back(wait.tid);
    } else {
      walk(*call, thread, unwinder);
    }
    const auto after = read_schedstat(process, task);
    thread.consistent = before && after && *before == *after;
    if (after) std::tie(thread.cpu_ns, thread.timeslices) = *after;
    thread.wait = std::move(wait);
    return thread;
  }

  void walk(const SyscallFile& call, ThreadSnapshot& thread, Unwinder& unwinder) {
    if (const Mapping* stack = space_.find(call.stack_pointer)) {
      memory_.preload(call.stack_pointer, std::min(stack->end, call.stack_pointer + kStackPreload));
    }
    stack_pointers_[thread.tid] = call.stack_pointer;
    thread.futex = decode_futex_wait(call, memory_, space_);
    const NativeStack stack = unwinder.unwind(
        {.program_counter = call.program_counter, .stack_pointer = call.stack_pointer});
    if (stack.needs_registers) to_stop_.push_back(thread.tid);
    put(stack, thread);
  }

  void put(const NativeStack& stack, ThreadSnapshot& thread) {
    thread.stack_note = stack.cut_off;
    thread.stack.clear();
    for (const uint64_t address : stack.program_counters)
      thread.stack.push_back(frame_at(address));
  }

  /// Running threads, and those whose walk needs registers that only a stopped thread shows.
  void stop_and_look(ProcessSnapshot& snapshot, Unwinder& unwinder) {
    if (to_stop_.empty()) return;
    const ThreadStop stop =
        stop_threads(to_stop_, options_.max_pause,
                     [&](std::span<const StoppedThread> threads) { copy_stacks(threads); });
    snapshot.pause_ns = stop.pause.count();
    for (const StoppedThread& stopped : stop.threads) {
      const auto thread = std::ranges::find(snapshot.threads, stopped.tid, &ThreadSnapshot::tid);
      Registers registers{.program_counter = stopped.program_counter,
                          .stack_pointer = stopped.stack_pointer,
                          .others = {stopped.registers.begin(), stopped.registers.end()}};
      stack_pointers_[stopped.tid] = stopped.stack_pointer;
      put(unwinder.unwind(registers), *thread);
      thread->stopped = true;
      thread->consistent = true;
    }
    for (const int32_t tid : stop.not_stopped) {
      const auto thread = std::ranges::find(snapshot.threads, tid, &ThreadSnapshot::tid);
      if (thread == snapshot.threads.end()) continue;
      thread->stack_note +=
          stop.error ? "; " + to_string(*stop.error) : "; it did not stop in time";
    }
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

  StackFrame frame_at(uint64_t address) {
    StackFrame frame{.offset = address};
    const Mapping* mapping = space_.find(address);
    if (mapping == nullptr) return frame;
    frame.file = mapping->path;
    if (mapping->inode == 0) return frame;
    const auto& file = modules_.file_of(*target_.directory, *mapping);
    const auto bias = file ? (*file)->bias(*mapping) : std::nullopt;
    if (!bias) return frame;
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
  PythonCodeCache& codes_;
  ModuleCache& modules_;
  ProcessMemory memory_;
  AddressSpace space_{{}};
  std::map<std::string, std::shared_ptr<const ElfFile>> files_;  ///< of this process, by path
  std::vector<int32_t> to_stop_;
  std::map<int32_t, uint64_t> stack_pointers_;
  std::map<int32_t, PythonThread> python_;  ///< by tid
};

}  // namespace

struct SnapshotTaker::State {
  State(Machine looked_at, const SnapshotOptions& chosen)
      : machine(std::move(looked_at)), options(chosen) {}

  Machine machine;
  SnapshotOptions options;
  ModuleCache modules;
  PythonCodeCache codes;

  TreeSnapshot take(const std::vector<SnapshotTarget>& targets, std::vector<Gap>& gaps) {
    TreeSnapshot tree{.at = machine.clock->now()};
    std::vector<std::unique_ptr<ProcessLook>> looks;
    for (const SnapshotTarget& target : targets) {
      auto look = std::make_unique<ProcessLook>(machine, options, target, modules, codes);
      auto snapshot = look->look();
      if (snapshot) {
        tree.processes.push_back(std::move(*snapshot));
        looks.push_back(std::move(look));
      } else if (snapshot.error().code != ErrorCode::kVanished &&
                 snapshot.error().code != ErrorCode::kNotFound) {
        gaps.push_back({.what = "stacks of process " + std::to_string(target.key.pid),
                        .why = to_string(snapshot.error()),
                        .effect = "what it waits for is not known",
                        .remedy = "run dlprobe as the user of the process, or as root"});
      }
    }
    Names names;
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->finish(tree.processes[i], names);
    names.resolve();
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->refine(tree.processes[i]);
    return tree;
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
      [state = state_, targets]() -> Expected<Answer> {
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
