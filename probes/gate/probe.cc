#include "probes/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/fd_forecast.h"
#include "lib/model/shm_forecast.h"
#include "probes/facts/printed.h"
#include "probes/facts/seen.h"
#include "probes/facts/task_limits.h"
#include "probes/gate/checks.h"
#include "probes/gate/python.h"
#include "probes/gate/rules.h"
#include "probes/merge.h"

namespace dlprobe::probes::gate {
namespace {

const ShmUse* last_use(const Run& run) {
  return run.shm_use.empty() ? nullptr : &run.shm_use.back();
}

void check_left_overs(Checks& checks, const ShmLedger& ledger) {
  using enum FindingCode;
  const std::string title = "Dead jobs left nothing in /dev/shm";
  const uint64_t files = ledger.segments.size() + ledger.omitted_segments;
  const Message seen =
      say("checked {} with {}", counted(files, "file"), format_bytes(ledger.used_bytes));
  if (files > 0 && ledger.hides_pids) {
    checks.add_skipped(
        "shm.left-overs", title,
        seen + "; processes of other pid namespaces may use them, and dlprobe cannot see those",
        {kShmStaleFiles, kLeakedSemaphores});
  } else if (files == 0 || ledger.processes_unreadable == 0) {
    checks.add("shm.left-overs", title, {kShmStaleFiles, kLeakedSemaphores}, seen);
  } else {
    checks.add_skipped("shm.left-overs", title,
                       say("{}; could not check {}, which may use them", seen,
                           counted(ledger.processes_unreadable, "process")),
                       {kShmStaleFiles, kLeakedSemaphores});
  }
}

void check_shm(Checks& checks) {
  using enum FindingCode;
  const Source& source = checks.source();
  const std::string title = "/dev/shm is large enough for this loader";
  const ShmForecast forecast = forecast_shm(source.plan, source.recording.header.host.page_size);
  const ShmUse* use = last_use(source.run);
  if (use == nullptr) {
    checks.add_incomplete("shm.size", title, {kShmTooSmall, kShmHeldByAnotherJob},
                          "/dev/shm could not be looked at", "mount a tmpfs at /dev/shm");
  } else {
    const uint64_t free = use->size_bytes - std::min(use->size_bytes, use->used_bytes);
    const OwnWords size = use->size_bytes == 0 ? "no limit" : format_bytes(use->size_bytes);
    checks.add("shm.size", title, {kShmTooSmall, kShmHeldByAnotherJob, kShmExhausted, kShmNotTmpfs},
               say("{}, {} free; this loader needs {}: {}", size, format_bytes(free),
                   format_bytes(forecast.bytes), forecast.formula));
  }
  const FolderFacts& folder = source.facts.shared_memory;
  const std::string writable = "/dev/shm can be written to";
  if (folder.not_known.empty()) {
    checks.add(
        "shm.writable", writable, {kShmNotWritable},
        folder.trouble.empty() ? "wrote and removed a 4 KiB test file" : as_text(folder.trouble));
  } else {
    checks.add_incomplete("shm.writable", writable, {kShmNotWritable}, as_text(folder.not_known),
                          longer_deadline(checks.source().facts));
  }
  if (source.run.ledgers.empty()) {
    checks.add_incomplete("shm.left-overs", "Dead jobs left nothing in /dev/shm",
                          {kShmStaleFiles, kLeakedSemaphores}, "/dev/shm could not be listed");
  } else {
    check_left_overs(checks, source.run.ledgers.back());
  }
}

OwnWords or_unlimited(const std::optional<uint64_t>& value) {
  return value ? own(*value) : "unlimited";
}

void check_limits(Checks& checks) {
  using enum FindingCode;
  const Source& source = checks.source();
  const FdForecast forecast = forecast_descriptors(source.plan, kTensorsPerBatch);
  const std::string files = "The limit of open files is high enough";
  if (const auto& limit = source.run.begin.open_files_limit) {
    Message text =
        say("limit {}; this loader needs up to {}", or_unlimited(limit->soft), forecast.most);
    if (source.facts.files_open && source.facts.most_files) {
      text +=
          say("; whole machine: {} of {} open", *source.facts.files_open, *source.facts.most_files);
    }
    checks.add("limits.open-files", files, {kFdLimitTooLow}, text);
  } else {
    checks.add_incomplete("limits.open-files", files, {kFdLimitTooLow},
                          "the limit could not be read");
  }
  const std::string tasks = "The limits of processes and threads are high enough";
  const std::vector<TaskLimit> limits = task_limits(tasks_of(source.facts));
  if (limits.empty()) {
    checks.add_incomplete("limits.processes", tasks, {kProcessLimitReached},
                          "no limit of processes could be read", "mount /proc");
  } else {
    checks.add("limits.processes", tasks, {kProcessLimitReached},
               say("room for {} more; this loader needs up to {}", limits.front().left(),
                   tasks_needed(source.plan)));
  }
  const auto& maps = source.recording.header.host.max_map_count;
  if (maps) {
    checks.add("limits.memory-maps", "The limit of memory mappings is high enough",
               {kMemoryMapLimitReached}, say("{} (vm.max_map_count)", *maps));
  } else {
    checks.add_incomplete("limits.memory-maps", "The limit of memory mappings is high enough",
                          {kMemoryMapLimitReached}, "vm.max_map_count could not be read");
  }
}

void check_memory_and_cpus(Checks& checks) {
  using enum FindingCode;
  const GateFacts& facts = checks.source().facts;
  const std::string memory = "Memory is large enough for the batches";
  if (facts.memory) {
    Message text =
        say("{} of {} available, {} of swap", format_bytes(facts.memory->available_bytes),
            format_bytes(facts.memory->total_bytes), format_bytes(facts.memory->swap_total_bytes));
    const auto limit = facts.cgroup ? facts.cgroup->limit_bytes : std::nullopt;
    if (facts.cgroup && limit) {
      text += say("; cgroup: {} limit, {} used", format_bytes(*limit),
                  format_bytes(facts.cgroup->used_bytes));
    }
    checks.add("memory.room", memory, {kMemoryLimitTooLow}, text);
  } else {
    checks.add_incomplete("memory.room", memory, {kMemoryLimitTooLow},
                          as_text(to_string(facts.memory.error())), "mount /proc");
  }
  const std::string cpus = "Each worker has a CPU";
  if (facts.cpus_usable > 0) {
    Message text = say("{} of {} CPUs usable", facts.cpus_usable, facts.cpus_online);
    if (facts.cpu_quota)
      text += own(fmt::format(", for {:.3g} CPUs' worth of time", *facts.cpu_quota));
    const auto workers = checks.source().plan.workers;
    if (std::cmp_less_equal(workers, facts.cpus_usable)) {
      checks.add("cpu.usable", cpus, {kCpuAffinityNarrowed}, text);
    } else {
      text += say(" for {} workers: dlprobe tune measures how many of them help", workers);
      checks.add_skipped("cpu.usable", cpus, text, {kCpuAffinityNarrowed});
    }
  } else {
    checks.add_incomplete("cpu.usable", cpus, {kCpuAffinityNarrowed}, "sched_getaffinity failed");
  }
  const auto setting_text = [](const ThreadSetting& setting) {
    return own(setting.name) + "=" + as_text(setting.value);
  };
  checks.add("cpu.threads", "Libraries do not start too many threads in workers",
             {kThreadOversubscription},
             facts.thread_settings.empty()
                 ? "no environment variable limits the threads of libraries"
                 : joined(facts.thread_settings, setting_text));
}

void check_stacks(Checks& checks) {
  const GateFacts& facts = checks.source().facts;
  const std::string title = "dlprobe could read the stacks of a hung job";
  const auto can = [&](Message text) { checks.add("host.stacks", title, {}, std::move(text)); };
  const auto cannot = [&](Message why) {
    checks.add_skipped("host.stacks", title, std::move(why));
  };
  if (facts.may_trace_all) return can("of all processes (CAP_SYS_PTRACE)");
  if (!facts.ptrace_scope)
    return cannot("not known: " + as_text(to_string(facts.ptrace_scope.error())));
  const int32_t scope = *facts.ptrace_scope;
  if (scope == 0) return can("of your own processes (ptrace_scope 0)");
  if (scope == 1) {
    return can(
        "only of commands that dlprobe starts (ptrace_scope 1); of others with "
        "CAP_SYS_PTRACE");
  }
  cannot(say("of no process (ptrace_scope {}): needs CAP_SYS_PTRACE{}", scope,
             scope == 2 ? "" : " and a reboot with another scope"));
}

void check_surroundings(Checks& checks) {
  using enum FindingCode;
  const GateFacts& facts = checks.source().facts;
  const std::string temporary = "The temporary folder can be written to";
  if (!facts.temporary.not_known.empty()) {
    checks.add_incomplete("host.temporary-folder", temporary, {kTemporaryFolderUnusable},
                          as_text(facts.temporary.not_known),
                          longer_deadline(checks.source().facts));
  } else {
    checks.add("host.temporary-folder", temporary, {kTemporaryFolderUnusable},
               facts.temporary.free_bytes ? say("{}: {} free", as_path(facts.temporary.path),
                                                format_bytes(*facts.temporary.free_bytes))
                                          : as_path(facts.temporary.path));
  }
  if (facts.data && !facts.data->not_known.empty()) {
    checks.add_incomplete("host.data-folder", "The data can be read", {kDataNotReadable},
                          as_text(facts.data->not_known), longer_deadline(checks.source().facts));
  } else if (facts.data) {
    checks.add("host.data-folder", "The data can be read", {kDataNotReadable},
               facts.data->entries
                   ? say("{}: {}{}", as_path(facts.data->path), *facts.data->entries,
                         *facts.data->entries >= 1000 ? " entries or more" : " entries")
                   : as_path(facts.data->path));
  } else {
    checks.add_skipped("host.data-folder", "The data can be read", "no --data given");
  }
  checks.add("host.clock", "The clock is set", {kClockWrong}, "CLOCK_REALTIME");
  check_stacks(checks);
}

// Batches that wait, and memory that is not yet all there: as far as a short run goes, each loader
// has them.
bool is_of_growth(const Finding& finding) {
  using enum FindingCode;
  return finding.code == kPrefetchBacklog || finding.code == kCopyOnWriteGrowth ||
         finding.code == kWorkerMemoryLeak;
}

// A worker that may not be started takes its siblings with it.
void mark_ends_without_room(std::vector<Finding>& ends, const std::vector<Finding>& own) {
  const bool has_no_room = std::ranges::any_of(own, [](const Finding& finding) {
    return finding.code == FindingCode::kProcessLimitReached &&
           finding.severity == Severity::kError;
  });
  if (!has_no_room) return;
  for (Finding& end : ends) {
    const bool is_of_run = info(end.code).code.starts_with("DLP05") && !end.runs.empty();
    if (is_of_run && !end.consequence_of) end.consequence_of = FindingCode::kProcessLimitReached;
  }
}

const Run* run_with_facts(const RecordingView& recording) {
  const auto found = std::ranges::find_if(
      recording.runs, [](const Run& run) { return run.gate && run.begin.plan; });
  return found == recording.runs.end() ? nullptr : &*found;
}

void conclude(const RecordingView& recording, Verdict& verdict) {
  add_printed_lines(recording, verdict);
  const Run* run = run_with_facts(recording);
  if (run == nullptr || !run->gate || !run->begin.plan) {
    verdict.gaps.push_back({.what = "the machine",
                            .why = "the recording has no data on it",
                            .effect = "dlprobe cannot tell"});
    return;
  }
  const Source source{
      .recording = recording, .run = *run, .facts = *run->gate, .plan = *run->begin.plan};
  // Whether the loader came to its end is a check of its own, and so is each thing that it needs.
  // What the probes would have had to see of it for other ends, a search for leaks, say, is not
  // asked here.
  verdict.gaps.clear();
  verdict.limits.clear();
  std::erase_if(verdict.findings, is_of_growth);
  std::vector<Verdict> all;
  Verdict own;
  own.findings = find_all(source);
  mark_ends_without_room(verdict.findings, own.findings);
  all.push_back(std::move(verdict));
  all.push_back(std::move(own));
  verdict = merge_verdicts(std::move(all));
  Checks checks(source, verdict);
  check_shm(checks);
  check_limits(checks);
  check_memory_and_cpus(checks);
  check_surroundings(checks);
  check_python(checks);
  for (size_t i = 0; i < recording.runs.size(); ++i) {
    checks.add_loader(i, recording.runs[i]);
  }
}

constexpr std::array<Cause, 14> kCauses = {{
    {FindingCode::kShmNotWritable, saw_gate_facts, ReportTable::kSharedMemory},
    {FindingCode::kShmNotTmpfs, saw_gate_facts, ReportTable::kSharedMemory},
    {FindingCode::kFdLimitTooLow, saw_gate_facts, ReportTable::kOpenFiles},
    {FindingCode::kMemoryLimitTooLow, saw_gate_facts, ReportTable::kMemory},
    {FindingCode::kThreadOversubscription, saw_gate_facts},
    {FindingCode::kProcessLimitReached, saw_gate_facts},
    {FindingCode::kForkUnsafeLibraryLoaded, saw_gate_facts},
    {FindingCode::kTwoOpenMpRuntimes, saw_gate_facts},
    {FindingCode::kCpuAffinityNarrowed, saw_gate_facts},
    {FindingCode::kDataNotReadable, saw_gate_facts},
    {FindingCode::kTemporaryFolderUnusable, saw_gate_facts},
    {FindingCode::kClockWrong, saw_gate_facts},
    {FindingCode::kInterpreterUnusable, saw_gate_facts},
    {FindingCode::kMixedCondaPip, saw_gate_facts},
}};

}  // namespace

// Of the machine and of short runs of the reference loader: every probe's findings, its own, and
// named checks (Verdict::checks). What could not be made of a check that the verdict rests on is a
// gap: never a pass.
const Probe kProbe = {
    .name = "gate",
    .summary = "before a job: check the machine, and run the reference loader briefly",
    .causes = kCauses,
    .conclude = conclude,
    .use = ProbeUse::kAll,
    .judges_ends = true,
    .measures_speed = true};

}  // namespace dlprobe::probes::gate
