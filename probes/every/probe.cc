#include "probes/probe.h"

#include <algorithm>

#include "probes/facts/all_well.h"
#include "probes/facts/printed.h"

namespace dlprobe {
namespace {

// Two looks compare; an older dlprobe took none of a command.
void add_what_run_left_out(const RecordingView& recording, Verdict& verdict) {
  const bool never_looked = std::ranges::any_of(recording.runs, [](const Run& run) {
    return run.begin.looks_when_quiet && run.snapshots.empty() && run.file_looks.size() < 2 &&
           run.processes.size() > 1;
  });
  const bool is_explained =
      !verdict.findings.empty() && verdict.findings.front().severity == Severity::kError;
  if (!never_looked || is_explained) return;
  verdict.limits.push_back(
      {.what = "files and connections that several processes read (DLP0205)",
       .why = "dlprobe did not compare open files while several processes lived",
       .effect = "dlprobe cannot tell whether a handle shared over fork mixed up samples",
       .remedy = ""});
}

void conclude(const RecordingView& recording, Verdict& verdict) {
  add_printed_lines(recording, verdict);
  add_what_run_left_out(recording, verdict);
}

Message all_well_of_tree(const RecordingView& recording) {
  const char* is = is_over(recording) ? "was" : "is";
  return say("nothing {} stuck, and nothing {} wrong with shared memory: {}; {}", is, is,
             describe_looks(recording), describe_shm_peak(recording));
}

Message all_well_of_command(const RecordingView& recording) {
  return say("nothing {} wrong: {}", is_over(recording) ? "was" : "is", describe_watch(recording));
}

}  // namespace

const Probe probes::attach::kProbe = {.name = "attach",
                                      .summary = "diagnose a running job",
                                      .conclude = conclude,
                                      .all_well = all_well_of_tree,
                                      .use = ProbeUse::kAll,
                                      .judges_ends = true,
                                      .needs_snapshots = true,
                                      .needs_containers = true};

const Probe probes::run::kProbe = {
    .name = "run",
    .summary = "run a command, and report if it dies, hangs or leaks",
    .conclude = conclude,
    .all_well = all_well_of_command,
    .use = ProbeUse::kAll,
    .judges_ends = true,
    .needs_snapshots = true,
    .needs_shared_files = true,
    .needs_containers = true};

}  // namespace dlprobe
