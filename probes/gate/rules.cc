#include "probes/gate/rules.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/model/fd_forecast.h"
#include "lib/model/shm_forecast.h"
#include "probes/facts/facts.h"
#include "probes/facts/task_limits.h"
#include "probes/gate/python.h"

namespace dlprobe::probes::gate {
namespace {

// A worker of PyTorch: its main thread, the feeder of its queue, and what its libraries start; the
// trainer has a few beside, and there are a resource tracker and, with file_system, managers.
constexpr uint64_t kTasksOfWorker = 4;
constexpr uint64_t kTasksBeside = 16;
constexpr uint64_t kLeastFreeInTemporary = uint64_t{16} << 20U;
// Of a build of 2026 no clock of a machine that is set can be older.
constexpr int64_t kOldestTime = 1'767'225'600LL * kSecond;  // 2026-01-01

// A loader that was started and did not come to its end, though there was time.
bool broke_off(const Run& run) {
  return !run.done && run.end && run.end->reason == RunEndReason::kSubjectEnded;
}

std::optional<Finding> process_limit_reached(const Source& source) {
  const std::vector<TaskLimit> limits = task_limits(tasks_of(source.facts));
  if (limits.empty()) return std::nullopt;
  const TaskLimit& nearest = limits.front();
  const uint64_t needed = tasks_needed(source.plan);
  if (nearest.left() >= needed) return std::nullopt;
  // multiprocessing's queues have a feeder thread at the end that writes
  // (multiprocessing/queues.py): one in each worker, and one of the trainer for each worker. And
  // the trainer.
  const uint64_t least = 3 * static_cast<uint64_t>(source.plan.workers) + 1;
  Finding finding = new_finding(FindingCode::kProcessLimitReached, Confidence::kCertain);
  const bool has_failed = std::ranges::any_of(source.recording.runs, broke_off);
  const bool is_certain = nearest.left() < least;
  finding.severity = is_certain || has_failed ? Severity::kError : Severity::kWarning;
  if (has_failed && !is_certain) finding.confidence = Confidence::kLikely;
  finding.message = say("{} leaves room for {} more; {} need up to {}", nearest.name,
                        counted(nearest.left(), "thread"),
                        counted(static_cast<uint64_t>(source.plan.workers), "worker"), needed);
  if (has_failed) finding.message += "; a run of the loader failed";
  finding.evidence = {
      count_fact("limit", nearest.limit, nearest.source),
      count_fact("taken", nearest.taken, nearest.source),
      held_against(count_fact("needed", needed, "4 threads for each worker, and 16"),
                   "> limit - taken")};
  add_remedy(finding, "Raise the limit", {say("ulimit -u {}", nearest.taken + 2 * needed)},
             {"bare-host"});
  add_remedy(finding, "Give the container more processes",
             {say("docker run --pids-limit {} ...", nearest.taken + 2 * needed)},
             {"docker", "podman"});
  return finding;
}

// The kernel's own limit, of all processes together (ENFILE).
std::optional<Finding> files_of_machine_low(const Source& source) {
  const GateFacts& facts = source.facts;
  if (!facts.files_open || !facts.most_files) return std::nullopt;
  const uint64_t left = *facts.most_files - std::min(*facts.most_files, *facts.files_open);
  const uint64_t needed = forecast_descriptors(source.plan, kTensorsPerBatch).most *
                          (static_cast<uint64_t>(source.plan.workers) + 1);
  if (needed <= left) return std::nullopt;
  Finding finding = new_finding(FindingCode::kFdLimitTooLow, Confidence::kCertain);
  finding.discriminator = "machine";
  finding.message =
      say("the machine can open {} more files (fs.file-max); this loader opens up to {}",
          counted(left, "file"), needed);
  finding.evidence = {
      count_fact("open", *facts.files_open, "/proc/sys/fs/file-nr", facts.at),
      count_fact("limit", *facts.most_files, "/proc/sys/fs/file-nr", facts.at),
      held_against(count_fact("needed", needed, "forecast of each process, times processes"),
                   "> limit - open")};
  add_remedy(finding, "Raise the machine's limit",
             {say("sudo sysctl -w fs.file-max={}", *facts.files_open + 2 * needed)}, {"bare-host"});
  return finding;
}

double usable_cpus(const GateFacts& facts) {
  double cpus = facts.cpus_usable;
  if (facts.cpu_quota) cpus = std::min(cpus, *facts.cpu_quota);
  return cpus;
}

OwnWords cpus_text(double cpus) {
  return own(fmt::format("{:.3g}", cpus));
}

std::optional<Finding> cpus_narrowed(const Source& source) {
  const GateFacts& facts = source.facts;
  const double cpus = usable_cpus(facts);
  const bool is_narrowed = cpus < facts.cpus_online;
  // The trainer wants one of its own.
  if (!is_narrowed || cpus <= 0 || source.plan.workers + 1 <= cpus) return std::nullopt;
  Finding finding = new_finding(FindingCode::kCpuAffinityNarrowed, Confidence::kCertain);
  finding.message = say("{} and their trainer share {} of {} CPUs",
                        counted(static_cast<uint64_t>(source.plan.workers), "worker"),
                        cpus_text(cpus), facts.cpus_online);
  finding.evidence = {
      count_fact("cpus_usable", facts.cpus_usable, "sched_getaffinity"),
      count_fact("cpus_online", facts.cpus_online, "/sys/devices/system/cpu/online")};
  if (facts.cpu_quota) {
    finding.prove(
        text_fact("cpu_quota", cpus_text(*facts.cpu_quota), as_path(facts.cpu_quota_source)));
  }
  add_remedy(finding, "Ask for one CPU per worker, and one more",
             {say("srun --cpus-per-task={} ...", source.plan.workers + 1)}, {"slurm"});
  add_remedy(finding, "Give the container more CPUs",
             {say("docker run --cpus={} ...", source.plan.workers + 1)}, {"docker", "podman"});
  add_remedy(finding, "Use fewer workers: dlprobe tune finds how many are worth it",
             {"dlprobe tune"}, {"bare-host", "code"});
  return finding;
}

std::optional<Finding> memory_too_low(const Source& source) {
  const GateFacts& facts = source.facts;
  const uint64_t needed = forecast_shm(source.plan, source.recording.header.host.page_size).bytes;
  std::optional<uint64_t> left;
  Message what = "the machine has";
  Message from = "MemAvailable of /proc/meminfo";
  if (facts.memory) left = facts.memory->available_bytes;
  if (facts.cgroup && facts.cgroup->limit_bytes) {
    const uint64_t used = facts.cgroup->used_bytes -
                          std::min(facts.cgroup->used_bytes, facts.cgroup->file_bytes.value_or(0));
    const uint64_t room = *facts.cgroup->limit_bytes - std::min(*facts.cgroup->limit_bytes, used);
    if (!left || room < *left) {
      left = room;
      what = "cgroup " + as_path(facts.cgroup->path) + " leaves";
      from = "memory limit and use of cgroup " + as_path(facts.cgroup->path);
    }
  }
  if (!left || needed <= *left) return std::nullopt;
  Finding finding = new_finding(FindingCode::kMemoryLimitTooLow, Confidence::kCertain);
  finding.severity = Severity::kError;
  finding.discriminator = "before";
  finding.message = say("{} {} of memory; the batches of this loader alone take {}", what,
                        format_bytes(*left), format_bytes(needed));
  finding.evidence = {
      bytes_fact("left", *left, from, facts.at),
      held_against(bytes_fact("batches", needed, "forecast of the loader's shared memory"),
                   "> left")};
  add_remedy(finding, "Give the job more memory",
             {"srun --mem=<size> ...", "docker run --memory=<size> ..."}, {"slurm", "docker"});
  add_remedy(finding, "Use less memory: fewer workers, a smaller batch, or prefetch_factor=1",
             {"DataLoader(..., num_workers=2, prefetch_factor=1)"}, {"code"});
  return finding;
}

std::optional<Finding> data_unreadable(const Source& source) {
  const auto& data = source.facts.data;
  if (!data || data->trouble.empty()) return std::nullopt;
  Finding finding = new_finding(FindingCode::kDataNotReadable, Confidence::kCertain);
  finding.message = "the data folder cannot be read: " + as_text(data->trouble);
  finding.evidence = {
      text_fact("folder", as_path(data->path), "--data"),
      text_fact("trouble", as_text(data->trouble), "opendir, open, read", source.facts.at)};
  add_remedy(finding, "Mount it, or let the job's user read it",
             {"ls -la " + as_path(data->path), "df " + as_path(data->path)},
             {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

std::optional<Finding> shm_not_writable(const Source& source) {
  const FolderFacts& folder = source.facts.shared_memory;
  if (folder.trouble.empty()) return std::nullopt;
  Finding finding = new_finding(FindingCode::kShmNotWritable, Confidence::kCertain);
  finding.message =
      "no file can be created in " + as_path(folder.path) + ": " + as_text(folder.trouble);
  finding.evidence = {
      text_fact("trouble", as_text(folder.trouble), "open, write", source.facts.at)};
  add_remedy(finding, "Mount a tmpfs there that this user can write to",
             {"mount -t tmpfs -o rw,mode=1777 tmpfs /dev/shm"}, {"bare-host", "slurm"});
  add_remedy(finding, "Give the container its own shared memory",
             {"docker run --shm-size=<size> ..."}, {"docker", "kubernetes"});
  return finding;
}

// What the loader that tried to decode them told.
struct ImagesTried {
  uint64_t broken = 0;
  uint64_t all = 0;
  bool none_came = false;  ///< a run ended for want of an image that can be decoded
  const Event* first = nullptr;
};

ImagesTried images_tried(const RecordingView& recording) {
  ImagesTried tried;
  for (const Run& run : recording.runs) {
    const auto told = std::ranges::find(run.events, kLoaderBrokenImage, &Event::kind);
    if (told == run.events.end()) continue;
    if (tried.first == nullptr) tried.first = &*told;
    if (!run.done && run.batches.empty()) tried.none_came = true;
    if (!run.done) continue;
    tried.broken += run.done->broken_images;
    tried.all += run.done->images;
  }
  return tried;
}

std::optional<Finding> images_undecodable(const Source& source) {
  const ImagesTried tried = images_tried(source.recording);
  if (tried.first == nullptr) return std::nullopt;
  Finding finding = new_finding(FindingCode::kDataNotReadable, Confidence::kCertain);
  finding.discriminator = "images";
  if (!tried.none_came) finding.severity = Severity::kWarning;
  finding.message =
      tried.none_came ? "none of the images tried can be decoded, for example " + tried.first->text
                      : say("{} of {} could not be decoded, for example {}", tried.broken,
                            counted(tried.all, "image"), tried.first->text);
  finding.evidence = {
      text_fact("folder", as_path(source.plan.data_dir), "--data"),
      text_fact("example", tried.first->text, "OpenCV's imdecode", tried.first->at)};
  add_remedy(finding, "Copy the files again, or leave them out",
             {"file " + as_path(source.plan.data_dir) + "/* | grep -v 'image data'"},
             {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

// A folder of a disk, or of an overlay, where the tmpfs was not mounted.
std::optional<Finding> shm_not_tmpfs(const Source& source) {
  const auto is_of_use = [&](const ShmMount& mount) {
    return !source.run.shm_use.empty() && mount.device == source.run.shm_use.back().device;
  };
  const auto mount = std::ranges::find_if(source.run.mounts, is_of_use);
  if (mount == source.run.mounts.end() || mount->fs_type.empty() || mount->fs_type == "tmpfs")
    return std::nullopt;
  Finding finding = new_finding(FindingCode::kShmNotTmpfs, Confidence::kCertain);
  finding.message = say("{} is on {}, not on a tmpfs: batches go to a disk",
                        as_path(mount->mount_point), as_name(mount->fs_type));
  finding.evidence = {held_against(
      text_fact("type", as_name(mount->fs_type), "/proc/self/mountinfo"), "not tmpfs")};
  add_remedy(finding, "Mount a tmpfs there", {"mount -t tmpfs -o mode=1777 tmpfs /dev/shm"},
             {"bare-host", "slurm"});
  add_remedy(finding, "Give the container its own shared memory",
             {"docker run --shm-size=<size> ..."}, {"docker", "kubernetes"});
  return finding;
}

std::optional<Finding> temporary_unusable(const Source& source) {
  const FolderFacts& folder = source.facts.temporary;
  const bool is_full = folder.free_bytes && *folder.free_bytes < kLeastFreeInTemporary;
  if (folder.trouble.empty() && !is_full) return std::nullopt;
  Finding finding = new_finding(FindingCode::kTemporaryFolderUnusable, Confidence::kCertain);
  if (folder.trouble.empty()) finding.severity = Severity::kWarning;
  finding.message =
      folder.trouble.empty()
          ? say("{} has {} free", as_path(folder.path), format_bytes(folder.free_bytes.value_or(0)))
          : "the temporary folder cannot be written to: " + as_text(folder.trouble);
  finding.evidence = {text_fact("folder", as_path(folder.path), "TMPDIR")};
  if (folder.free_bytes)
    finding.prove(bytes_fact("free", *folder.free_bytes, "statvfs", source.facts.at));
  if (!folder.trouble.empty())
    finding.prove(text_fact("trouble", as_text(folder.trouble), "open, write", source.facts.at));
  add_remedy(finding, "Free space there, or set TMPDIR to a folder with free space",
             {"df -h " + as_path(folder.path), "export TMPDIR=<folder>"},
             {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

std::optional<Finding> clock_wrong(const Source& source) {
  const int64_t now = source.recording.header.realtime_ns;
  if (now >= kOldestTime) return std::nullopt;
  Finding finding = new_finding(FindingCode::kClockWrong, Confidence::kCertain);
  finding.message =
      "the clock of this machine is before 2026: certificates fail, and reports of several nodes "
      "do not match";
  finding.evidence = {text_fact("realtime_s", own(now / kSecond), "CLOCK_REALTIME")};
  add_remedy(finding, "Set it", {"timedatectl set-ntp true"}, {"bare-host"});
  return finding;
}

// How many threads the variable sets; nothing where it says something else.
std::optional<uint64_t> threads_of(const ThreadSetting& setting) {
  return parse_int<uint64_t>(std::string_view(setting.value).substr(0, setting.value.find(',')));
}

std::optional<Finding> too_many_threads(const Source& source) {
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
    finding.prove(held_against(
        count_fact(NumberName::made_of(setting.name), *threads, "dlprobe's environment"),
        "> cpus"));
  }
  if (!finding.evidence.empty()) {
    finding.message = say("{}: each process starts more threads than it has CPUs ({})",
                          own(finding.discriminator.substr(0, finding.discriminator.size() - 1)),
                          cpus_text(cpus));
  } else if (!is_set && facts.cpu_quota && cpus * kFewerByFar <= facts.cpus_usable) {
    finding.discriminator = "quota";
    finding.evidence = {
        held_against(count_fact("threads", facts.cpus_usable, "sched_getaffinity"), "> 4 x cpus")};
    finding.message = say(
        "libraries start a thread for each of {} CPUs, but the quota allows {} CPUs' worth of time",
        facts.cpus_usable, cpus_text(cpus));
  } else {
    return std::nullopt;
  }
  finding.prove(text_fact("cpus", cpus_text(cpus),
                          facts.cpu_quota ? as_path(facts.cpu_quota_source) : "sched_getaffinity"));
  const auto fitting = std::max<uint64_t>(1, static_cast<uint64_t>(cpus));
  add_remedy(finding, "Let libraries start only as many threads as there are CPUs",
             {say("export OMP_NUM_THREADS={} MKL_NUM_THREADS={} OPENBLAS_NUM_THREADS={}", fitting,
                  fitting, fitting)},
             {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

}  // namespace

TaskFacts tasks_of(const GateFacts& facts) {
  TaskFacts tasks;
  tasks.processes = facts.processes;
  tasks.tasks_of_user = facts.tasks_of_user;
  if (facts.cgroup_tasks_limit && facts.cgroup_tasks)
    tasks.groups = {{.limit = facts.cgroup_tasks_limit, .taken = *facts.cgroup_tasks}};
  tasks.tasks = facts.tasks;
  tasks.most_tasks = facts.most_tasks;
  return tasks;
}

uint64_t tasks_needed(const LoaderPlan& plan) {
  return static_cast<uint64_t>(plan.workers) * kTasksOfWorker + kTasksBeside;
}

std::vector<Finding> find_all(const Source& source) {
  std::vector<Finding> findings;
  for (const auto rule : {process_limit_reached, files_of_machine_low, cpus_narrowed,
                          memory_too_low, shm_not_writable, shm_not_tmpfs, data_unreadable,
                          images_undecodable, temporary_unusable, clock_wrong, too_many_threads}) {
    if (auto finding = rule(source)) findings.push_back(std::move(*finding));
  }
  add_python_findings(source, findings);
  return findings;
}

}  // namespace dlprobe::probes::gate
