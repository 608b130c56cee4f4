#include "probes/facts/handled.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// Whoever fails of its child's failure does so at once.
constexpr BootNs kRightAfter = 2 * kSecond;
// Whoever leaves with its child's code may have to tidy up before.
constexpr BootNs kTidiesUp = 6 * kSecond;
// A child that its parent outlived may be seen to end after it.
constexpr BootNs kSeenLater = kSecond;
// A launcher that ends the other children because of it begins so soon.
constexpr BootNs kUntilCleanUp = 15 * kSecond;

bool has_failed(const ProcessExit& exit) {
  return exit.wait_status && *exit.wait_status != 0;
}

/// As a shell has it.
int code_of(const ProcessExit& exit) {
  constexpr int kShellsOffset = 128;
  const int status = *exit.wait_status;
  return WIFSIGNALED(status) ? kShellsOffset + WTERMSIG(status) : WEXITSTATUS(status);
}

const ProcessInfo* parent_of(const Run& run, const ProcessInfo& process) {
  const auto found = std::ranges::find_if(run.processes, [&](const ProcessInfo& other) {
    return other.key.pid == process.ppid && other.key.start_ticks <= process.key.start_ticks;
  });
  return found == run.processes.end() ? nullptr : &*found;
}

/// What multiprocessing started, or may have started where no interpreter tells.
bool is_worker(const Run& run, const ProcessInfo& process) {
  const bool starts_anew = process.start_method.value_or(StartMethod::kFork) != StartMethod::kFork;
  const auto tells = [&](StartEventKind kind) {
    return std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
      if (event.kind != kind) return false;
      return kind != StartEventKind::kStarted || event.child_pid == process.key.pid;
    });
  };
  if (starts_anew || tells(StartEventKind::kStarted)) return true;
  return process.role == Role::kWorker && !tells(StartEventKind::kInterpreter);
}

/// The exception that ended it; null: none was told.
const StartEvent* exception_of(const Run& run, const ProcessKey& key) {
  const auto found = std::ranges::find_if(run.start_events, [&](const StartEvent& event) {
    return event.process == key && event.kind == StartEventKind::kFailed &&
           event.ended == Ended::kProcess;
  });
  return found == run.start_events.end() ? nullptr : &*found;
}

bool is_right_after(BootNs at, BootNs of) {
  return at >= of - kRightAfter && at <= of + kRightAfter;
}

/// Whether another exit of the parent's children fits the condition.
template <typename Condition>
bool any_sibling(const Run& run, const ProcessInfo& process, Condition&& fits) {
  return std::ranges::any_of(run.exits, [&](const ProcessExit& other) {
    const ProcessInfo* sibling = run.find_process(other.key);
    return sibling != nullptr && sibling->ppid == process.ppid && other.key != process.key &&
           other.wait_status && fits(other);
  });
}

/// Whether the parent ended others that it had, as launchers do then.
bool was_cleaned_up(const Run& run, const ProcessInfo& process, const ProcessExit& end) {
  return any_sibling(run, process, [&](const ProcessExit& other) {
    const int status = *other.wait_status;
    const bool was_ended =
        WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGKILL);
    return was_ended && other.at >= end.at - kRightAfter && other.at <= end.at + kUntilCleanUp;
  });
}

bool starts_another_after(const Run& run, const ProcessInfo& process, BootNs at) {
  return std::ranges::any_of(run.processes, [&](const ProcessInfo& other) {
    return other.ppid == process.ppid && other.key != process.key && other.seen_at > at;
  });
}

/// Whether the parent, which failed, failed of that.
bool was_passed_on(const Run& run, const ProcessInfo& process, const ProcessExit& end,
                   const ProcessExit& of_parent) {
  if (was_cleaned_up(run, process, end)) return true;
  if (const StartEvent* raised = exception_of(run, of_parent.key)) {
    if (is_right_after(raised->at, end.at)) return true;
    return !raised->again.empty() && !any_sibling(run, process, [&](const ProcessExit& other) {
      return has_failed(other) && is_right_after(raised->at, other.at);
    });
  }
  if (code_of(of_parent) != code_of(end)) return false;
  const bool has_witness = std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
    return event.kind == StartEventKind::kInterpreter && event.process == of_parent.key;
  });
  if (has_witness) {
    // Whoever starts the ranks of a job waits for all of them.
    const bool is_soon = of_parent.at <= end.at + kTidiesUp;
    return (is_soon || process.rank_of_several() != nullptr) &&
           !starts_another_after(run, process, end.at);
  }
  // A shell ends with the code of its last child.
  return !any_sibling(run, process, [&](const ProcessExit& other) {
    return other.at > end.at + kRightAfter && code_of(other) == code_of(end);
  });
}

}  // namespace

bool is_handled_child(const Run& run, const ProcessKey& key) {
  const ProcessInfo* process = run.find_process(key);
  // Of a chain of processes each of which passes the failure on, the last one counts.
  while (process != nullptr && run.begin.root != process->key) {
    const ProcessExit* end = run.find_exit(process->key);
    const ProcessInfo* parent = parent_of(run, *process);
    const ProcessExit* of_parent = parent == nullptr ? nullptr : run.find_exit(parent->key);
    if (end == nullptr || !has_failed(*end) || is_worker(run, *process)) return false;
    if (of_parent == nullptr || !of_parent->wait_status) return false;
    if (of_parent->at < end->at - kSeenLater || !WIFEXITED(*of_parent->wait_status)) return false;
    if (*of_parent->wait_status == 0) return true;
    if (!was_passed_on(run, *process, *end, *of_parent)) return true;
    process = parent;
  }
  return false;
}

bool may_be_handled_child(const Run& run, const ProcessKey& key) {
  const ProcessInfo* process = run.find_process(key);
  const ProcessInfo* parent = process == nullptr ? nullptr : parent_of(run, *process);
  return parent != nullptr && run.find_exit(parent->key) == nullptr && !is_worker(run, *process) &&
         process->rank_of_several() == nullptr;
}

}  // namespace dlprobe
