#include "probes/facts/all_well.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>

#include "lib/base/units.h"
#include "lib/model/run_words.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/facts.h"

namespace dlprobe {
namespace {

uint64_t peak_used_bytes(const RecordingView& recording) {
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

Message crash_text(const Run& run) {
  const auto crash = std::ranges::find_if(run.exits, [&](const ProcessExit& exit) {
    const ProcessInfo* process = run.find_process(exit.key);
    return process != nullptr && process->role == Role::kWorker && is_crash(exit);
  });
  if (crash == run.exits.end()) return "";
  Message text = "worker " + own(crash->key.pid) + " was " + describe_exit(crash->wait_status);
  if (const auto room = free_shm_at(run, crash->at)) {
    text += " while " + format_bytes(*room) + " of /dev/shm were free";
  }
  return text;
}

// That the job failed for a reason of its own is no finding, and must not be read as success. How
// the process that was asked for ended, the headline says first.
Message own_failure(const Run& run, bool judges_ends) {
  if (run.begin.subject == SubjectKind::kReferenceLoader) return "";
  Message text = judges_ends ? "" : crash_text(run);
  const ProcessExit* first = nullptr;
  for (const ProcessExit& exit : run.exits) {
    const ProcessInfo* process = run.find_process(exit.key);
    const bool is_trainer = process != nullptr && process->role == Role::kTrainer;
    const bool is_told = ended_during_watch(run) && run.begin.root == exit.key;
    if (!is_trainer || is_told || !exit.wait_status || *exit.wait_status == 0) continue;
    // Of ranks a launcher ends by a signal those that are left once one has failed.
    const bool has_exited = WIFEXITED(*exit.wait_status);
    if (first == nullptr || (has_exited && !WIFEXITED(*first->wait_status))) first = &exit;
  }
  if (first != nullptr)
    text += (text.empty() ? "" : ", and ") + describe(run, first->key) + " " +
            describe_exit(first->wait_status);
  return text.empty() ? "" : ". But " + text + ", for another reason";
}

// A shell or a finished job says "nothing wrong" as well.
OwnWords what_was_no_loader(const RecordingView& recording) {
  const bool any = std::ranges::any_of(recording.runs, [](const Run& run) {
    return run.begin.subject == SubjectKind::kReferenceLoader || run.begin.trial ||
           std::ranges::count(run.start_events, StartEventKind::kRead, &StartEvent::kind) > 0 ||
           std::ranges::any_of(run.processes, [](const ProcessInfo& process) {
             return process.role == Role::kWorker;
           });
  });
  return any ? "" : "; dlprobe saw no worker of a data loader";
}

size_t count_samples(const RecordingView& recording) {
  size_t samples = 0;
  for (const Run& run : recording.runs)
    samples += run.samples.size();
  return samples;
}

OwnWords describe_runs(const RecordingView& recording) {
  return counted(recording.runs.size(), "run");
}

}  // namespace

OwnWords describe_shm_peak(const RecordingView& recording) {
  return "/dev/shm held " + format_bytes(peak_used_bytes(recording)) + " at its peak";
}

OwnWords describe_samples(const RecordingView& recording) {
  return describe_runs(recording) + " (" + counted(count_samples(recording), "sample") + ")";
}

OwnWords describe_looks(const RecordingView& recording) {
  size_t processes = 0;
  size_t looks = 0;
  BootNs watched = 0;
  for (const Run& run : recording.runs) {
    if (!run.snapshots.empty()) processes += run.snapshots.back().processes.size();
    looks += run.snapshots.size();
    const RunSpan span = span_of(run);
    watched += span.end - span.begin;
  }
  OwnWords text = "watched " + counted(processes, "process") + " for " +
                  format_duration(std::chrono::nanoseconds(watched)) + ", " +
                  counted(looks, "look") + " at " + (processes == 1 ? "its" : "their") + " stacks";
  if (recording.runs.size() > 1) text += ", in " + describe_runs(recording);
  return text;
}

OwnWords describe_watch(const RecordingView& recording) {
  size_t processes = 0;
  BootNs watched = 0;
  for (const Run& run : recording.runs) {
    processes += run.processes.size();
    const RunSpan span = span_of(run);
    watched += span.end - span.begin;
  }
  return "watched " + counted(processes, "process") + " for " +
         format_duration(std::chrono::nanoseconds(watched));
}

OwnWords growth_out_of_sight(const RecordingView& recording, bool of_memory, bool of_descriptors) {
  if (is_over(recording) || !(of_memory || of_descriptors)) return "";
  BootNs watched = 0;
  for (const Run& run : recording.runs)
    watched = std::max(watched, watched_for(run));
  const auto slowest = of_memory ? slowest_growth_found(watched)
                                 : slowest_count_growth_found(watched, kRiseOfDescriptors);
  if (!slowest) return "; a leak shows only after 15 s (--for 15s)";
  return "; in " + format_duration(std::chrono::nanoseconds(watched)) + " a leak below " +
         (of_memory ? format_bytes(static_cast<uint64_t>(*slowest)) + "/s"
                    : count_rate_text(*slowest)) +
         " would not show";
}

bool is_over(const RecordingView& recording) {
  return std::ranges::all_of(recording.runs, has_subject_ended);
}

Message nothing_wrong(const RecordingView& recording) {
  return "saw nothing wrong in " + describe_samples(recording) + "; " +
         describe_shm_peak(recording);
}

Message with_reservations(Message sentence, const RecordingView& recording, bool judges_ends) {
  sentence += what_was_no_loader(recording);
  for (const Run& run : recording.runs)
    if (!run.begin.trial) sentence += own_failure(run, judges_ends);
  return sentence;
}

}  // namespace dlprobe
