#include "tests/unit/reports/cases.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "lib/base/units.h"
#include "probes/probe.h"

namespace dlprobe::testing {
namespace {

constexpr BootNs kStart = 5'000'000'000;
constexpr BootNs kTick = 100'000'000;

RecordingHeader header() {
  return {.recording_id = "00112233445566778899aabbccddeeff",
          .realtime_ns = 1'763'675'264'120'000'000,
          .boottime_ns = kStart,
          .host = {.name = "node-17",
                   .kernel = "6.1.0-18-amd64",
                   .os = "Debian GNU/Linux 12",
                   .machine = "x86_64",
                   .cpus = 2},
          .invocation = {.version = "0.1.0",
                         .probe = "shm",
                         .argv = {"dlprobe", "shm", "--workers", "2"},
                         .euid = 1000,
                         .interval_ns = kTick}};
}

ProcessKey key(int32_t pid) {
  return {.pid = pid, .start_ticks = 500};
}

ProcessInfo process(int32_t pid, Role role, std::string comm) {
  ProcessInfo info;
  info.key = key(pid);
  info.ppid = role == Role::kTrainer ? 1 : 100;
  info.seen_at = kStart;
  info.comm = std::move(comm);
  info.cmdline = {"python3", "train.py"};
  info.exe = "/usr/bin/python3.11";
  info.role = role;
  info.role_basis = role == Role::kWorker ? "its parent is the trainer" : "it was started";
  info.namespace_pids = {pid};
  info.mount_namespace = uint64_t{1};
  info.open_files_limit = Limit{.soft = 1024, .hard = 4096};
  info.cgroup = "/";
  return info;
}

ProcessSample sample_of(int32_t pid, uint64_t rss_bytes) {
  ProcessSample sample;
  sample.key = key(pid);
  sample.state = 'S';
  sample.rss_bytes = rss_bytes;
  sample.rss_shared_bytes = rss_bytes / 2;
  sample.fd_count = uint64_t{30};
  return sample;
}

ShmUse use(BootNs at, uint64_t used_bytes, uint64_t size_bytes) {
  return {.at = at,
          .device = 25,
          .size_bytes = size_bytes,
          .used_bytes = used_bytes,
          .inodes = 1000,
          .inodes_used = 9};
}

ShmMount mount() {
  return {.device = 25,
          .mount_namespace = 1,
          .seen_through = key(100),
          .mount_point = "/dev/shm",
          .fs_type = "tmpfs",
          .options = "rw,size=65536k"};
}

ShmSegment segment(uint64_t inode, uint64_t bytes, bool linked) {
  ShmSegment result;
  result.inode = inode;
  result.name = "torch_101_7_" + std::to_string(inode);
  result.linked = linked;
  result.kind = SegmentKind::kTorchTensor;
  result.size_bytes = bytes;
  result.allocated_bytes = bytes;
  result.creator_pid = 101;
  result.creator = CreatorState::kAlive;
  result.holders.push_back(
      {.key = key(101), .comm = "python3", .in_tree = true, .fds = 1, .maps = 1});
  return result;
}

ShmLedger ledger(BootNs at, uint64_t used_bytes) {
  ShmLedger result;
  result.at = at;
  result.device = 25;
  result.used_bytes = used_bytes;
  result.unlinked_open_bytes = used_bytes - 4096;
  result.unexplained_bytes = 4096;
  result.segments = {segment(10, used_bytes - 8192, false), segment(11, 4096, false)};
  result.processes_scanned = 12;
  return result;
}

std::vector<Record> watched_run(const LoaderPlan& plan, BootNs begin, uint64_t peak_bytes) {
  std::vector<Record> records = {
      RunBegin{.at = begin, .subject = SubjectKind::kReferenceLoader, .plan = plan},
      process(100, Role::kTrainer, "dlprobe-loader"),
      process(101, Role::kWorker, "worker"),
      process(102, Role::kWorker, "worker"),
      mount(),
      LoaderHello{.at = begin,
                  .device = "cpu",
                  .device_name = "AMD EPYC",
                  .libtorch = "1.13.1",
                  .opencv = "4.6.0",
                  .images = 64,
                  .batches_per_epoch = 2}};
  for (int i = 0; i < 20; ++i) {
    const BootNs at = begin + i * kTick;
    const uint64_t used = i == 0 ? 0 : peak_bytes - static_cast<uint64_t>(i % 3) * kMiB;
    Sample sample;
    sample.at = at;
    sample.processes = {sample_of(100, 400 * kMiB), sample_of(101, 90 * kMiB),
                        sample_of(102, 80 * kMiB)};
    if (i % 5 == 0) {
      for (ProcessSample& each : sample.processes)
        each.pss_bytes = 50 * kMiB;
    }
    sample.shm = {use(at, used, 64 * kMiB)};
    records.emplace_back(sample);
  }
  records.emplace_back(ledger(begin + 3 * kTick, peak_bytes));
  records.emplace_back(LoaderBatch{
      .at = begin + 5 * kTick, .samples = 32, .bytes = 9 * kMiB, .wait_s = 0.1, .step_s = 0.3});
  return records;
}

Recording build(const std::vector<Record>& records, bool truncated = false) {
  RecordingBuilder builder(header());
  for (const Record& record : records)
    builder.add(record);
  if (truncated) builder.mark_truncated();
  return std::move(builder).take();
}

LoaderPlan plan_of(StartMethod method, SharingStrategy strategy) {
  LoaderPlan plan;
  plan.batch_size = 16;
  plan.start_method = method;
  plan.sharing_strategy = strategy;
  return plan;
}

Finding exhausted_finding() {
  Finding finding = {.code = FindingCode::kShmExhausted};
  finding.message =
      "/dev/shm (64.0 MiB) had 1.2 MiB left when worker 101 needed 9.2 MiB for a batch, and the "
      "kernel killed it with SIGBUS";
  finding.processes = {key(101)};
  finding.discriminator = "bus-error";
  finding.evidence = {
      {"exit_signal", "SIGBUS (7)", "", "wait status by waitid", kStart + 20 * kTick, {}},
      {"shm_size",
       int64_t{64 * kMiB},
       "bytes",
       "statvfs /dev/shm (as seen by pid 100)",
       kStart + 19 * kTick,
       {}},
      {"shm_free", int64_t{1'258'291}, "bytes", "statvfs /dev/shm (as seen by pid 100)",
       kStart + 19 * kTick, "< segment_size"},
      {"oom_kills", int64_t{0}, "1", "memory.events of /", {}, {}}};
  finding.alternatives = {
      {"DLP0501", "the cgroup's oom_kill counter did not move (0 before and after)"},
      {"a truncated file mapping",
       "the mount was full at the time, and a segment was half filled"}};
  finding.remedies = {{"Make /dev/shm 256 MiB large",
                       {"sudo mount -o remount,size=256m /dev/shm"},
                       {"bare-host"},
                       "df -h /dev/shm"},
                      {"Start the container with 256 MiB of shared memory (its default is 64 MiB)",
                       {"docker run --shm-size=256m ..."},
                       {"docker"},
                       "docker exec CONTAINER df -h /dev/shm"}};
  finding.first_seen = kStart + 20 * kTick;
  finding.last_seen = kStart + 20 * kTick;
  finding.runs = {0};
  return finding;
}

Finding stale_finding() {
  Finding finding = {.code = FindingCode::kShmStaleFiles,
                     .severity = Severity::kWarning,
                     .confidence = Confidence::kLikely};
  finding.message = "2 files of dead processes take 12.0 MiB of /dev/shm";
  finding.evidence = {{"stale_bytes", int64_t{12 * kMiB}, "bytes", "/dev/shm", {}, {}}};
  finding.consequence_of = FindingCode::kShmExhausted;
  finding.runs = {0};
  return finding;
}

StackFrame python_frame(std::string function, std::string file, int32_t line) {
  return {.python = true, .function = std::move(function), .file = std::move(file), .line = line};
}

StackFrame native_frame(std::string function, std::string file, uint64_t offset) {
  return {.function = std::move(function), .file = std::move(file), .offset = offset};
}

// The trainer polls; four workers wait for a mutex, the first of them behind a frame without a
// name.
std::vector<ProcessSnapshot> hung_processes(int64_t pause_ns) {
  constexpr const char* kData = "/srv/job/data.py";
  ThreadSnapshot trainer = {.tid = 100, .comm = "python3", .state = 'S', .timeslices = 7};
  trainer.wait = {
      .tid = 100, .syscall = 7, .files = {{.fd = 9, .kind = FileKind::kPipe, .inode = 81234}}};
  trainer.stack = {
      native_frame("poll", "/lib/x86_64-linux-gnu/libc.so.6", 0x1020),
      python_frame("Loader._get_data",
                   "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", 1282),
      python_frame("main", "/srv/job/train.py", 21)};
  ThreadSnapshot pool = {.tid = 104, .comm = "python3", .state = 'S'};
  pool.wait = {.tid = 104, .syscall = 202};
  pool.futex = FutexWait{.address = 0x7f0010, .kind = LockKind::kSemaphore};
  pool.stack = {native_frame("", "/lib/x86_64-linux-gnu/libc.so.6", 0x85f16),
                native_frame("", "/lib/x86_64-linux-gnu/libc.so.6", 0x90d90),
                python_frame("Queue._feed", "/usr/lib/python3.11/multiprocessing/queues.py", 231)};
  ThreadSnapshot pool_too = pool;
  pool_too.tid = 105;
  pool_too.futex->address = 0x7f0abc;
  std::vector<ProcessSnapshot> processes = {
      {.key = key(100),
       .threads = {trainer, pool, pool_too},
       .python = "3.11.2",
       .gil_holder = 100,
       .pause_ns = pause_ns,
       .sem_locks = {{.inode = 7, .file = "/dev/shm/sem.mp-x", .count = 1, .last_tid = 100}}}};
  for (const int32_t pid : {101, 102, 103, 107}) {
    ThreadSnapshot thread = {.tid = pid, .comm = "python3", .state = 'S'};
    thread.wait = {.tid = pid, .syscall = 202};
    thread.futex = FutexWait{
        .address = 0x7f1000, .expected = 2, .value = 2, .kind = LockKind::kMutex, .owner_tid = 106};
    thread.stack = {native_frame("pthread_mutex_lock", "/lib/x86_64-linux-gnu/libc.so.6", 0x500),
                    python_frame("Data.__getitem__", kData, 14)};
    processes.push_back({.key = key(pid), .threads = {thread}, .python = "3.11.2"});
  }
  return processes;
}

WaitNode thread_node(int32_t pid, Role role, Activity activity) {
  return {.id = "thread " + std::to_string(pid) + "/" + std::to_string(pid),
          .label = own(to_string(role)) + " " + own(pid),
          .is_thread = true,
          .process = key(pid),
          .tid = pid,
          .role = role,
          .activity = activity};
}

WaitGraph hung_graph() {
  WaitNode trainer = thread_node(100, Role::kTrainer, Activity::kIdle);
  trainer.waits_for = "pipe 81234, which worker 101 writes";
  trainer.in_code = python_frame("main", "/srv/job/train.py", 21);
  WaitGraph graph = {.nodes = {trainer}};
  for (const int32_t pid : {101, 102, 103, 107}) {
    WaitNode worker = thread_node(pid, Role::kWorker, Activity::kStuck);
    worker.since = kStart + kTick;
    worker.waits_for = "a mutex held by thread 106, which is not here";
    worker.in_code = python_frame("Data.__getitem__", "/srv/job/data.py", 14);
    worker.at = native_frame("pthread_mutex_lock", "/lib/x86_64-linux-gnu/libc.so.6", 0x500);
    graph.nodes.push_back(worker);
    if (pid != 101) continue;
    graph.nodes.push_back({.id = "mutex 101:0x7f1000", .label = "mutex 0x7f1000 (worker 101)"});
    graph.nodes.push_back({.id = "thread 106", .label = "thread 106 of trainer 100"});
  }
  graph.edges = {
      {.from = "thread 100/100", .to = "thread 101/101", .relation = "waits for a batch of"},
      {.from = "thread 101/101", .to = "mutex 101:0x7f1000", .relation = "waits for"},
      {.from = "mutex 101:0x7f1000", .to = "thread 106", .relation = "held by"}};
  graph.chain = {"thread 100/100", "thread 101/101", "mutex 101:0x7f1000", "thread 106"};
  return graph;
}

Finding inherited_lock_finding() {
  Finding finding = {.code = FindingCode::kForkInheritedLock};
  finding.message = "worker 101 waits for a mutex whose owner field says thread 106";
  finding.processes = {key(101)};
  finding.evidence = {{"owner_tid", int64_t{106}, "1", "__owner of the mutex", {}, {}}};
  finding.runs = {0};
  return finding;
}

}  // namespace

ReportCase healthy_case() {
  const LoaderPlan first = plan_of(StartMethod::kFork, SharingStrategy::kFileDescriptor);
  const LoaderPlan second = plan_of(StartMethod::kForkserver, SharingStrategy::kFileSystem);
  auto records = watched_run(first, kStart, 46 * kMiB);
  records.emplace_back(
      LoaderDone{.at = kStart + 21 * kTick, .images = 64, .seconds = 0.4, .first_batch_s = 0.21});
  records.emplace_back(RunEnd{.at = kStart + 22 * kTick});
  for (Record& record : watched_run(second, kStart + 30 * kTick, 47 * kMiB)) {
    records.push_back(std::move(record));
  }
  records.emplace_back(RunEnd{.at = kStart + 52 * kTick});
  return {.name = "healthy", .recording = build(records), .verdict = {}};
}

ReportCase exhausted_case() {
  auto records =
      watched_run(plan_of(StartMethod::kFork, SharingStrategy::kFileDescriptor), kStart, 63 * kMiB);
  records.emplace_back(ProcessExit{
      .key = key(101), .at = kStart + 20 * kTick, .wait_status = 7, .source = "waitid"});
  records.emplace_back(Gap{.what = "memory of process 102",
                           .why = "read /proc/102/smaps_rollup: Permission denied (EACCES)",
                           .effect = "its PSS is not in the sums",
                           .remedy = "run as root"});
  records.emplace_back(RunEnd{.at = kStart + 22 * kTick});
  ReportCase result = {.name = "exhausted",
                       .recording = build(records),
                       .verdict = {.findings = {exhausted_finding(), stale_finding()}}};
  result.recording.header.host.container = "docker";
  return result;
}

ReportCase incomplete_case() {
  ReportCase result = {
      .name = "incomplete",
      .recording = build({RunBegin{.at = kStart, .subject = SubjectKind::kPid, .asked_pid = 100}},
                         /*truncated=*/true),
      .verdict = {.gaps = {{.what = "/dev/shm of process 100",
                            .why = "statvfs /proc/100/root/dev/shm: Permission denied (EACCES)",
                            .effect = "nothing can be said about its shared memory",
                            .remedy = "run dlprobe as root, or as the user of process 100"}}}};
  result.recording.thinned_records = 12;
  return result;
}

ReportCase hostile_case() {
  constexpr const char* kHostile =
      "\x1b]0;owned\x07\xff\xe2\x80\xae"
      "evil\n\r$(rm)";
  ProcessInfo worker = process(101, Role::kWorker, kHostile);
  worker.cmdline = {kHostile, std::string("a\0b", 3)};
  worker.exe = os_failure("readlink /proc/101/exe", EACCES);
  Finding finding = exhausted_finding();
  finding.message = kHostile;
  finding.evidence.push_back({kHostile, kHostile, kHostile, kHostile, {}, kHostile});
  finding.evidence.push_back({"ratio", std::numeric_limits<double>::quiet_NaN(), "1", "", {}, {}});
  finding.alternatives.push_back({kHostile, kHostile});
  finding.remedies.push_back({kHostile, {kHostile}, {kHostile}, kHostile});
  ShmLedger crowded = ledger(kStart + kTick, 60 * kMiB);
  crowded.segments[0].name = kHostile;
  crowded.segments[0].holders[0].comm = kHostile;
  Sample odd;
  odd.at = kStart + 2 * kTick;
  odd.processes = {ProcessSample{}};
  odd.shm = {os_failure("statvfs", EIO)};
  Recording recording =
      build({RunBegin{.at = kStart, .subject = SubjectKind::kCommand, .command = {kHostile}},
             process(100, Role::kTrainer, "python3"), worker, mount(), crowded, odd,
             LoaderBatch{.at = kStart, .wait_s = std::numeric_limits<double>::infinity()},
             LoaderDone{.at = kStart, .images = 5, .first_batch_s = std::nan("")},
             Event{.at = kStart + kTick, .kind = kHostile, .text = kHostile, .process = key(101)},
             Gap{.what = kHostile, .why = kHostile, .effect = kHostile, .remedy = kHostile},
             RunEnd{.at = kStart + 3 * kTick, .text = kHostile}});
  recording.header.host.name = kHostile;
  recording.header.invocation.argv = {kHostile};
  return {.name = "hostile", .recording = recording, .verdict = {.findings = {finding}}};
}

Verdict told(const ReportCase& each) {
  // How causes are told is shown here; which of them a probe knows is for its own tests.
  constexpr size_t kMostCauses = 3;  // of each probe
  Verdict verdict = each.verdict;
  const Probe* probe = find_probe(each.recording.header.invocation.probe);
  if (probe != nullptr) probe->declare(each.recording, verdict);
  std::map<std::string, size_t> told;
  std::erase_if(verdict.looked_for,
                [&](const LookedFor& cause) { return ++told[cause.probe] > kMostCauses; });
  return verdict;
}

ReportCase hang_case() {
  RecordingBuilder builder(header());
  builder.add(RunBegin{.at = kStart, .subject = SubjectKind::kPid, .asked_pid = 101});
  builder.add(process(100, Role::kTrainer, "python3"));
  for (const int32_t pid : {101, 102, 103, 107})
    builder.add(process(pid, Role::kWorker, "python3"));
  Sample sample;
  sample.at = kStart + kTick;
  sample.processes = {sample_of(100, 400 * kMiB)};
  builder.add(sample);
  builder.add(TreeSnapshot{.at = kStart + kTick, .processes = hung_processes(400'000)});
  builder.add(TreeSnapshot{.at = kStart + 21 * kTick, .processes = hung_processes(0)});
  builder.add(RunEnd{.at = kStart + 21 * kTick, .reason = RunEndReason::kTimeUp});
  ReportCase result = {.name = "hang", .recording = std::move(builder).take(), .verdict = {}};
  result.recording.header.invocation.probe = "deadlock";
  result.verdict.findings = {inherited_lock_finding()};
  result.verdict.wait_graphs = {hung_graph()};
  return result;
}

ReportCase hostile_hang_case() {
  constexpr const char* kHostile =
      "\x1b]0;owned\x07\xff\xe2\x80\xae"
      "evil\"];\n\\N&lt;b$(rm)";
  ReportCase result = hang_case();
  result.name = "hostile_hang";
  const StackFrame frame = {.python = true, .function = kHostile, .file = kHostile, .line = 1};
  for (TreeSnapshot& tree : result.recording.runs.front().snapshots) {
    ProcessSnapshot& process = tree.processes[1];
    process.python = kHostile;
    process.python_note = kHostile;
    ThreadSnapshot& thread = process.threads.front();
    thread.comm = kHostile;
    thread.futex->python_type = kHostile;
    thread.futex->file = kHostile;
    thread.futex->inode = 5;
    thread.stack = {frame, {.function = kHostile, .file = kHostile, .offset = 1}};
    thread.stack_note = kHostile;
  }
  WaitGraph& graph = result.verdict.wait_graphs.front();
  graph.nodes[1].label = kHostile;
  graph.nodes[1].waits_for = kHostile;
  graph.nodes[1].in_code = frame;
  graph.nodes[2].id = graph.edges[1].to = graph.edges[2].from = graph.chain[2] = kHostile;
  graph.edges[1].relation = kHostile;
  return result;
}

ReportCase empty_case() {
  return {.name = "empty", .recording = build({}), .verdict = {}};
}

std::span<const ReportCase> all_cases() {
  static const std::array kCases = {healthy_case(),     exhausted_case(), incomplete_case(),
                                    hostile_case(),     empty_case(),     hang_case(),
                                    hostile_hang_case()};
  return kCases;
}

}  // namespace dlprobe::testing
