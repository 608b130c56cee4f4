#include "probes/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/model/fd_forecast.h"
#include "lib/model/shm_forecast.h"
#include "probes/every_probe.h"
#include "probes/facts.h"
#include "probes/gate_checks.h"
#include "probes/gate_python.h"

namespace dlprobe {
namespace {

// A worker of PyTorch: its main thread, the feeder of its queue, and what its libraries start; the
// trainer has a few beside, and there are a resource tracker and, with file_system, managers.
constexpr uint64_t kTasksOfWorker = 4;
constexpr uint64_t kTasksBeside = 16;
constexpr uint64_t kLeastFreeInTemporary = uint64_t{16} << 20U;
// Of a build of 2026 no clock of a machine that is set can be older.
constexpr int64_t kOldestTime = 1'767'225'600LL * kSecond;  // 2026-01-01

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
  add_gate_remedy(finding, "Raise the limit",
                  {fmt::format("ulimit -u {}", nearest.taken + 2 * needed)}, {"bare-host"});
  add_gate_remedy(finding, "Give the container more processes",
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
  add_gate_remedy(finding, "Ask for as many CPUs as there are workers, and one more",
                  {fmt::format("srun --cpus-per-task={} ...", source.plan.workers + 1)}, {"slurm"});
  add_gate_remedy(finding, "Give the container more CPUs",
                  {fmt::format("docker run --cpus={} ...", source.plan.workers + 1)},
                  {"docker", "podman"});
  add_gate_remedy(finding, "Use fewer workers: dlprobe tune tells how many pay", {"dlprobe tune"},
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
  add_gate_remedy(finding, "Give the job more memory",
                  {"srun --mem=<size> ...", "docker run --memory=<size> ..."}, {"slurm", "docker"});
  add_gate_remedy(finding,
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
  add_gate_remedy(finding, "Mount it, or give the user of the job the right to read it",
                  {"ls -la " + data->path, "df " + data->path},
                  {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

std::optional<Finding> shm_not_writable(const GateSource& source) {
  const FolderFacts& folder = source.facts.shared_memory;
  if (folder.trouble.empty()) return std::nullopt;
  Finding finding = new_finding(FindingCode::kShmNotWritable, Confidence::kCertain);
  finding.message = "no segment can be made in " + folder.path + ": " + folder.trouble;
  finding.evidence = {text_fact("trouble", folder.trouble, "open, write", source.facts.at)};
  add_gate_remedy(finding, "Mount a tmpfs there that this user may write to, and that has room",
                  {"mount -t tmpfs -o rw,mode=1777 tmpfs /dev/shm"}, {"bare-host", "slurm"});
  add_gate_remedy(finding, "Give the container shared memory of its own",
                  {"docker run --shm-size=<size> ..."}, {"docker", "kubernetes"});
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
  add_gate_remedy(finding, "Make room in it, or point TMPDIR at a folder with room",
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
  add_gate_remedy(finding, "Set it", {"timedatectl set-ntp true"}, {"bare-host"});
  return finding;
}

// How many threads the variable sets; nothing where it says something else.
std::optional<uint64_t> threads_of(const ThreadSetting& setting) {
  return parse_int<uint64_t>(std::string_view(setting.value).substr(0, setting.value.find(',')));
}

std::optional<Finding> too_many_threads(const GateSource& source) {
  // PyTorch's workers set their OpenMP to one thread themselves: of a process alone, then.
  constexpr double kFewerByFar = 4;
  const GateFacts& facts = source.facts;
  const double cpus = usable_cpus(facts);
  if (cpus <= 0) return std::nullopt;
  Finding finding = new_finding(FindingCode::kThreadOversubscription, Confidence::kLikely);
  bool is_set = false;
  for (const ThreadSetting& setting : facts.thread_settings) {
    const auto threads = threads_of(setting);
    is_set = is_set || (setting.name == "OMP_NUM_THREADS" && threads);
    if (!threads || setting.name == "OMP_THREAD_LIMIT" || static_cast<double>(*threads) <= cpus)
      continue;
    finding.discriminator += setting.name + " ";
    finding.evidence.push_back(
        held_against(count_fact(setting.name, *threads, "dlprobe's environment"), "> cpus"));
  }
  if (!finding.evidence.empty()) {
    finding.message =
        fmt::format("{}: each process starts more threads than the {:.3g} CPUs it has",
                    finding.discriminator.substr(0, finding.discriminator.size() - 1), cpus);
  } else if (!is_set && facts.cpu_quota && cpus * kFewerByFar <= facts.cpus_usable) {
    finding.discriminator = "quota";
    finding.evidence = {
        held_against(count_fact("threads", facts.cpus_usable, "sched_getaffinity"), "> 4 x cpus")};
    finding.message = fmt::format(
        "libraries start a thread for each of {} CPUs, and the quota is {:.3g} CPUs' worth of time",
        facts.cpus_usable, cpus);
  } else {
    return std::nullopt;
  }
  finding.evidence.push_back(
      text_fact("cpus", fmt::format("{:.3g}", cpus),
                facts.cpu_quota ? facts.cpu_quota_source : "sched_getaffinity"));
  const auto fitting = std::max<uint64_t>(1, static_cast<uint64_t>(cpus));
  add_gate_remedy(finding, "Let libraries start as many threads as there are CPUs",
                  {fmt::format("export OMP_NUM_THREADS={0} MKL_NUM_THREADS={0} "
                               "OPENBLAS_NUM_THREADS={0}",
                               fitting)},
                  {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

// ---- the named checks

const ShmUse* last_use(const Run& run) {
  return run.shm_use.empty() ? nullptr : &run.shm_use.back();
}

void check_left_overs(Checks& checks, const ShmLedger& ledger) {
  using enum FindingCode;
  const std::string title = "Nothing of dead jobs is left in /dev/shm";
  const uint64_t files = ledger.segments.size() + ledger.omitted_segments;
  const std::string seen =
      fmt::format("{} with {} looked at", counted(files, "file"), format_bytes(ledger.used_bytes));
  if (files == 0 || ledger.processes_unreadable == 0) {
    checks.add("shm.left-overs", title, {kShmStaleFiles, kLeakedSemaphores}, seen);
  } else {
    checks.add_undecided("shm.left-overs", title, {kShmStaleFiles, kLeakedSemaphores},
                         fmt::format("{}; {} could not be, and may use them", seen,
                                     counted(ledger.processes_unreadable, "process")));
  }
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
  const FolderFacts& folder = source.facts.shared_memory;
  const std::string writable = "A segment can be made in /dev/shm";
  if (folder.not_known.empty()) {
    checks.add("shm.writable", writable, {kShmNotWritable}, "one of 4 KiB was made, and removed");
  } else {
    checks.add_incomplete("shm.writable", writable, {kShmNotWritable}, folder.not_known,
                          "a longer --deadline");
  }
  if (source.run.ledgers.empty()) {
    checks.add_incomplete("shm.left-overs", "Nothing of dead jobs is left in /dev/shm",
                          {kShmStaleFiles, kLeakedSemaphores}, "/dev/shm could not be listed");
  } else {
    check_left_overs(checks, source.run.ledgers.back());
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
    if (facts.cgroup && limit) {
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

void check_stacks(Checks& checks) {
  const GateFacts& facts = checks.source().facts;
  const std::string title = "Stacks of a hung job could be read here";
  const auto can = [&](std::string text) { checks.add("host.stacks", title, {}, std::move(text)); };
  const auto cannot = [&](std::string why) {
    checks.add_skipped("host.stacks", title, std::move(why));
  };
  if (facts.may_trace_all) return can("of every process (CAP_SYS_PTRACE)");
  if (!facts.ptrace_scope) return cannot("not known: " + to_string(facts.ptrace_scope.error()));
  const int32_t scope = *facts.ptrace_scope;
  if (scope == 0) return can("of processes of the same user (ptrace_scope 0)");
  if (scope == 1) {
    return can(
        "of commands that dlprobe starts itself (ptrace_scope 1): of others with "
        "CAP_SYS_PTRACE");
  }
  cannot(fmt::format("of none (ptrace_scope {}): with CAP_SYS_PTRACE{}", scope,
                     scope == 2 ? "" : ", and after a restart with another scope"));
}

void check_surroundings(Checks& checks) {
  using enum FindingCode;
  const GateFacts& facts = checks.source().facts;
  const std::string temporary = "The temporary folder can be written to";
  if (!facts.temporary.not_known.empty()) {
    checks.add_incomplete("host.temporary-folder", temporary, {kTemporaryFolderUnusable},
                          facts.temporary.not_known, "a longer --deadline");
  } else {
    checks.add("host.temporary-folder", temporary, {kTemporaryFolderUnusable},
               facts.temporary.free_bytes ? fmt::format("{}: {} free", facts.temporary.path,
                                                        format_bytes(*facts.temporary.free_bytes))
                                          : facts.temporary.path);
  }
  if (facts.data && !facts.data->not_known.empty()) {
    checks.add_incomplete("host.data-folder", "The data can be read", {kDataNotReadable},
                          facts.data->not_known, "a longer --deadline");
  } else if (facts.data) {
    checks.add("host.data-folder", "The data can be read", {kDataNotReadable},
               facts.data->entries
                   ? fmt::format("{}: {}{}", facts.data->path, *facts.data->entries,
                                 *facts.data->entries >= 1000 ? " entries or more" : " entries")
                   : facts.data->path);
  } else {
    checks.add_skipped("host.data-folder", "The data can be read", "no --data was named");
  }
  checks.add("host.clock", "The clock is set", {kClockWrong}, "CLOCK_REALTIME");
  check_stacks(checks);
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
  for (const auto rule : {process_limit_reached, cpus_narrowed, memory_too_low, shm_not_writable,
                          data_unreadable, temporary_unusable, clock_wrong, too_many_threads}) {
    if (auto finding = rule(source)) own.findings.push_back(std::move(*finding));
  }
  add_python_findings(source, own.findings);
  all.push_back(std::move(verdict));
  all.push_back(std::move(own));
  Verdict merged = merge_verdicts(std::move(all));
  Checks checks(source, merged);
  check_shm(checks);
  check_limits(checks);
  check_memory_and_cpus(checks);
  check_surroundings(checks);
  check_python(checks);
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
