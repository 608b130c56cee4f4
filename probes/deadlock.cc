#include <algorithm>

#include "probes/deadlock_facts.h"
#include "probes/facts.h"
#include "probes/probe.h"

namespace dlprobe {
namespace {

constexpr std::string_view kStackSource = "native stack";

bool has_thread(const ProcessSnapshot& process, int32_t tid) {
  return std::ranges::any_of(process.threads,
                             [tid](const ThreadSnapshot& thread) { return thread.tid == tid; });
}

Finding finding_about(const DeadlockFacts& facts, FindingCode code, const StuckThread& stuck) {
  Finding finding = new_finding(code, Confidence::kCertain);
  finding.processes = {stuck.process->key};
  finding.first_seen = stuck.since;
  finding.last_seen = facts.last->at;
  finding.evidence.push_back(time_fact("stood_still_for", facts.last->at - stuck.since,
                                       "timeslices in /proc/PID/task/TID/schedstat"));
  const std::string library = blamed_library(*stuck.thread);
  const std::string function = blamed_function(*stuck.thread);
  if (!library.empty()) {
    finding.evidence.push_back(
        text_fact("waits_in", function.empty() ? library : function + " (" + library + ")",
                  kStackSource, facts.last->at));
    finding.discriminator = library;
  }
  return finding;
}

void add_remedies_for_fork(Finding& finding) {
  finding.remedies.push_back(
      {.title = "Start workers from a clean process: nothing of the parent's threads is copied",
       .commands = {"DataLoader(..., multiprocessing_context='forkserver')",
                    "DataLoader(..., multiprocessing_context='spawn')"},
       .applies_to = {"code"},
       .verify = "dlprobe deadlock --pid PID"});
}

// A mutex whose owner is a thread that this process does not have.
std::optional<Finding> inherited_lock(const DeadlockFacts& facts, const StuckThread& stuck) {
  const auto& futex = stuck.thread->futex;
  if (!futex || futex->shared || futex->kind != LockKind::kMutex || !futex->owner_tid ||
      has_thread(*stuck.process, *futex->owner_tid)) {
    return std::nullopt;
  }
  const std::string who = describe(*facts.run, stuck.process->key);
  const std::string owner = std::to_string(*futex->owner_tid);
  const auto place = find_thread(facts, *futex->owner_tid);
  const bool copy = is_forked_copy(*facts.run, stuck.process->key);
  Finding finding = finding_about(
      facts, copy ? FindingCode::kForkInheritedLock : FindingCode::kWaitsForMissingThread, stuck);
  finding.message = who + " waits for a mutex whose owner field says thread " + owner + "; ";
  if (place && copy) {
    finding.message += "that thread lives in " + describe(*facts.run, place->process->key) +
                       ", not here: the mutex was copied locked by fork";
  } else if (copy) {
    finding.message += "no thread here has that number: the mutex was copied locked by fork";
  } else {
    finding.message += "that thread has ended without releasing it";
  }
  finding.evidence.push_back(
      text_fact("owner_tid", owner, "__owner of the pthread_mutex_t", facts.last->at));
  finding.evidence.push_back(
      count_fact("threads_here", stuck.process->threads.size(), "/proc/PID/task", facts.last->at));
  finding.alternatives.push_back(
      {.cause = "contention",
       .why_not = "the owner is no thread of this process, so nobody here can release it"});
  if (copy) add_remedies_for_fork(finding);
  return finding;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// A thread of the pool itself: the library started it. What calls into the pool came from
// elsewhere.
bool is_pool_thread(const ThreadSnapshot& thread, std::string_view library) {
  const auto outermost =
      std::find_if(thread.stack.rbegin(), thread.stack.rend(), [](const StackFrame& frame) {
        return !frame.python && !frame.file.empty() && !is_libc(frame.file);
      });
  return outermost != thread.stack.rend() && base_name(outermost->file) == library;
}

size_t count_pool_threads(const ProcessSnapshot& process, std::string_view library) {
  return static_cast<size_t>(std::ranges::count_if(
      process.threads,
      [&](const ThreadSnapshot& thread) { return is_pool_thread(thread, library); }));
}

// A team of OpenMP that waits for members which do not exist.
std::optional<Finding> lost_pool(const DeadlockFacts& facts, const StuckThread& stuck) {
  const auto& futex = stuck.thread->futex;
  if (!futex || futex->kind != LockKind::kOpenMpBarrier) return std::nullopt;
  const std::string library = blamed_library(*stuck.thread);
  if (is_pool_thread(*stuck.thread, library)) return std::nullopt;  // parked: it waits for work
  const size_t members = count_pool_threads(*stuck.process, library) + 1;
  if (members >= futex->team_size) return std::nullopt;
  Finding finding = finding_about(facts, FindingCode::kForkLostThreadPool, stuck);
  finding.message =
      describe(*facts.run, stuck.process->key) + " waits in " + library + " for a team of " +
      std::to_string(futex->team_size) + " threads, and " +
      (members == 1 ? "it is the only one here" : "only " + std::to_string(members) + " are here") +
      ": the others were not copied by fork";
  finding.evidence.push_back(
      count_fact("team_size", futex->team_size, "gomp_barrier_t", facts.last->at));
  finding.evidence.push_back(
      count_fact("threads_of_the_team", members, "stacks of all threads", facts.last->at));
  finding.remedies.push_back(
      {.title = "Use one thread in the worker, before anything else uses the pool there",
       .commands = {"def worker_init_fn(worker_id): torch.set_num_threads(1)",
                    "OMP_NUM_THREADS=1 python train.py"},
       .applies_to = {"code"},
       .verify = "dlprobe deadlock --pid PID"});
  add_remedies_for_fork(finding);
  return finding;
}

std::optional<Finding> stopped(const DeadlockFacts& facts, const ProcessSnapshot& process) {
  const ProcessInfo* info = facts.run->find_process(process.key);
  const bool is_worker = info != nullptr && info->role == Role::kWorker;
  const bool all = std::ranges::all_of(
      process.threads, [](const ThreadSnapshot& thread) { return thread.state == 'T'; });
  if (!is_worker || process.threads.empty() || !all || facts.span == 0) return std::nullopt;
  Finding finding = new_finding(FindingCode::kWorkerStopped, Confidence::kCertain);
  finding.processes = {process.key};
  finding.message =
      describe(*facts.run, process.key) + " is stopped (state T), and will not go on by itself";
  finding.evidence.push_back(
      text_fact("state", "T (stopped)", "/proc/PID/task/TID/stat", facts.last->at));
  finding.first_seen = facts.last->at;
  finding.remedies.push_back(
      {.title =
           "Let it go on, and find out who stopped it (SIGSTOP, or SIGTTOU of a background job)",
       .commands = {"kill -CONT " + std::to_string(process.key.pid)},
       .applies_to = {"bare-host"},
       .verify = "dlprobe deadlock --pid " + std::to_string(process.key.pid)});
  return finding;
}

// One finding for all workers that hang in the same way.
void add(std::vector<Finding>& findings, std::optional<Finding> finding) {
  if (!finding) return;
  const auto same = std::ranges::find_if(findings, [&](const Finding& each) {
    return each.code == finding->code && each.discriminator == finding->discriminator;
  });
  if (same == findings.end()) {
    findings.push_back(std::move(*finding));
  } else {
    same->processes.insert(same->processes.end(), finding->processes.begin(),
                           finding->processes.end());
  }
}

Verdict examine_run(const Run& run) {
  const DeadlockFacts facts = deadlock_facts(run);
  Verdict verdict;
  if (run.snapshots.size() < 2) {
    verdict.gaps.push_back({.what = "stacks and locks",
                            .why = "fewer than two snapshots were taken",
                            .effect = "whether anything stands still is not known",
                            .remedy = "watch for longer: --for 5s"});
    return verdict;
  }
  for (const StuckThread& stuck : facts.stuck) {
    add(verdict.findings, inherited_lock(facts, stuck));
    add(verdict.findings, lost_pool(facts, stuck));
  }
  for (const ProcessSnapshot& process : facts.last->processes)
    add(verdict.findings, stopped(facts, process));
  return verdict;
}

Verdict examine(const Recording& recording) {
  Verdict verdict;
  for (size_t index = 0; index < recording.runs.size(); ++index) {
    Verdict of_run = examine_run(recording.runs[index]);
    for (Finding& finding : of_run.findings) {
      finding.runs = {static_cast<int>(index)};
      verdict.findings.push_back(std::move(finding));
    }
    verdict.gaps.insert(verdict.gaps.end(), of_run.gaps.begin(), of_run.gaps.end());
  }
  return verdict;
}

}  // namespace

extern const Probe k_deadlock;
const Probe k_deadlock = {.name = "deadlock",
                          .summary = "who waits for what, who holds it, and whether it can end",
                          .examine = examine,
                          .needs_snapshots = true};

}  // namespace dlprobe
