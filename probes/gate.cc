#include "probes/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/fd_forecast.h"
#include "lib/model/shm_forecast.h"
#include "probes/every_probe.h"
#include "probes/facts.h"

namespace dlprobe {
namespace {

// A worker of PyTorch: its main thread, the feeder of its queue, and what its libraries start; the
// trainer has a few beside, and there are a resource tracker and, with file_system, managers.
constexpr uint64_t kTasksOfWorker = 4;
constexpr uint64_t kTasksBeside = 16;
constexpr uint64_t kLeastFreeInTemporary = uint64_t{16} << 20U;
// Of a build of 2026 no clock of a machine that is set can be older.
constexpr int64_t kOldestTime = 1'767'225'600LL * kSecond;  // 2026-01-01

constexpr std::string_view kVerify = "dlprobe gate";

/// What the rules of the gate look at.
struct GateSource {
  const Recording& recording;
  const Run& run;  ///< the one with the facts
  const GateFacts& facts;
  const LoaderPlan& plan;
};

void add_remedy(Finding& finding, std::string title, std::vector<std::string> commands,
                std::vector<std::string> places) {
  finding.remedies.push_back({.title = std::move(title),
                              .commands = std::move(commands),
                              .applies_to = std::move(places),
                              .verify = std::string(kVerify)});
}

/// Limits of the number of processes and threads, each with what is taken of it.
struct TaskLimit {
  std::string name;
  uint64_t limit = 0;
  uint64_t taken = 0;
  std::string source;
  uint64_t left() const { return limit - std::min(limit, taken); }
};

std::vector<TaskLimit> task_limits(const GateFacts& facts) {
  std::vector<TaskLimit> limits;
  const std::optional<uint64_t> of_user = facts.processes ? facts.processes->soft : std::nullopt;
  if (of_user && facts.tasks_of_user) {
    limits.push_back({.name = "the user's limit of processes (ulimit -u)",
                      .limit = *of_user,
                      .taken = *facts.tasks_of_user,
                      .source = "Max processes of /proc/self/limits"});
  }
  if (facts.cgroup_tasks_limit && facts.cgroup_tasks) {
    limits.push_back({.name = "the limit of the cgroup (pids.max)",
                      .limit = *facts.cgroup_tasks_limit,
                      .taken = *facts.cgroup_tasks,
                      .source = "pids.max and pids.current"});
  }
  if (facts.most_tasks && facts.tasks) {
    limits.push_back({.name = "the machine's limit (kernel.threads-max, kernel.pid_max)",
                      .limit = *facts.most_tasks,
                      .taken = *facts.tasks,
                      .source = "/proc/sys/kernel, /proc/loadavg"});
  }
  std::ranges::stable_sort(limits, {}, &TaskLimit::left);
  return limits;
}

uint64_t tasks_needed(const LoaderPlan& plan) {
  return static_cast<uint64_t>(plan.workers) * kTasksOfWorker + kTasksBeside;
}

std::optional<Finding> process_limit_reached(const GateSource& source) {
  const std::vector<TaskLimit> limits = task_limits(source.facts);
  if (limits.empty()) return std::nullopt;
  const TaskLimit& nearest = limits.front();
  const uint64_t needed = tasks_needed(source.plan);
  if (nearest.left() >= needed) return std::nullopt;
  // A worker is one process at the least, and so is what starts them.
  const auto least = static_cast<uint64_t>(source.plan.workers) + 1;
  Finding finding = new_finding(FindingCode::kProcessLimitReached, Confidence::kCertain);
  finding.severity = nearest.left() < least ? Severity::kError : Severity::kWarning;
  finding.message =
      fmt::format("{} leaves room for {} more, and {} need up to {}", nearest.name,
                  counted(nearest.left(), "thread"),
                  counted(static_cast<uint64_t>(source.plan.workers), "worker"), needed);
  finding.evidence = {
      count_fact("limit", nearest.limit, nearest.source),
      count_fact("taken", nearest.taken, nearest.source),
      held_against(count_fact("needed", needed, "4 threads for each worker, and 16"),
                   "> limit - taken")};
  add_remedy(finding, "Raise the limit", {fmt::format("ulimit -u {}", nearest.taken + 2 * needed)},
             {"bare-host"});
  add_remedy(finding, "Give the container more processes",
             {fmt::format("docker run --pids-limit {} ...", nearest.taken + 2 * needed)},
             {"docker", "podman"});
  return finding;
}

double usable_cpus(const GateFacts& facts) {
  double cpus = facts.cpus_usable;
  if (facts.cpu_quota) cpus = std::min(cpus, *facts.cpu_quota);
  return cpus;
}

std::optional<Finding> cpus_narrowed(const GateSource& source) {
  const GateFacts& facts = source.facts;
  const double cpus = usable_cpus(facts);
  const bool is_narrowed = cpus < facts.cpus_online;
  // The trainer wants one of its own.
  if (!is_narrowed || cpus <= 0 || source.plan.workers + 1 <= cpus) return std::nullopt;
  Finding finding = new_finding(FindingCode::kCpuAffinityNarrowed, Confidence::kCertain);
  finding.message = fmt::format("{} and their trainer share {:.3g} of {} CPUs",
                                counted(static_cast<uint64_t>(source.plan.workers), "worker"), cpus,
                                facts.cpus_online);
  finding.evidence = {
      count_fact("cpus_usable", facts.cpus_usable, "sched_getaffinity"),
      count_fact("cpus_online", facts.cpus_online, "/sys/devices/system/cpu/online")};
  if (facts.cpu_quota) {
    finding.evidence.push_back(
        text_fact("cpu_quota", fmt::format("{:.3g}", *facts.cpu_quota), facts.cpu_quota_source));
  }
  add_remedy(finding, "Ask for as many CPUs as there are workers, and one more",
             {fmt::format("srun --cpus-per-task={} ...", source.plan.workers + 1)}, {"slurm"});
  add_remedy(finding, "Give the container more CPUs",
             {fmt::format("docker run --cpus={} ...", source.plan.workers + 1)},
             {"docker", "podman"});
  add_remedy(finding, "Use fewer workers: dlprobe tune tells how many pay", {"dlprobe tune"},
             {"bare-host", "code"});
  return finding;
}

std::optional<Finding> memory_too_low(const GateSource& source) {
  const GateFacts& facts = source.facts;
  const uint64_t needed = forecast_shm(source.plan, source.recording.header.host.page_size).bytes;
  std::optional<uint64_t> left;
  std::string what = "the machine has";
  std::string from = "MemAvailable of /proc/meminfo";
  if (facts.memory) left = facts.memory->available_bytes;
  if (facts.cgroup && facts.cgroup->limit_bytes) {
    const uint64_t used = facts.cgroup->used_bytes -
                          std::min(facts.cgroup->used_bytes, facts.cgroup->file_bytes.value_or(0));
    const uint64_t room = *facts.cgroup->limit_bytes - std::min(*facts.cgroup->limit_bytes, used);
    if (!left || room < *left) {
      left = room;
      what = "cgroup " + facts.cgroup->path + " leaves";
      from = "memory limit and use of cgroup " + facts.cgroup->path;
    }
  }
  if (!left || needed <= *left) return std::nullopt;
  Finding finding = new_finding(FindingCode::kMemoryLimitTooLow, Confidence::kCertain);
  finding.severity = Severity::kError;
  finding.discriminator = "before";
  finding.message = fmt::format("{} {} of memory, and the batches of this loader alone take {}",
                                what, format_bytes(*left), format_bytes(needed));
  finding.evidence = {
      bytes_fact("left", *left, from, facts.at),
      held_against(bytes_fact("batches", needed, "forecast of the loader's shared memory"),
                   "> left")};
  add_remedy(finding, "Give the job more memory",
             {"srun --mem=<size> ...", "docker run --memory=<size> ..."}, {"slurm", "docker"});
  add_remedy(finding,
             "Let the loader hold less: fewer workers, a smaller batch or prefetch_factor=1",
             {"DataLoader(..., num_workers=2, prefetch_factor=1)"}, {"code"});
  return finding;
}

std::optional<Finding> data_unreadable(const GateSource& source) {
  const auto& data = source.facts.data;
  if (!data || data->trouble.empty()) return std::nullopt;
  Finding finding = new_finding(FindingCode::kDataNotReadable, Confidence::kCertain);
  finding.message = "the data folder cannot be read: " + data->trouble;
  finding.evidence = {text_fact("folder", data->path, "--data"),
                      text_fact("trouble", data->trouble, "opendir, open, read", source.facts.at)};
  add_remedy(finding, "Mount it, or give the user of the job the right to read it",
             {"ls -la " + data->path, "df " + data->path},
             {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

std::optional<Finding> temporary_unusable(const GateSource& source) {
  const FolderFacts& folder = source.facts.temporary;
  const bool is_full = folder.free_bytes && *folder.free_bytes < kLeastFreeInTemporary;
  if (folder.trouble.empty() && !is_full) return std::nullopt;
  Finding finding = new_finding(FindingCode::kTemporaryFolderUnusable, Confidence::kCertain);
  if (folder.trouble.empty()) finding.severity = Severity::kWarning;
  finding.message =
      folder.trouble.empty()
          ? fmt::format("{} has {} free", folder.path, format_bytes(folder.free_bytes.value_or(0)))
          : "the temporary folder cannot be written to: " + folder.trouble;
  finding.evidence = {text_fact("folder", folder.path, "TMPDIR")};
  if (folder.free_bytes)
    finding.evidence.push_back(bytes_fact("free", *folder.free_bytes, "statvfs", source.facts.at));
  if (!folder.trouble.empty())
    finding.evidence.push_back(
        text_fact("trouble", folder.trouble, "open, write", source.facts.at));
  add_remedy(finding, "Make room in it, or point TMPDIR at a folder with room",
             {"df -h " + folder.path, "export TMPDIR=<folder>"},
             {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

std::optional<Finding> clock_wrong(const GateSource& source) {
  const int64_t now = source.recording.header.realtime_ns;
  if (now >= kOldestTime) return std::nullopt;
  Finding finding = new_finding(FindingCode::kClockWrong, Confidence::kCertain);
  finding.message =
      "the clock of this machine stands before 2026: reports of several nodes do not "
      "join, and certificates are refused";
  finding.evidence = {text_fact("realtime_s", std::to_string(now / kSecond), "CLOCK_REALTIME")};
  add_remedy(finding, "Set it", {"timedatectl set-ntp true"}, {"bare-host"});
  return finding;
}

// ---- the named checks

std::optional<Severity> worst_of(const Verdict& verdict, const NamedCheck& check, int run) {
  std::optional<Severity> worst;
  for (const Finding& finding : verdict.findings) {
    const bool is_of_run = run >= 0 && std::ranges::count(finding.runs, run) > 0;
    const bool is_of_code = std::ranges::count(check.codes, finding.code) > 0;
    if ((run < 0 && is_of_code) || is_of_run)
      worst = std::max(worst.value_or(finding.severity), finding.severity);
  }
  return worst;
}

void settle(NamedCheck& check, const Verdict& verdict, int run = -1) {
  const auto worst = worst_of(verdict, check, run);
  if (worst == Severity::kError) {
    check.status = CheckStatus::kFail;
  } else if (worst == Severity::kWarning) {
    check.status = CheckStatus::kWarn;
  }
}

/// Adds the checks one after another; of those that could not be made a gap, too.
class Checks {
 public:
  Checks(const GateSource& source, Verdict& verdict) : source_(source), verdict_(verdict) {}

  void add(std::string id, std::string title, std::vector<FindingCode> codes, std::string text) {
    NamedCheck check{.id = std::move(id),
                     .title = std::move(title),
                     .status = CheckStatus::kPass,
                     .text = std::move(text),
                     .codes = std::move(codes)};
    settle(check, verdict_);
    verdict_.checks.push_back(std::move(check));
  }

  void add_incomplete(std::string id, std::string title, std::vector<FindingCode> codes,
                      const std::string& why, const std::string& remedy = "") {
    NamedCheck check{.id = std::move(id),
                     .title = std::move(title),
                     .status = CheckStatus::kIncomplete,
                     .text = why,
                     .codes = std::move(codes)};
    settle(check, verdict_);
    if (check.status == CheckStatus::kIncomplete) {
      verdict_.gaps.push_back({.what = check.title,
                               .why = why,
                               .effect = "whether it is so cannot be said",
                               .remedy = remedy});
    }
    verdict_.checks.push_back(std::move(check));
  }

  void add_skipped(std::string id, std::string title, std::string why) {
    verdict_.checks.push_back({.id = std::move(id),
                               .title = std::move(title),
                               .status = CheckStatus::kSkipped,
                               .text = std::move(why),
                               .codes = {}});
  }

  void add_loader(size_t index, const Run& run);

  const GateSource& source() const { return source_; }
  Verdict& verdict() { return verdict_; }

 private:
  const GateSource& source_;
  Verdict& verdict_;
};

const ShmUse* last_use(const Run& run) {
  return run.shm_use.empty() ? nullptr : &run.shm_use.back();
}

void check_shm(Checks& checks) {
  using enum FindingCode;
  const GateSource& source = checks.source();
  const std::string title = "/dev/shm can hold what the loader keeps in flight";
  const ShmForecast forecast = forecast_shm(source.plan, source.recording.header.host.page_size);
  const ShmUse* use = last_use(source.run);
  if (use == nullptr) {
    checks.add_incomplete("shm.size", title, {kShmTooSmall, kShmHeldByAnotherJob},
                          "/dev/shm could not be looked at", "mount a tmpfs at /dev/shm");
  } else {
    const uint64_t free = use->size_bytes - std::min(use->size_bytes, use->used_bytes);
    const std::string size = use->size_bytes == 0 ? "no limit" : format_bytes(use->size_bytes);
    checks.add("shm.size", title, {kShmTooSmall, kShmHeldByAnotherJob, kShmExhausted},
               fmt::format("{}, {} free; this loader needs {}: {}", size, format_bytes(free),
                           format_bytes(forecast.bytes), forecast.formula));
  }
  if (source.run.ledgers.empty()) {
    checks.add_incomplete("shm.left-overs", "Nothing of dead jobs is left in /dev/shm",
                          {kShmStaleFiles, kLeakedSemaphores}, "/dev/shm could not be listed");
  } else {
    const ShmLedger& ledger = source.run.ledgers.back();
    checks.add("shm.left-overs", "Nothing of dead jobs is left in /dev/shm",
               {kShmStaleFiles, kLeakedSemaphores},
               fmt::format("{} with {} looked at{}",
                           counted(ledger.segments.size() + ledger.omitted_segments, "file"),
                           format_bytes(ledger.used_bytes),
                           ledger.processes_unreadable == 0
                               ? ""
                               : fmt::format("; {} could not be, and may use them",
                                             counted(ledger.processes_unreadable, "process"))));
  }
}

std::string or_unlimited(const std::optional<uint64_t>& value) {
  return value ? std::to_string(*value) : "unlimited";
}

void check_limits(Checks& checks) {
  using enum FindingCode;
  const GateSource& source = checks.source();
  const FdForecast forecast = forecast_descriptors(source.plan, kTensorsPerBatch);
  const std::string files = "A process may have enough files open";
  if (const auto& limit = source.run.begin.open_files_limit) {
    checks.add("limits.open-files", files, {kFdLimitTooLow},
               fmt::format("{} may be open; this loader opens up to {}", or_unlimited(limit->soft),
                           forecast.most));
  } else {
    checks.add_incomplete("limits.open-files", files, {kFdLimitTooLow}, "the limit was not read");
  }
  const std::string tasks = "There is room for the loader's processes and threads";
  const std::vector<TaskLimit> limits = task_limits(source.facts);
  if (limits.empty()) {
    checks.add_incomplete("limits.processes", tasks, {kProcessLimitReached},
                          "no limit of processes could be read", "mount /proc");
  } else {
    checks.add("limits.processes", tasks, {kProcessLimitReached},
               fmt::format("room for {} more; this loader needs up to {}", limits.front().left(),
                           tasks_needed(source.plan)));
  }
  const auto& maps = source.recording.header.host.max_map_count;
  if (maps) {
    checks.add("limits.memory-maps", "A process may have enough memory mappings",
               {kMemoryMapLimitReached}, fmt::format("{} (vm.max_map_count)", *maps));
  } else {
    checks.add_incomplete("limits.memory-maps", "A process may have enough memory mappings",
                          {kMemoryMapLimitReached}, "vm.max_map_count could not be read");
  }
  const std::string all_files = "The machine may open more files";
  if (source.facts.files_open && source.facts.most_files) {
    checks.add(
        "limits.files-of-machine", all_files, {kFdLimitTooLow},
        fmt::format("{} of {} are open", *source.facts.files_open, *source.facts.most_files));
  } else {
    checks.add_skipped("limits.files-of-machine", all_files, "/proc/sys/fs/file-nr is not there");
  }
}

void check_memory_and_cpus(Checks& checks) {
  using enum FindingCode;
  const GateFacts& facts = checks.source().facts;
  const std::string memory = "There is memory for the batches";
  if (facts.memory) {
    std::string text = fmt::format(
        "{} of {} available, {} of swap", format_bytes(facts.memory->available_bytes),
        format_bytes(facts.memory->total_bytes), format_bytes(facts.memory->swap_total_bytes));
    const auto limit = facts.cgroup ? facts.cgroup->limit_bytes : std::nullopt;
    if (limit) {
      text += fmt::format("; the cgroup may have {} and has {}", format_bytes(*limit),
                          format_bytes(facts.cgroup->used_bytes));
    }
    checks.add("memory.room", memory, {kMemoryLimitTooLow}, text);
  } else {
    checks.add_incomplete("memory.room", memory, {kMemoryLimitTooLow},
                          to_string(facts.memory.error()), "mount /proc");
  }
  const std::string cpus = "Each worker has a CPU";
  if (facts.cpus_usable > 0) {
    std::string text =
        fmt::format("{} of {} CPUs may be used", facts.cpus_usable, facts.cpus_online);
    if (facts.cpu_quota) text += fmt::format(", for {:.3g} CPUs' worth of time", *facts.cpu_quota);
    checks.add("cpu.usable", cpus, {kCpuAffinityNarrowed}, text);
  } else {
    checks.add_incomplete("cpu.usable", cpus, {kCpuAffinityNarrowed}, "sched_getaffinity failed");
  }
  std::string settings;
  for (const ThreadSetting& setting : facts.thread_settings)
    settings += (settings.empty() ? "" : ", ") + setting.name + "=" + setting.value;
  checks.add("cpu.threads", "Workers do not fight for the CPUs with threads of their own",
             {kThreadOversubscription},
             settings.empty() ? "no variable sets how many threads libraries start" : settings);
}

std::string ability_text(const GateFacts& facts) {
  if (facts.may_trace_all) return "of every process (CAP_SYS_PTRACE)";
  if (!facts.ptrace_scope) return "not known: " + to_string(facts.ptrace_scope.error());
  switch (*facts.ptrace_scope) {
    case 0:
      return "of processes of the same user (ptrace_scope 0)";
    case 1:
      return "of commands that dlprobe starts itself (ptrace_scope 1): of others with "
             "CAP_SYS_PTRACE";
    default:
      return fmt::format(
          "of none (ptrace_scope {}): with CAP_SYS_PTRACE{}", *facts.ptrace_scope,
          *facts.ptrace_scope == 2 ? "" : ", and after a restart with another scope");
  }
}

void check_surroundings(Checks& checks) {
  using enum FindingCode;
  const GateFacts& facts = checks.source().facts;
  checks.add("host.temporary-folder", "The temporary folder can be written to",
             {kTemporaryFolderUnusable},
             facts.temporary.free_bytes ? fmt::format("{}: {} free", facts.temporary.path,
                                                      format_bytes(*facts.temporary.free_bytes))
                                        : facts.temporary.path);
  if (facts.data) {
    checks.add("host.data-folder", "The data can be read", {kDataNotReadable},
               facts.data->entries
                   ? fmt::format("{}: {}{}", facts.data->path, *facts.data->entries,
                                 *facts.data->entries >= 1000 ? " entries or more" : " entries")
                   : facts.data->path);
  } else {
    checks.add_skipped("host.data-folder", "The data can be read", "no --data was named");
  }
  checks.add("host.clock", "The clock is set", {kClockWrong}, "CLOCK_REALTIME");
  checks.add("host.stacks", "Stacks of a hung job could be read here", {}, ability_text(facts));
}

void Checks::add_loader(size_t index, const Run& run) {
  if (!run.begin.plan) return;
  const LoaderPlan& plan = *run.begin.plan;
  NamedCheck check{
      .id = fmt::format("loader.{}.{}", to_string(plan.start_method),
                        to_string(plan.sharing_strategy)),
      .title = fmt::format("The reference loader runs under {} and {}",
                           to_string(plan.start_method), to_string(plan.sharing_strategy)),
      .status = CheckStatus::kPass,
      .text = {},
      .codes = {}};
  if (run.done) {
    check.text = fmt::format(
        "{:.0f} images/s, the first batch after {:.2g} s",
        run.done->seconds > 0 ? static_cast<double>(run.done->images) / run.done->seconds : 0.0,
        run.done->first_batch_s);
    settle(check, verdict_, static_cast<int>(index));
    verdict_.checks.push_back(std::move(check));
    return;
  }
  if (source_.facts.level == "quick") {
    check.status = CheckStatus::kSkipped;
    check.text = "--level quick starts nothing";
    verdict_.checks.push_back(std::move(check));
    return;
  }
  const bool not_started = run.end && run.end->reason == RunEndReason::kNotStarted;
  const bool out_of_time = run.end && run.end->reason == RunEndReason::kTimeUp;
  std::string why = not_started ? run.end->text : "it did not come to its end";
  if (out_of_time) why = "the deadline came before its end";
  check.status = CheckStatus::kIncomplete;
  settle(check, verdict_, static_cast<int>(index));
  check.text = why;
  if (check.status == CheckStatus::kIncomplete) {
    verdict_.gaps.push_back({.what = check.title,
                             .why = why,
                             .effect = "whether a loader works here cannot be said",
                             .remedy = out_of_time ? "--deadline 60s" : ""});
  }
  verdict_.checks.push_back(std::move(check));
}

const Run* run_with_facts(const Recording& recording) {
  const auto found = std::ranges::find_if(
      recording.runs, [](const Run& run) { return run.gate && run.begin.plan; });
  return found == recording.runs.end() ? nullptr : &*found;
}

Verdict examine(const Recording& recording) {
  Verdict verdict = every_probe().examine(recording);
  const Run* run = run_with_facts(recording);
  if (run == nullptr || !run->gate || !run->begin.plan) {
    verdict.gaps.push_back({.what = "the machine",
                            .why = "the recording has nothing of it",
                            .effect = "nothing can be said",
                            .remedy = ""});
    return verdict;
  }
  const GateSource source{
      .recording = recording, .run = *run, .facts = *run->gate, .plan = *run->begin.plan};
  // Nothing ran that a probe could have watched.
  if (source.facts.level == "quick") verdict.gaps.clear();
  // A short run of a loader of our own is no search for leaks.
  verdict.limits.clear();
  std::vector<Verdict> all;
  Verdict own;
  for (const auto rule : {process_limit_reached, cpus_narrowed, memory_too_low, data_unreadable,
                          temporary_unusable, clock_wrong}) {
    if (auto finding = rule(source)) own.findings.push_back(std::move(*finding));
  }
  all.push_back(std::move(verdict));
  all.push_back(std::move(own));
  Verdict merged = merge_verdicts(std::move(all));
  Checks checks(source, merged);
  check_shm(checks);
  check_limits(checks);
  check_memory_and_cpus(checks);
  check_surroundings(checks);
  for (size_t i = 0; i < recording.runs.size(); ++i) {
    checks.add_loader(i, recording.runs[i]);
  }
  return merged;
}

}  // namespace

const Probe& gate_probe() {
  static constexpr Probe kProbe{
      .name = "gate",
      .summary =
          "before a job: every check of the machine, and a short run of the reference loader",
      .examine = examine};
  return kProbe;
}

}  // namespace dlprobe
