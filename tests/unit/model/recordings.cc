#include "tests/unit/model/recordings.h"

#include <limits>

namespace dlprobe::testing {
namespace {

constexpr const char* kHostile = "\xff\xfe\x1b[31m \xe2\x80\x8f x";

LoaderPlan filled_plan() {
  return {.workers = 3,
          .batch_size = 16,
          .sample_shape = {1, 2, 3, 4},
          .dtype = "bfloat16",
          .prefetch_factor = 5,
          .start_method = StartMethod::kForkserver,
          .sharing_strategy = SharingStrategy::kFileSystem,
          .pin_memory = true,
          .persistent_workers = true,
          .epochs = 7,
          .batches = 9,
          .device = "cuda:1",
          .data_dir = "/data/\xff",
          .data_sample = 3,
          .fault = "shm-leak:k=1"};
}

ProcessInfo filled_process() {
  ProcessInfo process;
  process.key = {.pid = 42, .start_ticks = std::numeric_limits<uint64_t>::max()};
  process.ppid = 7;
  process.seen_at = 11;
  process.comm = kHostile;
  process.cmdline = {"python3", "", kHostile};
  process.exe = "/usr/bin/python3";
  process.role = Role::kShmManager;
  process.role_basis = "its executable is torch_shm_manager";
  process.start_method = StartMethod::kSpawn;
  process.orphaned = true;
  process.uid = std::numeric_limits<uint32_t>::max();
  process.namespace_pids = {42, 1};
  process.mount_namespace = uint64_t{4026531841};
  process.open_files_limit = Limit{.soft = 1024, .hard = std::nullopt};
  process.cpu_time_limit = Limit{.soft = 60, .hard = 90};
  process.file_size_limit = Limit{.soft = 4096, .hard = std::nullopt};
  process.session = 40;
  process.terminal = 34816;
  process.cgroup = "/user.slice";
  return process;
}

ProcessInfo unreadable_process() {
  ProcessInfo process;
  process.key = {.pid = 43, .start_ticks = 5};
  process.exe = os_failure("readlink /proc/43/exe", EACCES);
  process.open_files_limit = failure(ErrorCode::kMalformed, kHostile);
  return process;
}

ProcessSample filled_sample() {
  ProcessSample sample;
  sample.key = {.pid = 42, .start_ticks = 99};
  sample.ppid = 7;
  sample.state = 'D';
  sample.utime_ticks = 1;
  sample.stime_ticks = 2;
  sample.minor_faults = 3;
  sample.major_faults = 4;
  sample.threads = 5;
  sample.rss_bytes = uint64_t{6};
  sample.rss_shared_bytes = uint64_t{7};
  sample.fd_count = uint64_t{8};
  sample.fds = FdKinds{.counts = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .unlinked_segments = 10};
  sample.map_count = uint64_t{65'531};
  sample.swap_bytes = os_failure("read /proc/42/status", ESRCH);
  sample.pss_bytes = uint64_t{10};
  sample.pss_anon_bytes = 11;
  sample.private_bytes = 12;
  sample.page_table_bytes = 13;
  sample.io_calls = uint64_t{14};
  ThreadWait wait = {.tid = 42, .running = false, .syscall = 7, .args = {1, 2, 3, 4, 5, 6}};
  wait.args[5] = std::numeric_limits<uint64_t>::max();
  wait.files.push_back({.fd = 3, .kind = "pipe", .inode = 12});
  sample.waits = std::vector<ThreadWait>{wait, {.tid = 43, .running = true}};
  return sample;
}

ShmUse filled_use() {
  return {
      .at = 20, .device = 25, .size_bytes = 64, .used_bytes = 32, .inodes = 9, .inodes_used = 2};
}

CgroupMemory filled_cgroup() {
  return {.version = 2,
          .path = "/a b",
          .used_bytes = 1,
          .limit_bytes = 2,
          .shmem_bytes = 3,
          .oom_kills = 4,
          .anon_bytes = 5,
          .file_bytes = 6,
          .swap_bytes = 7,
          .pressure = MemoryPressure{.some_us = 8, .full_us = 9}};
}

HostMemory filled_host() {
  return {.total_bytes = 1,
          .available_bytes = 2,
          .shmem_bytes = 3,
          .swap_total_bytes = 4,
          .swap_free_bytes = 5,
          .oom_kills = 6,
          .swapped_in_pages = 7,
          .swapped_out_pages = 8,
          .committed_bytes = 9,
          .commit_limit_bytes = 10,
          .pressure = MemoryPressure{.some_us = 11, .full_us = 12}};
}

ShmSegment filled_segment() {
  ShmSegment segment;
  segment.inode = 17;
  segment.name = "torch_42_1_\xff";
  segment.linked = false;
  segment.kind = SegmentKind::kTorchTensor;
  segment.size_bytes = 4096;
  segment.allocated_bytes = uint64_t{4096};
  segment.uid = 1000;
  segment.modified_ns = -1;
  segment.creator_pid = 42;
  segment.creator = CreatorState::kDead;
  segment.holders.push_back({.key = {.pid = 42, .start_ticks = 99},
                             .comm = kHostile,
                             .in_tree = true,
                             .fds = 1,
                             .maps = 2});
  return segment;
}

ShmLedger filled_ledger() {
  ShmLedger ledger;
  ledger.at = 30;
  ledger.device = 25;
  ledger.used_bytes = 100;
  ledger.named_bytes = 10;
  ledger.unlinked_open_bytes = 20;
  ledger.unlinked_mapped_bytes = 80;
  ledger.unexplained_bytes = -10;
  ledger.segments = {filled_segment(), {}};
  ledger.omitted_segments = 3;
  ledger.omitted_bytes = 4;
  ledger.whole_machine = true;
  ledger.hides_pids = true;
  ledger.processes_scanned = 5;
  ledger.processes_unreadable = 6;
  return ledger;
}

Sample filled_tree_sample() {
  Sample sample;
  sample.at = 20;
  sample.processes = {filled_sample(), {}};
  sample.shm = {filled_use(), os_failure("statvfs /dev/shm", EIO)};
  sample.cgroup = filled_cgroup();
  sample.host = filled_host();
  return sample;
}

Sample unreadable_tree_sample() {
  Sample sample;
  sample.at = 21;
  sample.cgroup = os_failure("read /proc/42/cgroup", ENOENT);
  sample.host = failure(ErrorCode::kTimeout, "read /proc/meminfo");
  return sample;
}

}  // namespace

RecordingHeader filled_header() {
  return {.recording_id = "000102030405060708090a0b0c0d0e0f",
          .realtime_ns = 1'700'000'000'123'000'000,
          .boottime_ns = 5'000'000'000,
          .host = {.name = "node-17",
                   .kernel = "6.1.0",
                   .os = "Debian GNU/Linux 12",
                   .machine = "x86_64",
                   .page_size = 4096,
                   .ticks_per_second = 100,
                   .cpus = 2,
                   .max_map_count = 65'530,
                   .container = "docker"},
          .invocation = {.version = "0.1.0",
                         .probe = "shm",
                         .argv = {"dlprobe", "shm"},
                         .euid = 1000,
                         .interval_ns = 100'000'000}};
}

FutexWait filled_futex() {
  return {.address = std::numeric_limits<uint64_t>::max(),
          .shared = true,
          .timed = true,
          .expected = 2,
          .value = 3,
          .kind = LockKind::kSharedSemaphore,
          .owner_tid = 44,
          .owner_gone = true,
          .team_size = 5,
          .python_type = "_thread.RLock",
          .file = "/dev/shm/sem.mp-x",
          .device = 26,
          .inode = 77,
          .offset = 8};
}

ThreadSnapshot filled_thread() {
  return {.tid = 43,
          .own_tid = 3,
          .start_ticks = 98,
          .comm = kHostile,
          .state = 'D',
          .cpu_ns = 1,
          .queued_ns = 2,
          .timeslices = 3,
          .wchan = "folio_wait_bit",
          .wait = {.tid = 43,
                   .syscall = 202,
                   .args = {1, 2, 3, 4, 5, 6},
                   .files = {{.fd = 5, .kind = "pipe", .inode = 81, .peer = 82, .path = kHostile}}},
          .futex = filled_futex(),
          .stack = {{.python = true, .function = kHostile, .file = kHostile, .line = 12},
                    {.function = "_Z3foov", .file = "/usr/lib/libfoo.so", .offset = 99}},
          .stack_note = "cut off",
          .stopped = true,
          .consistent = false};
}

TreeSnapshot filled_snapshot() {
  return {.at = 37,
          .processes = {{.key = {.pid = 42, .start_ticks = 99},
                         .at = 38,
                         .threads = {filled_thread(), {.tid = 45}},
                         .python = "3.11.2",
                         .python_note = "torn",
                         .gil_holder = 43,
                         .pause_ns = 250'000,
                         .sem_locks = {{.inode = 77,
                                        .file = "/dev/shm/sem.mp-x",
                                        .value = 1,
                                        .recursive = true,
                                        .max_value = 9,
                                        .count = 2,
                                        .last_tid = 43}},
                         .libraries = {{.file = kHostile,
                                        .device = 8,
                                        .inode = 78,
                                        .pool = OpenMpPool{.threads = 4, .next_team = 2}}},
                         .shared_files = {{.fd = 9,
                                           .device = 8,
                                           .inode = 79,
                                           .path = kHostile,
                                           .writes = true,
                                           .position = 512,
                                           .description = 42,
                                           .moves_alone = 6,
                                           .moves_maybe = 7,
                                           .moves_of_others = 8}}}},
          .channel_ends = {{.inode = 81,
                            .kind = "pipe",
                            .pid = 46,
                            .comm = kHostile,
                            .fd = 7,
                            .reads = true,
                            .writes = true,
                            .orphaned_sibling = true}},
          .all_ends_seen = false};
}

std::vector<Record> filled_records() {
  return {
      RunBegin{.at = 10,
               .subject = SubjectKind::kPid,
               .asked_pid = 42,
               .root = ProcessKey{.pid = 41, .start_ticks = 7},
               .command = {"python3", kHostile},
               .plan = filled_plan(),
               .preflight = true,
               .open_files_limit = Limit{.soft = 256, .hard = 1'048'576},
               .trial = Trial{.start_method = StartMethod::kForkserver,
                              .sharing_strategy = SharingStrategy::kFileSystem,
                              .workers = 3,
                              .forced = true,
                              .most_processes = 20,
                              .most_depth = 3},
               .attempt =
                   Attempt{.settings = {Setting{SettingKind::kEnvironment, "OMP_NUM_THREADS", "1"}},
                           .of_run = 1}},
      RunBegin{},
      filled_process(),
      unreadable_process(),
      ShmMount{.device = 25,
               .mount_namespace = 4026531841,
               .seen_through = {.pid = 42, .start_ticks = 99},
               .mount_point = "/dev/shm",
               .fs_type = "tmpfs",
               .options = "rw,size=65536k"},
      filled_tree_sample(),
      unreadable_tree_sample(),
      filled_use(),
      filled_ledger(),
      LoaderHello{.at = 31,
                  .device = "cpu",
                  .device_name = "AMD EPYC",
                  .libtorch = "1.13.1",
                  .opencv = "4.6.0",
                  .images = 512,
                  .batches_per_epoch = 16},
      LoaderBatch{.at = 32,
                  .epoch = 1,
                  .index = 2,
                  .worker = 3,
                  .samples = 4,
                  .bytes = 5,
                  .wait_s = 0.1,
                  .fetch_s = 0.25,
                  .copy_s = 1e-9,
                  .step_s = 3},
      LoaderDone{.at = 33, .images = 1, .seconds = 2.5, .first_batch_s = 0.3, .broken_images = 4},
      Event{.at = 34,
            .kind = "loader-error",
            .text = kHostile,
            .process = ProcessKey{.pid = 42, .start_ticks = 99}},
      Event{.at = 35, .kind = "note", .text = "", .process = std::nullopt},
      Gap{.what = "descriptors of process 42",
          .why = "list /proc/42/fd: Permission denied (EACCES)",
          .effect = "unlinked segments have no holder",
          .remedy = "run as root"},
      ProcessExit{
          .key = {.pid = 42, .start_ticks = 99}, .at = 36, .wait_status = 7, .source = "waitid"},
      ProcessExit{.key = {.pid = 43, .start_ticks = 5}},
      filled_snapshot(),
      SignalSent{.at = 37,
                 .signal = 11,
                 .code = 1,
                 .target = {.pid = 42, .start_ticks = 99},
                 .sender_pid = 42,
                 .sender_comm = kHostile,
                 .sender_command = kHostile,
                 .sender = ProcessKey{.pid = 42, .start_ticks = 99},
                 .by_dlprobe = true,
                 .code_address = 0x7f0000001234,
                 .code_file = "/usr/lib/libfoo.so"},
      SignalSent{.target = {.pid = 43, .start_ticks = 5}},
      KernelLogLine{.at = 38,
                    .kind = KernelLogKind::kOomKill,
                    .process = {.pid = 42, .start_ticks = 99},
                    .text = kHostile,
                    .whole_host = false,
                    .limited_cgroup = "/job",
                    .limit_bytes = 5,
                    .anonymous_bytes = 1,
                    .file_bytes = 2,
                    .shmem_bytes = 3},
      KernelLogLine{.process = {.pid = 43, .start_ticks = 5}},
      OomCounters{.at = 39,
                  .cgroup = "/job",
                  .kills = 4,
                  .limit_hits = 3,
                  .limit_meets = 2,
                  .group_kills = 1,
                  .limit_bytes = 64},
      OomCounters{},
      FdLook{.at = 39,
             .key = {.pid = 42, .start_ticks = 99},
             .count = 256,
             .looked_at = 45,
             .kinds = {.counts = {9, 8, 7, 6, 5, 4, 3, 2, 1}, .unlinked_segments = 4},
             .in_flight = 3,
             .most = {{.kind = FdKind::kSegment, .name = kHostile, .count = 4}, {}}},
      StartEvent{.at = 39,
                 .kind = StartEventKind::kRefused,
                 .process = {.pid = 42, .start_ticks = 99},
                 .method = "spawn",
                 .wanted = "fork",
                 .child_pid = 43,
                 .cause = StartRefusal::kUnpicklable,
                 .message = kHostile,
                 .path = kHostile,
                 .type = kHostile,
                 .file = kHostile,
                 .line = 7,
                 .function = kHostile,
                 .is_main = true,
                 .count = 9,
                 .seconds = 0.5,
                 .bytes = 1,
                 .workers = 2,
                 .prefetch_factor = 3},
      StartEvent{.process = {.pid = 43, .start_ticks = 5}},
      ScriptReading{.at = 39,
                    .program = "module",
                    .file = kHostile,
                    .python = "3.11.2",
                    .default_method = "fork",
                    .main_imported = false,
                    .error = kHostile,
                    .is_syntax_error = true,
                    .error_line = 7,
                    .complete = false,
                    .own_files = 1,
                    .files_left_out = 2,
                    .facts = {{.kind = ScriptFactKind::kUnpicklable,
                               .file = kHostile,
                               .line = 3,
                               .function = kHostile,
                               .what = "multiprocessing.Pool",
                               .other_file = kHostile,
                               .other_line = 4,
                               .method = "spawn",
                               .path = kHostile,
                               .type = "lambda",
                               .name = kHostile,
                               .bytes = 5},
                              {}}},
      TuneRequest{.at = 39,
                  .base = {.workers = 1, .data_dir = kHostile},
                  .knows_batch = false,
                  .workers = {2, 4},
                  .prefetch_factors = {1, 2},
                  .start_methods = {StartMethod::kSpawn, StartMethod::kFork},
                  .configured_workers = 8,
                  .configured_prefetch_factor = 3,
                  .variants = {TuneVariant::kLoaderAlone, TuneVariant::kOneThread},
                  .budget_s = 30,
                  .window_s = 0.75,
                  .cpus = 4,
                  .quota_cpus = 1.5,
                  .quota_source = kHostile,
                  .memory_left_bytes = 1,
                  .memory_source = kHostile,
                  .shm_free_bytes = 2,
                  .fd_limit = 3},
      TuneRequest{},
      SpeedMeasurement{.at = 39,
                       .setting = {.workers = 2,
                                   .prefetch_factor = 3,
                                   .start_method = StartMethod::kForkserver,
                                   .variant = TuneVariant::kStepAlone},
                       .round = 1,
                       .window_s = 0.5,
                       .batches = 10,
                       .samples = 640,
                       .wait_s = 0.25,
                       .step_s = 0.125,
                       .first_batch_s = 0.75,
                       .cost_s = 2,
                       .processes = {{.key = {.pid = 42, .start_ticks = 99},
                                      .role = Role::kWorker,
                                      .threads = 3,
                                      .busy_threads = 2,
                                      .ran_s = 0.5,
                                      .queued_s = 0.25,
                                      .preempted = 4}},
                       .memory_bytes = 5,
                       .worker_memory_bytes = 4,
                       .shm_bytes = 3,
                       .fds = 2,
                       .failure = kHostile},
      SpeedMeasurement{},
      GateFacts{
          .at = 39,
          .level = "quick",
          .deadline = 50,
          .processes = Limit{.soft = 1, .hard = 2},
          .is_root = true,
          .tasks_of_user = 3,
          .cgroup_tasks = 4,
          .cgroup_tasks_limit = 5,
          .tasks = 6,
          .most_tasks = 7,
          .files_open = 8,
          .most_files = 9,
          .memory = HostMemory{.total_bytes = 10, .available_bytes = 11},
          .cgroup = CgroupMemory{.version = 2, .path = kHostile, .used_bytes = 12},
          .cpus_online = 13,
          .cpus_usable = 14,
          .cpu_quota = 1.5,
          .cpu_quota_source = kHostile,
          .thread_settings = {{.name = "OMP_NUM_THREADS", .value = kHostile}},
          .ptrace_scope = 1,
          .may_trace_all = true,
          .shared_memory = {.path = kHostile, .trouble = kHostile, .free_bytes = 14},
          .temporary = {.path = kHostile, .trouble = kHostile, .free_bytes = 15},
          .data = FolderFacts{.path = kHostile, .not_known = kHostile, .entries = 16},
          .python =
              PythonFacts{.asked = kHostile,
                          .is_named = true,
                          .executable = kHostile,
                          .version = "3.11.2",
                          .trouble = kHostile,
                          .is_late = true,
                          .not_read = kHostile,
                          .packages = {{.name = "torch", .version = "2", .installer = "pip"}},
                          .libraries = {{.name = "libgomp.so.1", .files = {kHostile}}},
                          .overlaps = {{.name = "numpy", .others = {{.path = kHostile}}}},
                          .was_asked_to_import = true,
                          .imports = {{.module = "torch", .version = "2", .trouble = kHostile}},
                          .loaded_openmp = {kHostile},
                          .import_trouble = kHostile}},
      GateFacts{},
      RunEnd{.at = 40,
             .reason = RunEndReason::kTimeUp,
             .text = "--for 30s",
             .wait_status = 256,
             .still_for = 7}};
}

}  // namespace dlprobe::testing
