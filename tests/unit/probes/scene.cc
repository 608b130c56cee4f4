#include "tests/unit/probes/scene.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace dlprobe {
namespace {

constexpr int64_t kPollCall = 7;
constexpr BootNs kBootTime = 1'000'000'000;
constexpr int64_t kRealTime = 1'700'000'000'000'000'000;

Sample& add_sample(Run& run, BootNs at) {
  Sample sample;
  sample.at = at;
  run.samples.push_back(std::move(sample));
  return run.samples.back();
}

}  // namespace

Scene::Scene(uint64_t size_bytes, int workers) : size_bytes_(size_bytes), workers_(workers) {
  recording.header.realtime_ns = kRealTime;
  recording.header.boottime_ns = kBootTime;
  recording.header.host.machine = "x86_64";
  next_run();
}

void Scene::next_run() {
  recording.runs.emplace_back();
  run().begin.subject = SubjectKind::kCommand;
  run().begin.at = at(0);
  process(kTrainerPid, Role::kTrainer);
  for (int worker = 1; worker <= workers_; ++worker)
    process(kTrainerPid + worker, Role::kWorker);
  run().mounts.push_back({.device = kDevice,
                          .mount_namespace = 1,
                          .seen_through = key_of(kTrainerPid),
                          .mount_point = "/dev/shm",
                          .fs_type = "tmpfs",
                          .options = "rw,size=65536k"});
}

void Scene::plan(LoaderPlan plan, bool preflight) {
  run().begin.plan = std::move(plan);
  run().begin.preflight = preflight;
  if (!preflight) return;
  run().processes.clear();
  run().mounts.front().seen_through = {};
}

void Scene::process(int32_t pid, Role role) {
  ProcessInfo info;
  info.key = key_of(pid);
  info.role = role;
  info.comm = "python3";
  info.mount_namespace = 1;
  run().processes.push_back(std::move(info));
}

void Scene::use(double at_s, uint64_t used_bytes) {
  run().shm_use.push_back({.at = at(at_s),
                           .device = kDevice,
                           .size_bytes = size_bytes_,
                           .used_bytes = used_bytes,
                           .inodes = 1000,
                           .inodes_used = 10});
}

void Scene::sample(double at_s, uint64_t used_bytes) {
  use(at_s, used_bytes);
  Sample& sample = add_sample(run(), at(at_s));
  sample.shm.emplace_back(run().shm_use.back());
  HostMemory host;
  host.oom_kills = oom_kills;
  sample.host = host;
  for (const ProcessInfo& info : run().processes) {
    const ProcessExit* exit = run().find_exit(info.key);
    if (exit != nullptr && exit->at <= sample.at) continue;
    ProcessSample process;
    process.key = info.key;
    process.state = 'S';
    process.utime_ticks = cpu_ticks;
    const std::optional<ThreadWait>& wait =
        info.role == Role::kTrainer ? trainer_wait : worker_wait;
    if (wait) {
      ThreadWait own = *wait;
      own.tid = info.key.pid;
      if (info.role == Role::kWorker && !own.files.empty()) {
        own.files.front().inode += static_cast<uint64_t>(info.key.pid);
      }
      process.waits = std::vector<ThreadWait>{own};
    }
    sample.processes.push_back(std::move(process));
  }
}

void Scene::exit_by_signal(int32_t pid, double at_s, int signal_number) {
  ProcessExit exit;
  exit.key = key_of(pid);
  exit.at = at(at_s);
  exit.wait_status = signal_number;
  exit.source = "pidfd info";
  run().exits.push_back(std::move(exit));
}

void Scene::exit_with(int32_t pid, double at_s, int exit_code) {
  exit_by_signal(pid, at_s, exit_code << 8);
}

void Scene::ledger(double at_s, std::vector<ShmSegment> segments) {
  ShmLedger ledger;
  ledger.at = at(at_s);
  ledger.device = kDevice;
  ledger.whole_machine = true;
  ledger.processes_scanned = 20;
  for (const ShmSegment& segment : segments) {
    ledger.used_bytes += segment.allocated_bytes.value_or(0);
  }
  ledger.segments = std::move(segments);
  run().ledgers.push_back(std::move(ledger));
}

Verdict Scene::examine() const {
  const Probe& probe = probes::shm::kProbe;
  Verdict verdict = probe.examine(recording);
  std::erase_if(verdict.findings, [&](const Finding& finding) {
    return std::ranges::count(probe.causes, finding.code, &Cause::code) == 0;
  });
  return verdict;
}

ProcessKey key_of(int32_t pid) {
  return {.pid = pid, .start_ticks = 5};
}

ThreadWait poll_wait(uint64_t pipe_inode, int32_t timeout_ms) {
  ThreadWait wait;
  wait.syscall = kPollCall;
  wait.args.at(1) = 1;
  wait.args.at(2) = static_cast<uint64_t>(timeout_ms);
  wait.files = {{.fd = 3, .kind = FileKind::kPipe, .inode = pipe_inode}};
  return wait;
}

ThreadWait other_wait(int64_t syscall) {
  ThreadWait wait;
  wait.syscall = syscall;
  return wait;
}

ShmSegment tensor(int32_t creator, uint64_t inode, uint64_t size, CreatorState state) {
  ShmSegment segment;
  segment.inode = inode;
  segment.name = "torch_" + std::to_string(creator) + "_1_" + std::to_string(inode);
  segment.kind = SegmentKind::kTorchTensor;
  segment.size_bytes = size;
  segment.allocated_bytes = size;
  segment.creator_pid = creator;
  segment.creator = state;
  segment.modified_ns = kRealTime;
  return segment;
}

ShmSegment unlinked_tensor(int32_t creator, uint64_t inode, uint64_t size, int32_t holder) {
  ShmSegment segment = tensor(creator, inode, size, CreatorState::kAlive);
  segment.linked = false;
  segment.holders.push_back(
      {.key = key_of(holder), .comm = "python3", .in_tree = true, .fds = 1, .maps = 1});
  return segment;
}

ShmSegment foreign_block(uint64_t inode, uint64_t size, int32_t pid, std::string comm) {
  ShmSegment segment;
  segment.inode = inode;
  segment.name = "psm_1234";
  segment.kind = SegmentKind::kPythonShared;
  segment.size_bytes = size;
  segment.allocated_bytes = size;
  segment.holders.push_back(
      {.key = key_of(pid), .comm = std::move(comm), .in_tree = false, .fds = 1, .maps = 1});
  return segment;
}

ShmSegment semaphore(uint64_t inode, double age_s) {
  ShmSegment segment;
  segment.inode = inode;
  segment.name = "sem.mp-abc" + std::to_string(inode);
  segment.kind = SegmentKind::kPythonSemaphore;
  segment.size_bytes = 32;
  segment.allocated_bytes = 4096;
  segment.modified_ns = kRealTime - static_cast<int64_t>(age_s * 1e9);
  return segment;
}

std::optional<Finding> find(const Verdict& verdict, FindingCode code) {
  const auto found = std::ranges::find(verdict.findings, code, &Finding::code);
  return found == verdict.findings.end() ? std::nullopt : std::optional(*found);
}

Finding must_find(const Verdict& verdict, FindingCode code) {
  if (auto found = find(verdict, code)) return *std::move(found);
  throw std::runtime_error("no finding " + std::string(info(code).name));
}

Finding only_finding(const Verdict& verdict) {
  if (verdict.findings.size() == 1) return verdict.findings.front();
  throw std::runtime_error(std::to_string(verdict.findings.size()) + " findings instead of one");
}

bool has_error(const Verdict& verdict) {
  return std::ranges::any_of(verdict.findings,
                             [](const Finding& each) { return each.severity == Severity::kError; });
}

std::vector<std::string> what_remedies_set(const Finding& finding) {
  std::vector<std::string> all;
  for (const Remedy& remedy : finding.remedies)
    if (!remedy.settings.empty()) all.push_back(describe(remedy.settings));
  return all;
}

int64_t number(const Finding& finding, std::string_view name) {
  for (const Evidence& each : finding.evidence) {
    const auto* value = std::get_if<int64_t>(&each.value);
    if (each.name == name && value != nullptr) return *value;
  }
  return -1;
}

std::string text(const Finding& finding, std::string_view name) {
  for (const Evidence& each : finding.evidence) {
    const auto* value = std::get_if<Message>(&each.value);
    if (each.name == name && value != nullptr) return value->plain();
  }
  return "";
}

}  // namespace dlprobe
