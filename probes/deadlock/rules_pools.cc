#include <algorithm>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "lib/foreign/libraries.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

// A clean start helps whatever the program sets; the number of threads only where it sets none.
void add_pool_remedies(Finding& finding, const Facts& facts, const ThreadFacts& thread) {
  add_remedies_for_fork(finding, facts, thread);
  finding.remedies.push_back(
      {.title = "Or use one thread in the worker, before the pool is used there",
       .commands = {"def worker_init_fn(worker_id): torch.set_num_threads(1)",
                    "OMP_NUM_THREADS=1 python train.py"},
       .verify = "dlprobe deadlock --pid PID",
       .settings = {{SettingKind::kEnvironment, "OMP_NUM_THREADS", "1"}}});
}

// A team of OpenMP that waits for members which do not exist.
RootCause lost_team(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  const std::string library = blamed_library(*waiter.thread);
  const uint32_t team = futex_of(waiter).team_size;
  const size_t members = count_pool_threads(*waiter.process, library) + 1;
  Finding finding =
      finding_about(facts, FindingCode::kForkLostThreadPool, Confidence::kCertain, waiter);
  finding.message =
      name_of(facts, waiter) + " waits in " + as_path(library) + " for a team of " +
      counted(team, "thread") + ", and " +
      (members == 1 ? "it is the only one here" : "only " + own(members) + " are here") +
      ": fork did not copy the others";
  finding.prove(count_fact("team_size", team, "gomp_barrier_t", facts.last->at));
  finding.prove(
      count_fact("threads_of_the_team", members, "stacks of all threads", facts.last->at));
  add_pool_remedies(finding, facts, waiter);
  return {std::move(finding), index};
}

bool is_in_openmp(const StackFrame& frame) {
  return !frame.python && is_openmp(frame.file);
}

// Where the parallel region was entered: the outermost frame of the OpenMP library.
const StackFrame* parallel_region(const ThreadSnapshot& thread) {
  const auto inwards = thread.stack | std::views::reverse;
  const auto found = std::ranges::find_if(inwards, is_in_openmp);
  return found == inwards.end() ? nullptr : &*found;
}

// It waits by turning round: in the OpenMP library itself, or giving the CPU away as soon as it
// gets it (sched_yield in the innermost frames).
bool turns_round(const ThreadSnapshot& thread) {
  constexpr size_t kInnermost = 3;
  if (thread.stack.empty()) return false;
  const auto innermost = std::span(thread.stack).first(std::min(kInnermost, thread.stack.size()));
  return is_in_openmp(thread.stack.front()) ||
         std::ranges::any_of(innermost, [](const StackFrame& frame) {
           return frame.function == "sched_yield" || frame.function == "__sched_yield";
         });
}

// How many looks back, for long, nothing moved from the parallel region outwards, and it turned
// round at most of them; 0: it did not stay there.
size_t looks_in_region(const ThreadFacts& spinner, const StackFrame& region) {
  const auto outer = [&](const ThreadSnapshot& thread) {
    const auto from = std::ranges::find(thread.stack, region);
    return std::vector<StackFrame>(from, thread.stack.end());
  };
  const auto wanted = outer(*spinner.thread);
  size_t count = 0;
  size_t seen = 0;
  size_t turning = 0;
  for (const Look& look : spinner.looks) {
    const bool has_stack = !look.thread->stack.empty();
    if (has_stack && outer(*look.thread) != wanted) break;
    ++count;
    if (has_stack) ++seen;
    if (turns_round(*look.thread)) ++turning;
  }
  const bool stays = seen >= 3 && turning * 2 > seen && lasts_long(spinner, count);
  return stays ? count : 0;
}

// A forked copy that turns round and round in a barrier of a parallel region, and has none of the
// region's threads.
std::optional<RootCause> spinning_team(const Facts& facts, size_t index) {
  constexpr double kWholeCore = 0.9;
  const ThreadFacts& spinner = facts.threads[index];
  if (!is_forked_copy(*facts.run, spinner.process->key) || !spinner.has_history) {
    return std::nullopt;
  }
  const StackFrame* region = parallel_region(*spinner.thread);
  if (region == nullptr) return std::nullopt;
  const std::string library(base_name(region->file));
  if (count_pool_threads(*spinner.process, library) > 0) return std::nullopt;
  const size_t looks = looks_in_region(spinner, *region);
  const double busy_share = core_share(spinner, looks).busy;
  if (looks == 0 || busy_share < kWholeCore) return std::nullopt;
  Finding finding =
      finding_about(facts, FindingCode::kForkLostThreadPool, Confidence::kCertain, spinner);
  finding.message = name_of(facts, spinner) + " spins in a parallel region of " + as_path(library) +
                    " for threads that fork did not copy";
  finding.prove(
      number_fact("busy_share", busy_share, "1", "/proc/PID/task/TID/schedstat", facts.last->at));
  finding.prove(count_fact("threads_of_the_team", 1, "stacks of all threads", facts.last->at));
  finding.rule_out("DLP0312",
                   "it waits in the same parallel region at every look, and does nothing else");
  add_pool_remedies(finding, facts, spinner);
  return RootCause{std::move(finding), index};
}

/// Who has a library's threads, where a forked copy has none of them.
struct ThreadsLeftBehind {
  std::string library;
  ProcessKey owner;
  size_t threads = 0;
};

// The nearest process that this one is a copy of, over any number of forks, whose threads began in
// the library.
std::optional<ThreadsLeftBehind> threads_left_behind(const Facts& facts, const ProcessKey& copy,
                                                     const std::string& library) {
  constexpr int kMostForks = 16;
  ProcessKey at = copy;
  for (int i = 0; i < kMostForks && is_forked_copy(*facts.run, at); ++i) {
    const ProcessSnapshot* parent = parent_of(facts, at);
    if (parent == nullptr) return std::nullopt;
    if (const size_t threads = count_pool_threads(*parent, library); threads > 0) {
      return ThreadsLeftBehind{.library = library, .owner = parent->key, .threads = threads};
    }
    at = parent->key;
  }
  return std::nullopt;
}

// Another thread of its process moves, and might wake it yet.
bool has_company(const Facts& facts, const ThreadFacts& waiter) {
  return std::ranges::any_of(facts.threads, [&](const ThreadFacts& other) {
    return other.process == waiter.process && other.thread != waiter.thread && !other.doomed &&
           !other.still && !other.waits_again;
  });
}

// What a thread of its own process has to do for it: a condition variable, a futex, an eventfd.
bool waits_for_own_process(const ThreadFacts& waiter) {
  if (waiter.thread->futex) return waiter.need.kind == NeedKind::kNotification;
  const auto& files = waiter.thread->wait.files;
  return !files.empty() && std::ranges::all_of(files, [](const WaitedFile& file) {
    return file.kind == FileKind::kEventfd;
  });
}

// A forked copy that waits inside a library to be woken by its threads: the process that it was
// copied from has them, it has none, or such as the library has started since and that wait, too.
std::optional<RootCause> threads_of_library(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  const bool stands = waiter.still || waiter.waits_again;
  if (!stands || !waits_for_own_process(waiter)) return std::nullopt;
  const std::string library = blamed_library(*waiter.thread);
  if (library.empty() || is_python(library) || is_pool_thread(*waiter.thread, library)) {
    return std::nullopt;
  }
  const size_t here = count_pool_threads(*waiter.process, library);
  const bool may_be_served = thread_keeper(library) == ThreadKeeper::kNone || !waiter.doomed;
  const auto left = threads_left_behind(facts, waiter.process->key, library);
  if (!left || (here > 0 && (may_be_served || here >= left->threads))) return std::nullopt;
  const bool company = has_company(facts, waiter);
  Finding finding = finding_about(facts, FindingCode::kForkLostThreadPool,
                                  company ? Confidence::kPossible : Confidence::kLikely, waiter);
  if (company) finding.severity = Severity::kWarning;
  finding.message = name_of(facts, waiter) + " waits in " + as_path(library) +
                    " for a thread of it, and " + (here == 0 ? "none exists" : "not all exist") +
                    " here: " + describe(*facts.run, left->owner) + " has " + own(left->threads) +
                    ", which fork did not copy";
  finding.prove(
      count_fact("threads_of_the_library_here", here, "stacks of all threads", facts.last->at));
  finding.prove(count_fact("threads_of_the_library_in_parent", left->threads,
                           "stacks of all threads", facts.last->at));
  finding.rule_out("idle", "it waits inside the library's code, not for a task");
  add_remedies_for_fork(finding, facts, waiter);
  return RootCause{std::move(finding), index};
}

// How many threads of a multiprocessing.Pool's own run that function of it.
ptrdiff_t pool_threads(const ProcessSnapshot& process, std::string_view function) {
  return std::ranges::count_if(process.threads, [&](const ThreadSnapshot& thread) {
    return std::ranges::any_of(thread.stack, [&](const StackFrame& frame) {
      return frame.python && is_of_multiprocessing(frame.file, "pool.py") &&
             frame.function.ends_with(function);
    });
  });
}

// A result of a Pool whose thread that takes them in has ended: of its three, which end one after
// the other, the one that looks after the workers goes first.
std::optional<RootCause> pool_without_results(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  const ProcessSnapshot& process = *waiter.process;
  const bool is_it = waiter.still && waits_for_pool(*waiter.thread) &&
                     pool_threads(process, "_handle_results") == 0;
  const bool all_seen = std::ranges::all_of(process.threads, [](const ThreadSnapshot& each) {
    return !each.stack.empty() && each.stack_note.empty();
  });
  if (!is_it || !all_seen) return std::nullopt;
  Finding finding =
      finding_about(facts, FindingCode::kWaitsForMissingThread, Confidence::kLikely, waiter);
  finding.prove(
      count_fact("threads_here", process.threads.size(), "/proc/PID/task", facts.last->at));
  finding.message = name_of(facts, waiter) + " waits for a result of a multiprocessing.Pool, and ";
  const ProcessSnapshot* parent = parent_of(facts, process.key);
  const bool is_copy = parent != nullptr && is_forked_copy(*facts.run, process.key) &&
                       pool_threads(*parent, "_handle_workers") > 0;
  if (is_copy && process.threads.size() == 1) {
    finding.message +=
        "it has none of the pool's threads: the pool is its parent's, of which fork "
        "copied the object alone";
    finding.advise("Make a pool in the process that uses it, or hand it the work by its parent",
                   {"ProcessPoolExecutor(..., initializer=make_pool)"},
                   "dlprobe deadlock --pid PID");
    return RootCause{std::move(finding), index};
  }
  if (pool_threads(process, "_handle_workers") == 0) {
    finding.message +=
        "none of the pool's threads is left: it was terminated, as at the end of its "
        "with block, or fork did not copy them";
    finding.rule_out("slow", "without those threads no result comes in");
    finding.advise(
        "Take all results before the pool's with block ends: imap() gives them one by one",
        {"with multiprocessing.Pool() as pool: results = list(pool.imap(f, items))"},
        "dlprobe deadlock --pid PID");
    return RootCause{std::move(finding), index};
  }
  finding.message +=
      "the pool's thread that takes results in has ended: mostly by an exception or "
      "a result that it could not unpickle";
  finding.rule_out("slow", "the pool's thread that looks after its workers ends first, and lives");
  finding.advise(
      "Read the traceback of that thread in the output of the job. An exception class "
      "passes all its arguments to its base, or defines __reduce__",
      {"super().__init__(path, offset)",
       "def __reduce__(self): return (type(self), (self.path, self.offset))"},
      "dlprobe deadlock --pid PID");
  return RootCause{std::move(finding), index};
}

}  // namespace

std::vector<RootCause> find_lost_pools(const Facts& facts) {
  std::vector<RootCause> causes;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (thread.doomed && thread.need.kind == NeedKind::kTeam && thread.need.providers.empty()) {
      causes.push_back(lost_team(facts, i));
    } else if (auto spinning = spinning_team(facts, i)) {
      causes.push_back(std::move(*spinning));
    } else if (auto lost = threads_of_library(facts, i)) {
      causes.push_back(std::move(*lost));
    } else if (auto ended = pool_without_results(facts, i)) {
      causes.push_back(std::move(*ended));
    }
  }
  return causes;
}

}  // namespace dlprobe::probes::deadlock
