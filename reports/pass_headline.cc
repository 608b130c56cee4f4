// What "nothing was found" means, in the words of what was looked at.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>

#include "lib/base/units.h"
#include "reports/sections.h"

namespace dlprobe {
namespace {

uint64_t peak_used_bytes(const Recording& recording) {
  uint64_t peak = 0;
  for (const Run& run : recording.runs) {
    for (const ShmUse& use : run.shm_use)
      peak = std::max(peak, use.used_bytes);
  }
  return peak;
}

// How much of its /dev/shm was free then; nothing where that is not known or not limited.
std::optional<uint64_t> free_shm_at(const Run& run, BootNs at) {
  const auto after = std::ranges::upper_bound(run.shm_use, at, {}, &ShmUse::at);
  if (after == run.shm_use.begin() || std::prev(after)->size_bytes == 0) return std::nullopt;
  const ShmUse& use = *std::prev(after);
  return use.size_bytes - std::min(use.size_bytes, use.used_bytes);
}

// Not SIGTERM and SIGINT: so a trainer ends its workers.
bool is_crash(const ProcessExit& exit) {
  constexpr std::array kCrashes = {SIGBUS, SIGSEGV, SIGKILL, SIGABRT, SIGFPE, SIGILL};
  return exit.wait_status && WIFSIGNALED(*exit.wait_status) &&
         std::ranges::find(kCrashes, WTERMSIG(*exit.wait_status)) != kCrashes.end();
}

// Those that look at how processes ended have found nothing wrong with it.
bool judges_exits(std::string_view probe) {
  return probe == "run" || probe == "attach" || probe == "memory";
}

std::string crash_text(const Run& run) {
  const auto crash = std::ranges::find_if(run.exits, [&](const ProcessExit& exit) {
    const ProcessInfo* process = run.find_process(exit.key);
    return process != nullptr && process->role == Role::kWorker && is_crash(exit);
  });
  if (crash == run.exits.end()) return "";
  std::string text =
      fmt::format("worker {} was {}", crash->key.pid, describe_exit(crash->wait_status));
  if (const auto room = free_shm_at(run, crash->at)) {
    text += fmt::format(" while {} of /dev/shm were free", format_bytes(*room));
  }
  return text;
}

// That the job failed for a reason of its own is no finding, and must not be read as success.
std::string own_failure(const Run& run, std::string_view probe) {
  if (run.begin.subject == SubjectKind::kReferenceLoader) return "";
  std::string text = judges_exits(probe) ? "" : crash_text(run);
  for (const ProcessExit& exit : run.exits) {
    const ProcessInfo* process = run.find_process(exit.key);
    const bool is_trainer = process != nullptr && process->role == Role::kTrainer;
    if (!is_trainer || !exit.wait_status || *exit.wait_status == 0) continue;
    if (!text.empty()) text += ", and ";
    text += fmt::format("pid {} {}", exit.key.pid, describe_exit(exit.wait_status));
    break;
  }
  return text.empty() ? "" : ". But " + text + ", for another reason than these";
}

// A shell or a finished job says "nothing wrong" as well.
std::string what_was_no_loader(const Recording& recording) {
  const bool any = std::ranges::any_of(recording.runs, [](const Run& run) {
    return run.begin.subject == SubjectKind::kReferenceLoader || run.begin.trial ||
           std::ranges::any_of(run.processes, [](const ProcessInfo& process) {
             return process.role == Role::kWorker;
           });
  });
  return any ? "" : "; no worker of a data loader was seen";
}

size_t count_samples(const Recording& recording) {
  size_t samples = 0;
  for (const Run& run : recording.runs)
    samples += run.samples.size();
  return samples;
}

std::string describe_runs(const Recording& recording) {
  return counted(recording.runs.size(), "run");
}

std::string shm_peak_text(const Recording& recording) {
  return fmt::format("/dev/shm held {} at its peak", format_bytes(peak_used_bytes(recording)));
}

// "watched 5 processes for 3.0 s, 4 looks at their stacks".
std::string describe_looks(const Recording& recording) {
  size_t processes = 0;
  size_t looks = 0;
  BootNs watched = 0;
  for (const Run& run : recording.runs) {
    if (!run.snapshots.empty()) processes += run.snapshots.back().processes.size();
    looks += run.snapshots.size();
    const RunSpan span = span_of(run);
    watched += span.end - span.begin;
  }
  std::string text =
      fmt::format("watched {} for {}, {} at {} stacks", counted(processes, "process"),
                  format_duration(std::chrono::nanoseconds(watched)), counted(looks, "look"),
                  processes == 1 ? "its" : "their");
  if (recording.runs.size() > 1) text += ", in " + describe_runs(recording);
  return text;
}

// "watched 5 processes for 3.0 s".
std::string describe_watch(const Recording& recording) {
  size_t processes = 0;
  BootNs watched = 0;
  for (const Run& run : recording.runs) {
    processes += run.processes.size();
    const RunSpan span = span_of(run);
    watched += span.end - span.begin;
  }
  return fmt::format("watched {} for {}", counted(processes, "process"),
                     format_duration(std::chrono::nanoseconds(watched)));
}

bool is_over(const Recording& recording) {
  return std::ranges::all_of(recording.runs, [](const Run& run) {
    return run.end && run.end->reason == RunEndReason::kSubjectEnded;
  });
}

bool has_trials(const Recording& recording) {
  return !recording.runs.empty() && recording.runs.front().begin.trial.has_value();
}

// "fork, spawn and forkserver".
std::string methods_tried(const Recording& recording) {
  std::vector<std::string> names;
  for (const Run& run : recording.runs) {
    if (!run.begin.trial) continue;
    const std::string name(to_string(run.begin.trial->start_method));
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

// Of a program that was read and not run; nothing: something was run.
std::optional<std::string> what_was_read(const Recording& recording) {
  if (recording.runs.size() != 1 || count_samples(recording) > 0) return std::nullopt;
  const auto& script = recording.runs.front().script;
  if (!script || !script->error.empty()) return std::nullopt;
  const std::string own =
      script->own_files > 0
          ? fmt::format(" and {} of its own",
                        counted(static_cast<uint64_t>(script->own_files), "module"))
          : "";
  const bool starts = std::ranges::any_of(script->facts, [](const ScriptFact& fact) {
    return fact.kind == ScriptFactKind::kStarts || fact.kind == ScriptFactKind::kMayStart;
  });
  return fmt::format("{}{}, read and not run: {}", script->file, own,
                     starts ? "nothing of it breaks where workers import it, as far as text tells"
                            : "nothing of it starts processes, as far as text tells");
}

std::string nothing_found(const Recording& recording) {
  const std::string& probe = recording.header.invocation.probe;
  const std::string_view is = is_over(recording) ? "was" : "is";
  if (probe == "deadlock") {
    return fmt::format("nothing {} stuck: {}", is, describe_looks(recording));
  }
  if (probe == "memory") {
    return fmt::format("nothing {} wrong with memory in {} ({})", is, describe_runs(recording),
                       counted(count_samples(recording), "sample"));
  }
  if (probe == "attach") {
    return fmt::format("nothing {} stuck, and nothing {} wrong with shared memory: {}; {}", is, is,
                       describe_looks(recording), shm_peak_text(recording));
  }
  if (probe == "spawn-recursion" && has_trials(recording)) {
    return "nothing was refused under " + methods_tried(recording) + ": " +
           describe_watch(recording);
  }
  if (probe == "run") {
    return fmt::format("nothing {} wrong: {}", is, describe_watch(recording));
  }
  return fmt::format("nothing wrong was seen in {} ({}); {}", describe_runs(recording),
                     counted(count_samples(recording), "sample"), shm_peak_text(recording));
}

}  // namespace

std::string pass_headline(const Recording& recording) {
  if (auto read = what_was_read(recording)) return *read;
  std::string text = nothing_found(recording) + what_was_no_loader(recording);
  for (const Run& run : recording.runs)
    if (!run.begin.trial) text += own_failure(run, recording.header.invocation.probe);
  return text;
}

}  // namespace dlprobe
