#include "lib/model/recording_codec.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/base/units.h"
#include "lib/base/utf8.h"

namespace dlprobe {
namespace {

using Item = nlohmann::json;

// The first byte is not ASCII, so that no text file looks like a recording (as PNG does it).
constexpr std::string_view kMagic =
    "\x89"
    "DLPREC";
constexpr size_t kPreambleBytes = kMagic.size() + 2;
constexpr size_t kFrameHeadBytes = 8;
constexpr uint32_t kMostRecordBytes = 16U << 20U;
// What a damaged or hostile record may cost: each item takes 16 to 64 bytes once it is read.
constexpr size_t kMostItems = 2'000'000;
constexpr int kDeepest = 16;
// Times beyond this are nonsense, and their differences would overflow.
constexpr int64_t kLatestNs = int64_t{1} << 62U;
constexpr std::string_view kErrorKey = "!";
constexpr std::string_view kKeptKey = "kept";

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

template <class T>
concept Enum = std::is_enum_v<T>;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
struct IsObserved : std::false_type {};
template <class T>
struct IsObserved<Observed<T>> : std::true_type {};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

// One list of fields for each struct, used to write and to read, so that the two cannot differ. The
// keys are explained in docs/recording-format.md; a test compares that page with this file.

template <class A>
void fields(A& a, Is<Limit> auto& v) {
  a("soft", v.soft);
  a("hard", v.hard);
}

template <class A>
void fields(A& a, Is<HostFacts> auto& v) {
  a("name", v.name);
  a("kernel", v.kernel);
  a("os", v.os);
  a("machine", v.machine);
  a("page", v.page_size);
  a("hz", v.ticks_per_second);
  a("cpus", v.cpus);
  a("max_maps", v.max_map_count);
  a("container", v.container);
  a("node", v.node);
  a("job", v.job_id);
  a("rank", v.rank);
}

template <class A>
void fields(A& a, Is<InvocationFacts> auto& v) {
  a("version", v.version);
  a("probe", v.probe);
  a("argv", v.argv);
  a("euid", v.euid);
  a("interval_ns", v.interval_ns);
  a("folder", v.working_folder);
}

template <class A>
void fields(A& a, Is<RecordingHeader> auto& v) {
  a("id", v.recording_id);
  a.time("realtime_ns", v.realtime_ns);
  a.time("boottime_ns", v.boottime_ns);
  a("host", v.host);
  a("invocation", v.invocation);
}

// Written by encode_recording only: how many records follow that are what was left after thinning.
struct KeptRecords {
  uint64_t count = 0;
  uint64_t thinned_records = 0;
  BootNs thinned_at = 0;
};

template <class A>
void fields(A& a, Is<KeptRecords> auto& v) {
  a("count", v.count);
  a("thinned", v.thinned_records);
  a.time("at", v.thinned_at);
}

template <class A>
void fields(A& a, Is<LoaderPlan> auto& v) {
  a("workers", v.workers);
  a("batch_size", v.batch_size);
  a("sample_shape", v.sample_shape);
  a("dtype", v.dtype);
  a("prefetch_factor", v.prefetch_factor);
  a("start_method", v.start_method);
  a("sharing_strategy", v.sharing_strategy);
  a("pin_memory", v.pin_memory);
  a("persistent_workers", v.persistent_workers);
  a("epochs", v.epochs);
  a("batches", v.batches);
  a("device", v.device);
  a("data", v.data_dir);
  a("data_sample", v.data_sample);
  a("fault", v.fault);
}

template <class A>
void fields(A& a, Is<Trial> auto& v) {
  a("start_method", v.start_method);
  a("sharing_strategy", v.sharing_strategy);
  a("workers", v.workers);
  a("forced", v.forced);
  a("most_processes", v.most_processes);
  a("most_depth", v.most_depth);
}

template <class A>
void fields(A& a, Is<Setting> auto& v) {
  a("kind", v.kind);
  a("name", v.name);
  a("value", v.value);
}

template <class A>
void fields(A& a, Is<Attempt> auto& v) {
  a("settings", v.settings);
  a("of_run", v.of_run);
}

template <class A>
void fields(A& a, Is<RunBegin> auto& v) {
  a.time("at", v.at);
  a("subject", v.subject);
  a("asked_pid", v.asked_pid);
  a("root", v.root);
  a("command", v.command);
  a("plan", v.plan);
  a("preflight", v.preflight);
  a("looks_when_quiet", v.looks_when_quiet);
  a("nofile", v.open_files_limit);
  a("trial", v.trial);
  a("attempt", v.attempt);
}

template <class A>
void fields(A& a, Is<ProcessInfo> auto& v) {
  a("key", v.key);
  a("ppid", v.ppid);
  a.time("at", v.seen_at);
  a("comm", v.comm);
  a("cmdline", v.cmdline);
  a("exe", v.exe);
  a("role", v.role);
  a("basis", v.role_basis);
  a("start_method", v.start_method);
  a("orphaned", v.orphaned);
  a("uid", v.uid);
  a("nspid", v.namespace_pids);
  a("sigcgt", v.signals_caught);
  a("mnt_ns", v.mount_namespace);
  a("nofile", v.open_files_limit);
  a("cpu_limit", v.cpu_time_limit);
  a("fsize_limit", v.file_size_limit);
  a("session", v.session);
  a("tty", v.terminal);
  a("cgroup", v.cgroup);
}

template <class A>
void fields(A& a, Is<ProcessExit> auto& v) {
  a("key", v.key);
  a.time("at", v.at);
  a("status", v.wait_status);
  a("source", v.source);
}

template <class A>
void fields(A& a, Is<ShmMount> auto& v) {
  a("dev", v.device);
  a("mnt_ns", v.mount_namespace);
  a("through", v.seen_through);
  a("point", v.mount_point);
  a("fs", v.fs_type);
  a("options", v.options);
}

template <class A>
void fields(A& a, Is<ShmUse> auto& v) {
  a.time("at", v.at);
  a("dev", v.device);
  a("size", v.size_bytes);
  a("used", v.used_bytes);
  a("inodes", v.inodes);
  a("iused", v.inodes_used);
}

template <class A>
void fields(A& a, Is<WaitedFile> auto& v) {
  a("fd", v.fd);
  a("kind", v.kind);
  a("ino", v.inode);
  a("peer", v.peer);
  a("path", v.path);
  a("storage", v.storage);
}

template <class A>
void fields(A& a, Is<ThreadWait> auto& v) {
  a("tid", v.tid);
  a("running", v.running);
  a("nr", v.syscall);
  a("args", v.args);
  a("files", v.files);
}

template <class A>
void fields(A& a, Is<FdKinds> auto& v) {
  a("file", v[FdKind::kFile]);
  a("socket", v[FdKind::kSocket]);
  a("pipe", v[FdKind::kPipe]);
  a("eventfd", v[FdKind::kEventfd]);
  a("epoll", v[FdKind::kEpoll]);
  a("seg", v[FdKind::kSegment]);
  a("seg_unlinked", v.unlinked_segments);
  a("memfd", v[FdKind::kMemfd]);
  a("device", v[FdKind::kDevice]);
  a("other", v[FdKind::kOther]);
}

template <class A>
void fields(A& a, Is<FdGroup> auto& v) {
  a("kind", v.kind);
  a("name", v.name);
  a("count", v.count);
}

template <class A>
void fields(A& a, Is<FdLook> auto& v) {
  a.time("at", v.at);
  a("key", v.key);
  a("count", v.count);
  a("looked_at", v.looked_at);
  a("kinds", v.kinds);
  a("in_flight", v.in_flight);
  a("most", v.most);
}

template <class A>
void fields(A& a, Is<ProcessSample> auto& v) {
  a("key", v.key);
  a("ppid", v.ppid);
  a("st", v.state);
  a("ut", v.utime_ticks);
  a("stt", v.stime_ticks);
  a("minflt", v.minor_faults);
  a("majflt", v.major_faults);
  a("thr", v.threads);
  a("rss", v.rss_bytes);
  a("rshm", v.rss_shared_bytes);
  a("fds", v.fd_count);
  a("kinds", v.fds);
  a("maps", v.map_count);
  a("swap", v.swap_bytes);
  a("pss", v.pss_bytes);
  a("pss_anon", v.pss_anon_bytes);
  a("uss", v.private_bytes);
  a("pt", v.page_table_bytes);
  a("io", v.io_calls);
  a("waits", v.waits);
}

template <class A>
void fields(A& a, Is<MemoryPressure> auto& v) {
  a("some_us", v.some_us);
  a("full_us", v.full_us);
}

template <class A>
void fields(A& a, Is<CgroupMemory> auto& v) {
  a("v", v.version);
  a("path", v.path);
  a("used", v.used_bytes);
  a("limit", v.limit_bytes);
  a("shmem", v.shmem_bytes);
  a("oom", v.oom_kills);
  a("anon", v.anon_bytes);
  a("file", v.file_bytes);
  a("swap", v.swap_bytes);
  a("psi", v.pressure);
}

template <class A>
void fields(A& a, Is<HostMemory> auto& v) {
  a("total", v.total_bytes);
  a("avail", v.available_bytes);
  a("shmem", v.shmem_bytes);
  a("swap", v.swap_total_bytes);
  a("swap_free", v.swap_free_bytes);
  a("oom", v.oom_kills);
  a("swpin", v.swapped_in_pages);
  a("swpout", v.swapped_out_pages);
  a("commit", v.committed_bytes);
  a("commit_limit", v.commit_limit_bytes);
  a("psi", v.pressure);
}

template <class A>
void fields(A& a, Is<Sample> auto& v) {
  a.time("at", v.at);
  a("p", v.processes);
  a("shm", v.shm);
  a("cg", v.cgroup);
  a("host", v.host);
}

template <class A>
void fields(A& a, Is<SegmentHolder> auto& v) {
  a("key", v.key);
  a("comm", v.comm);
  a("in_tree", v.in_tree);
  a("fds", v.fds);
  a("maps", v.maps);
}

template <class A>
void fields(A& a, Is<ShmSegment> auto& v) {
  a("ino", v.inode);
  a("name", v.name);
  a("linked", v.linked);
  a("kind", v.kind);
  a("size", v.size_bytes);
  a("alloc", v.allocated_bytes);
  a("uid", v.uid);
  a.time("mtime", v.modified_ns);
  a("cpid", v.creator_pid);
  a("creator", v.creator);
  a("holders", v.holders);
}

template <class A>
void fields(A& a, Is<ShmLedger> auto& v) {
  a.time("at", v.at);
  a("dev", v.device);
  a("all", v.whole_machine);
  a("hides_pids", v.hides_pids);
  a("used", v.used_bytes);
  a("named", v.named_bytes);
  a("open", v.unlinked_open_bytes);
  a("mapped", v.unlinked_mapped_bytes);
  a("unexplained", v.unexplained_bytes);
  a("segments", v.segments);
  a("omitted", v.omitted_segments);
  a("omitted_bytes", v.omitted_bytes);
  a("scanned", v.processes_scanned);
  a("unreadable", v.processes_unreadable);
}

template <class A>
void fields(A& a, Is<LoaderHello> auto& v) {
  a.time("at", v.at);
  a("device", v.device);
  a("device_name", v.device_name);
  a("libtorch", v.libtorch);
  a("opencv", v.opencv);
  a("images", v.images);
  a("batches_per_epoch", v.batches_per_epoch);
}

template <class A>
void fields(A& a, Is<LoaderBatch> auto& v) {
  a.time("at", v.at);
  a("epoch", v.epoch);
  a("index", v.index);
  a("worker", v.worker);
  a("samples", v.samples);
  a("bytes", v.bytes);
  a("wait", v.wait_s);
  a("fetch", v.fetch_s);
  a("copy", v.copy_s);
  a("step", v.step_s);
}

template <class A>
void fields(A& a, Is<LoaderDone> auto& v) {
  a.time("at", v.at);
  a("images", v.images);
  a("seconds", v.seconds);
  a("first_batch", v.first_batch_s);
  a("broken", v.broken_images);
}

template <class A>
void fields(A& a, Is<Event> auto& v) {
  a.time("at", v.at);
  a("kind", v.kind);
  a("text", v.text);
  a("key", v.process);
}

template <class A>
void fields(A& a, Is<Gap> auto& v) {
  a("what", v.what);
  a("why", v.why);
  a("effect", v.effect);
  a("remedy", v.remedy);
}

template <class A>
void fields(A& a, Is<StackFrame> auto& v) {
  a("py", v.python);
  a("fn", v.function);
  a("file", v.file);
  a("off", v.offset);
  a("line", v.line);
}

template <class A>
void fields(A& a, Is<FutexWait> auto& v) {
  a("addr", v.address);
  a("shared", v.shared);
  a("timed", v.timed);
  a("expected", v.expected);
  a("value", v.value);
  a("kind", v.kind);
  a("owner", v.owner_tid);
  a("gone", v.owner_gone);
  a("team", v.team_size);
  a("python", v.python_type);
  a("file", v.file);
  a("dev", v.device);
  a("ino", v.inode);
  a("off", v.offset);
}

template <class A>
void fields(A& a, Is<SemLockState> auto& v) {
  a("ino", v.inode);
  a("file", v.file);
  a("value", v.value);
  a("recursive", v.recursive);
  a("max", v.max_value);
  a("count", v.count);
  a("last", v.last_tid);
}

template <class A>
void fields(A& a, Is<ChannelEnd> auto& v) {
  a("ino", v.inode);
  a("kind", v.kind);
  a("pid", v.pid);
  a("comm", v.comm);
  a("fd", v.fd);
  a("r", v.reads);
  a("w", v.writes);
  a("sibling", v.orphaned_sibling);
}

template <class A>
void fields(A& a, Is<OpenMpPool> auto& v) {
  a("threads", v.threads);
  a("next", v.next_team);
}

template <class A>
void fields(A& a, Is<MappedLibrary> auto& v) {
  a("file", v.file);
  a("dev", v.device);
  a("ino", v.inode);
  a("pool", v.pool);
}

template <class A>
void fields(A& a, Is<SharedFile> auto& v) {
  a("fd", v.fd);
  a("dev", v.device);
  a("ino", v.inode);
  a("path", v.path);
  a("w", v.writes);
  a("pos", v.position);
  a("same", v.description);
  a("alone", v.moves_alone);
  a("maybe", v.moves_maybe);
  a("others", v.moves_of_others);
}

template <class A>
void fields(A& a, Is<ThreadSnapshot> auto& v) {
  a("tid", v.tid);
  a("own_tid", v.own_tid);
  a("start", v.start_ticks);
  a("comm", v.comm);
  a("st", v.state);
  a("wchan", v.wchan);
  a("cpu_ns", v.cpu_ns);
  a("queued_ns", v.queued_ns);
  a("slices", v.timeslices);
  a.time("since", v.blocked_since);
  a("wait", v.wait);
  a("futex", v.futex);
  a("stack", v.stack);
  a("note", v.stack_note);
  a("stopped", v.stopped);
  a("consistent", v.consistent);
}

template <class A>
void fields(A& a, Is<ProcessSnapshot> auto& v) {
  a("key", v.key);
  a.time("at", v.at);
  a("threads", v.threads);
  a("python", v.python);
  a("python_note", v.python_note);
  a("gil", v.gil_holder);
  a("pause_ns", v.pause_ns);
  a("semlocks", v.sem_locks);
  a("libs", v.libraries);
  a("files", v.shared_files);
}

template <class A>
void fields(A& a, Is<TreeSnapshot> auto& v) {
  a.time("at", v.at);
  a("p", v.processes);
  a("ends", v.channel_ends);
  a("all_ends", v.all_ends_seen);
}

template <class A>
void fields(A& a, Is<SignalSent> auto& v) {
  a.time("at", v.at);
  a("sig", v.signal);
  a("code", v.code);
  a("key", v.target);
  a("spid", v.sender_pid);
  a("scomm", v.sender_comm);
  a("scmd", v.sender_command);
  a("sender", v.sender);
  a("ours", v.by_dlprobe);
  a("ip", v.code_address);
  a("ipfile", v.code_file);
}

template <class A>
void fields(A& a, Is<KernelLogLine> auto& v) {
  a.time("at", v.at);
  a("kind", v.kind);
  a("key", v.process);
  a("text", v.text);
  a("whole_host", v.whole_host);
  a("limited", v.limited_cgroup);
  a("limit", v.limit_bytes);
  a("anon", v.anonymous_bytes);
  a("file", v.file_bytes);
  a("shmem", v.shmem_bytes);
}

template <class A>
void fields(A& a, Is<OomCounters> auto& v) {
  a.time("at", v.at);
  a("cgroup", v.cgroup);
  a("kills", v.kills);
  a("hits", v.limit_hits);
  a("meets", v.limit_meets);
  a("group_kills", v.group_kills);
  a("limit", v.limit_bytes);
}

template <class A>
void fields(A& a, Is<StartEvent> auto& v) {
  a.time("at", v.at);
  a("kind", v.kind);
  a("key", v.process);
  a("method", v.method);
  a("wanted", v.wanted);
  a("child", v.child_pid);
  a("cause", v.cause);
  a("message", v.message);
  a("path", v.path);
  a("type", v.type);
  a("file", v.file);
  a("line", v.line);
  a("function", v.function);
  a("main", v.is_main);
  a("count", v.count);
  a("seconds", v.seconds);
  a("bytes", v.bytes);
  a("workers", v.workers);
  a("prefetch_factor", v.prefetch_factor);
}

template <class A>
void fields(A& a, Is<ScriptFact> auto& v) {
  a("kind", v.kind);
  a("file", v.file);
  a("line", v.line);
  a("function", v.function);
  a("what", v.what);
  a("other_file", v.other_file);
  a("other_line", v.other_line);
  a("method", v.method);
  a("path", v.path);
  a("type", v.type);
  a("name", v.name);
  a("bytes", v.bytes);
}

template <class A>
void fields(A& a, Is<ScriptReading> auto& v) {
  a.time("at", v.at);
  a("program", v.program);
  a("file", v.file);
  a("python", v.python);
  a("default_method", v.default_method);
  a("main_imported", v.main_imported);
  a("error", v.error);
  a("is_syntax_error", v.is_syntax_error);
  a("error_line", v.error_line);
  a("complete", v.complete);
  a("own_files", v.own_files);
  a("files_left_out", v.files_left_out);
  a("facts", v.facts);
}

template <class A>
void fields(A& a, Is<FolderFacts> auto& v) {
  a("path", v.path);
  a("trouble", v.trouble);
  a("not_known", v.not_known);
  a("free", v.free_bytes);
  a("entries", v.entries);
}

template <class A>
void fields(A& a, Is<ThreadSetting> auto& v) {
  a("name", v.name);
  a("value", v.value);
}

template <class A>
void fields(A& a, Is<PythonPackage> auto& v) {
  a("name", v.name);
  a("version", v.version);
  a("installer", v.installer);
  a("path", v.path);
}

template <class A>
void fields(A& a, Is<ThreadLibrary> auto& v) {
  a("name", v.name);
  a("files", v.files);
  a("packages", v.packages);
}

template <class A>
void fields(A& a, Is<CondaOverlap> auto& v) {
  a("name", v.name);
  a("conda", v.conda_version);
  a("others", v.others);
}

template <class A>
void fields(A& a, Is<PythonImport> auto& v) {
  a("module", v.module);
  a("version", v.version);
  a("trouble", v.trouble);
}

template <class A>
void fields(A& a, Is<PythonFacts> auto& v) {
  a("asked", v.asked);
  a("named", v.is_named);
  a("executable", v.executable);
  a("version", v.version);
  a("trouble", v.trouble);
  a("late", v.is_late);
  a("not_read", v.not_read);
  a("packages", v.packages);
  a("libraries", v.libraries);
  a("overlaps", v.overlaps);
  a("import_asked", v.was_asked_to_import);
  a("imports", v.imports);
  a("openmp", v.loaded_openmp);
  a("import_trouble", v.import_trouble);
}

template <class A>
void fields(A& a, Is<GateFacts> auto& v) {
  a.time("at", v.at);
  a("level", v.level);
  a.time("deadline", v.deadline);
  a("processes", v.processes);
  a("root", v.is_root);
  a("user_tasks", v.tasks_of_user);
  a("cg_tasks", v.cgroup_tasks);
  a("cg_tasks_limit", v.cgroup_tasks_limit);
  a("tasks", v.tasks);
  a("most_tasks", v.most_tasks);
  a("files", v.files_open);
  a("most_files", v.most_files);
  a("memory", v.memory);
  a("cg", v.cgroup);
  a("cpus_online", v.cpus_online);
  a("cpus_usable", v.cpus_usable);
  a("quota", v.cpu_quota);
  a("quota_source", v.cpu_quota_source);
  a("threads", v.thread_settings);
  a("ptrace_scope", v.ptrace_scope);
  a("may_trace", v.may_trace_all);
  a("shm", v.shared_memory);
  a("tmp", v.temporary);
  a("data", v.data);
  a("python", v.python);
}

template <class A>
void fields(A& a, Is<TuneSetting> auto& v) {
  a("workers", v.workers);
  a("prefetch_factor", v.prefetch_factor);
  a("start_method", v.start_method);
  a("variant", v.variant);
}

template <class A>
void fields(A& a, Is<TuneRequest> auto& v) {
  a.time("at", v.at);
  a("plan", v.base);
  a("knows_batch", v.knows_batch);
  a("workers", v.workers);
  a("prefetch_factors", v.prefetch_factors);
  a("start_methods", v.start_methods);
  a("now_workers", v.configured_workers);
  a("now_prefetch", v.configured_prefetch_factor);
  a("variants", v.variants);
  a("budget", v.budget_s);
  a("window", v.window_s);
  a("cpus", v.cpus);
  a("quota", v.quota_cpus);
  a("quota_source", v.quota_source);
  a("memory_left", v.memory_left_bytes);
  a("memory_source", v.memory_source);
  a("shm_free", v.shm_free_bytes);
  a("fd_limit", v.fd_limit);
}

template <class A>
void fields(A& a, Is<ProcessCpu> auto& v) {
  a("key", v.key);
  a("role", v.role);
  a("thr", v.threads);
  a("busy", v.busy_threads);
  a("ran", v.ran_s);
  a("queued", v.queued_s);
  a("preempted", v.preempted);
}

template <class A>
void fields(A& a, Is<SpeedMeasurement> auto& v) {
  a.time("at", v.at);
  a("setting", v.setting);
  a("round", v.round);
  a("window", v.window_s);
  a("batches", v.batches);
  a("samples", v.samples);
  a("wait", v.wait_s);
  a("step", v.step_s);
  a("first_batch", v.first_batch_s);
  a("cost", v.cost_s);
  a("p", v.processes);
  a("memory", v.memory_bytes);
  a("worker_memory", v.worker_memory_bytes);
  a("shm", v.shm_bytes);
  a("fds", v.fds);
  a("failure", v.failure);
}

template <class A>
void fields(A& a, Is<RunEnd> auto& v) {
  a.time("at", v.at);
  a("reason", v.reason);
  a("text", v.text);
  a("status", v.wait_status);
  a("still_for", v.still_for);
}

// The name that a record of that type goes by in the file.
template <class T>
constexpr std::string_view kRecordName{};
template <>
constexpr std::string_view kRecordName<RunBegin> = "run";
template <>
constexpr std::string_view kRecordName<ProcessInfo> = "process";
template <>
constexpr std::string_view kRecordName<ProcessExit> = "exit";
template <>
constexpr std::string_view kRecordName<ShmMount> = "mount";
template <>
constexpr std::string_view kRecordName<Sample> = "sample";
template <>
constexpr std::string_view kRecordName<ShmUse> = "shm";
template <>
constexpr std::string_view kRecordName<ShmLedger> = "ledger";
template <>
constexpr std::string_view kRecordName<LoaderHello> = "loader";
template <>
constexpr std::string_view kRecordName<LoaderBatch> = "batch";
template <>
constexpr std::string_view kRecordName<LoaderDone> = "done";
template <>
constexpr std::string_view kRecordName<Event> = "event";
template <>
constexpr std::string_view kRecordName<Gap> = "gap";
template <>
constexpr std::string_view kRecordName<RunEnd> = "end";
template <>
constexpr std::string_view kRecordName<TreeSnapshot> = "snapshot";
template <>
constexpr std::string_view kRecordName<SignalSent> = "signal";
template <>
constexpr std::string_view kRecordName<KernelLogLine> = "kernel_log";
template <>
constexpr std::string_view kRecordName<OomCounters> = "oom";
template <>
constexpr std::string_view kRecordName<FdLook> = "descriptors";
template <>
constexpr std::string_view kRecordName<StartEvent> = "start";
template <>
constexpr std::string_view kRecordName<ScriptReading> = "script";
template <>
constexpr std::string_view kRecordName<TuneRequest> = "tune";
template <>
constexpr std::string_view kRecordName<SpeedMeasurement> = "speed";
template <>
constexpr std::string_view kRecordName<GateFacts> = "gate";

// ---- writing

template <class T>
Item encode(const T& value);

// A CBOR text must be UTF-8 and a process may call itself anything: other bytes go as a byte
// string.
Item encode_text(std::string_view text) {
  if (is_utf8(text)) return text;
  return Item::binary({text.begin(), text.end()});
}

struct Encoder {
  Item item = Item::object();

  template <class T>
  void operator()(const char* key, const T& value) {
    if constexpr (IsOptional<T>::value) {
      if (value) item[key] = encode(*value);
    } else if constexpr (std::floating_point<T>) {
      if (std::isfinite(value)) item[key] = value;
    } else {
      item[key] = encode(value);
    }
  }
  void time(const char* key, int64_t nanoseconds) { item[key] = nanoseconds; }
};

template <class T>
Item encode(const T& value) {
  if constexpr (IsObserved<T>::value) {
    if (value) return encode(*value);
    const Error& error = value.error();
    return {{kErrorKey, {to_string(error.code), error.os_errno, encode_text(error.context)}}};
  } else if constexpr (std::same_as<T, std::string>) {
    return encode_text(value);
  } else if constexpr (std::same_as<T, char>) {
    return encode_text(std::string_view(&value, 1));
  } else if constexpr (std::same_as<T, ProcessKey>) {
    return {value.pid, value.start_ticks};
  } else if constexpr (Enum<T>) {
    return to_string(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::same_as<T, std::array<uint64_t, 6>>) {
    return value;
  } else if constexpr (IsVector<T>::value) {
    Item items = Item::array();
    for (const auto& element : value)
      items.push_back(encode(element));
    return items;
  } else {
    Encoder encoder;
    fields(encoder, value);
    return std::move(encoder.item);
  }
}

// FNV-1a, 32 bits: finds damage, not malice.
uint32_t checksum(std::string_view bytes) {
  uint32_t hash = 2166136261U;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
  }
  return hash;
}

void append_u32(std::string& out, uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out += static_cast<char>(static_cast<unsigned char>((value >> shift) & 0xFFU));
  }
}

uint32_t read_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

std::string frame(const Item& item) {
  std::string body;
  Item::to_cbor(item, body);
  std::string result;
  append_u32(result, static_cast<uint32_t>(body.size()));
  append_u32(result, checksum(body));
  return result + body;
}

// ---- reading

// Walks over one CBOR item of the subset that is written here (definite lengths, no tags), so
// that the parser, which recurses and trusts lengths, meets nothing deep or huge. False: not that
// subset.
class Walker {
 public:
  explicit Walker(std::string_view bytes) : rest_(bytes) {}

  bool whole() { return item(kDeepest) && rest_.empty(); }

 private:
  bool item(int depth) {
    if (depth == 0 || rest_.empty() || ++items_ > kMostItems) return false;
    const auto head = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    const unsigned kind = head >> 5U;
    const auto argument = read_argument(head & 0x1FU);
    if (!argument) return false;
    switch (kind) {
      case 0:
      case 1:
        return true;
      case 2:
      case 3:
        return skip(*argument);
      case 4:
        return items(*argument, depth);
      case 5:
        return *argument <= rest_.size() && items(2 * *argument, depth);
      case 7:
        return true;
      default:
        return false;
    }
  }

  bool items(uint64_t count, int depth) {
    if (count > rest_.size()) return false;
    for (uint64_t i = 0; i < count; ++i) {
      if (!item(depth - 1)) return false;
    }
    return true;
  }

  bool skip(uint64_t bytes) {
    if (bytes > rest_.size()) return false;
    rest_.remove_prefix(bytes);
    return true;
  }

  std::optional<uint64_t> read_argument(unsigned info) {
    if (info < 24) return info;
    if (info > 27) return std::nullopt;
    const size_t bytes = size_t{1} << (info - 24);
    if (rest_.size() < bytes) return std::nullopt;
    uint64_t value = 0;
    for (const char byte : rest_.substr(0, bytes)) {
      value = (value << 8U) | static_cast<unsigned char>(byte);
    }
    rest_.remove_prefix(bytes);
    return value;
  }

  std::string_view rest_;
  size_t items_ = 0;
};

bool decode_text(const Item& item, std::string& out) {
  if (item.is_string()) {
    out = item.get_ref<const std::string&>();
    return true;
  }
  if (!item.is_binary()) return false;
  out.assign(item.get_binary().begin(), item.get_binary().end());
  return true;
}

template <std::integral T>
bool decode_integer(const Item& item, T& out) {
  if (item.is_number_unsigned()) {
    const auto value = item.get<uint64_t>();
    out = static_cast<T>(value);
    return std::in_range<T>(value);
  }
  if (!item.is_number_integer()) return false;
  const auto value = item.get<int64_t>();
  out = static_cast<T>(value);
  return std::in_range<T>(value);
}

bool assign(std::optional<StartMethod> value, StartMethod& out) {
  out = value.value_or(out);
  return value.has_value();
}
bool assign(std::optional<SharingStrategy> value, SharingStrategy& out) {
  out = value.value_or(out);
  return value.has_value();
}
bool decode_enum(std::string_view name, StartMethod& out) {
  return assign(start_method_from_string(name), out);
}
bool decode_enum(std::string_view name, SharingStrategy& out) {
  return assign(sharing_strategy_from_string(name), out);
}
bool decode_enum(std::string_view name, Role& out) {
  out = role_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, SubjectKind& out) {
  out = subject_kind_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, SegmentKind& out) {
  out = segment_kind_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, FdKind& out) {
  out = fd_kind_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, LockKind& out) {
  out = lock_kind_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, CreatorState& out) {
  out = creator_state_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, StartEventKind& out) {
  out = start_event_kind_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, ScriptFactKind& out) {
  out = script_fact_kind_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, SettingKind& out) {
  out = setting_kind_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, StartRefusal& out) {
  out = start_refusal_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, TuneVariant& out) {
  out = tune_variant_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, KernelLogKind& out) {
  out = kernel_log_kind_from_string(name);
  return true;
}
bool decode_enum(std::string_view name, RunEndReason& out) {
  out = run_end_reason_from_string(name);
  return true;
}

template <class T>
bool decode(const Item& item, T& out);

// Fills the fields of one struct. A key that is missing leaves the default (an older writer, or
// an optional without a value), a key that is not known is passed over (a newer one).
class Decoder {
 public:
  explicit Decoder(const Item& item) : item_(item) {}

  bool is_good() const { return is_good_; }

  template <class T>
  void operator()(const char* key, T& out) {
    const auto found = item_.find(key);
    if (found == item_.end()) return;
    if constexpr (IsOptional<T>::value) {
      is_good_ = decode(*found, out.emplace()) && is_good_;
    } else {
      is_good_ = decode(*found, out) && is_good_;
    }
  }

  void time(const char* key, int64_t& nanoseconds) {
    (*this)(key, nanoseconds);
    is_good_ = is_good_ && nanoseconds < kLatestNs && nanoseconds > -kLatestNs;
  }

 private:
  const Item& item_;
  bool is_good_ = true;
};

template <class T>
bool decode_array(const Item& item, T& out) {
  if (!item.is_array()) return false;
  if constexpr (IsVector<T>::value) {
    out.resize(item.size());
  } else if (item.size() != out.size()) {
    return false;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (!decode(item[i], out[i])) return false;
  }
  return true;
}

bool decode_error(const Item& item, Error& error) {
  std::string name;
  if (!item.is_array() || item.size() != 3 || !decode_text(item[0], name)) return false;
  error.code = error_code_from_string(name);
  return decode_integer(item[1], error.os_errno) && decode_text(item[2], error.context);
}

template <class T>
bool decode_observed(const Item& item, Observed<T>& out) {
  if (item.is_object() && item.contains(kErrorKey)) {
    Error error;
    const bool is_good = decode_error(item[std::string(kErrorKey)], error);
    out = std::unexpected(std::move(error));
    return is_good;
  }
  T value{};
  const bool is_good = decode(item, value);
  out = std::move(value);
  return is_good;
}

template <class T>
bool decode_struct(const Item& item, T& out) {
  if (!item.is_object()) return false;
  Decoder decoder(item);
  fields(decoder, out);
  return decoder.is_good();
}

bool decode_character(const Item& item, char& out) {
  std::string text;
  if (!decode_text(item, text) || text.size() != 1) return false;
  out = text.front();
  return true;
}

bool decode_key(const Item& item, ProcessKey& out) {
  return item.is_array() && item.size() == 2 && decode_integer(item[0], out.pid) &&
         decode_integer(item[1], out.start_ticks);
}

bool decode_boolean(const Item& item, bool& out) {
  if (item.is_boolean()) out = item.get<bool>();
  return item.is_boolean();
}

bool decode_real(const Item& item, double& out) {
  if (item.is_number()) out = item.get<double>();
  return item.is_number() && std::isfinite(out);
}

template <class T>
bool decode(const Item& item, T& out) {
  if constexpr (IsObserved<T>::value) {
    return decode_observed(item, out);
  } else if constexpr (std::same_as<T, std::string>) {
    return decode_text(item, out);
  } else if constexpr (std::same_as<T, char>) {
    return decode_character(item, out);
  } else if constexpr (std::same_as<T, ProcessKey>) {
    return decode_key(item, out);
  } else if constexpr (Enum<T>) {
    std::string name;
    return decode_text(item, name) && decode_enum(name, out);
  } else if constexpr (std::same_as<T, bool>) {
    return decode_boolean(item, out);
  } else if constexpr (std::integral<T>) {
    return decode_integer(item, out);
  } else if constexpr (std::floating_point<T>) {
    return decode_real(item, out);
  } else if constexpr (IsVector<T>::value || std::same_as<T, std::array<uint64_t, 6>>) {
    return decode_array(item, out);
  } else {
    return decode_struct(item, out);
  }
}

// Nothing: not well formed. The parser's exceptions end here.
std::optional<Item> parse_cbor(std::string_view bytes) {
  if (!Walker(bytes).whole()) return std::nullopt;
  try {
    Item item = Item::from_cbor(bytes.begin(), bytes.end(), /*strict=*/true,
                                /*allow_exceptions=*/false);
    if (item.is_discarded()) return std::nullopt;
    return item;
  } catch (const Item::exception&) {
    return std::nullopt;
  }
}

// Whether `name` is T's and `item` holds one; the record is filed if so.
enum class Filed { kNotThis, kBad, kDone };

struct Target {
  RecordingBuilder builder;
  uint64_t kept_left = 0;  // records that still are to be restored
};

template <class T>
Filed file_if(std::string_view name, const Item& item, Target& target) {
  if (name != kRecordName<T>) return Filed::kNotThis;
  T record;
  if (!decode(item, record)) return Filed::kBad;
  if (target.kept_left > 0) {
    --target.kept_left;
    target.builder.restore(std::move(record));
  } else {
    target.builder.add(std::move(record));
  }
  return Filed::kDone;
}

template <class... T>
bool file_record(const std::variant<T...>* /*types*/, const Item& item, Target& target) {
  std::string name;
  if (!item.is_array() || item.size() != 2 || !decode_text(item[0], name)) return false;
  Filed filed = Filed::kNotThis;  // stays so for a kind that a newer minor version added
  static_cast<void>(((filed = file_if<T>(name, item[1], target), filed != Filed::kNotThis) || ...));
  return filed != Filed::kBad;
}

std::unexpected<Error> damaged(size_t offset, std::string_view what) {
  return failure(ErrorCode::kMalformed, "the recording is damaged at byte " +
                                            std::to_string(offset) + ": " + std::string(what));
}

// Goes through the frames of a file one after the other.
class Frames {
 public:
  explicit Frames(std::string_view file) : file_(file), rest_(file.substr(kPreambleBytes)) {}

  /// Where the next frame begins.
  size_t offset() const { return file_.size() - rest_.size(); }
  /// The file ended inside a frame.
  bool is_cut() const { return is_cut_; }

  /// The bytes of the next item; nothing at the end, or where the last frame is cut off.
  Expected<std::optional<std::string_view>> next() {
    if (rest_.empty()) return std::nullopt;
    // A tail of zeros is what a file system may leave of a write that a crash cut short.
    is_cut_ =
        rest_.size() < kFrameHeadBytes || rest_.find_first_not_of('\0') == std::string_view::npos;
    if (is_cut_) return std::nullopt;
    const uint32_t length = read_u32(rest_);
    if (length == 0 || length > kMostRecordBytes) {
      return damaged(offset(), "a record cannot be " + std::to_string(length) + " bytes long");
    }
    const std::string_view body = rest_.substr(kFrameHeadBytes, length);
    is_cut_ = body.size() < length;
    if (is_cut_) return std::nullopt;
    if (checksum(body) != read_u32(rest_.substr(4))) {
      return damaged(offset(), "its checksum is wrong");
    }
    rest_.remove_prefix(kFrameHeadBytes + length);
    return body;
  }

 private:
  std::string_view file_;
  std::string_view rest_;
  bool is_cut_ = false;
};

Status check_preamble(std::string_view bytes) {
  const std::string_view start = bytes.substr(0, kMagic.size());
  if (start.empty() || !kMagic.starts_with(start)) {
    return failure(ErrorCode::kMalformed, "not a dlprobe recording: its first bytes are other");
  }
  if (bytes.size() < kPreambleBytes) {
    return failure(ErrorCode::kMalformed, "the recording is cut off inside its header");
  }
  const int major = static_cast<unsigned char>(bytes[kMagic.size()]);
  const int minor = static_cast<unsigned char>(bytes[kMagic.size() + 1]);
  if (major != kRecordingMajor) {
    return failure(ErrorCode::kUnsupported,
                   "the recording has format " + std::to_string(major) + "." +
                       std::to_string(minor) + ", and this dlprobe reads format " +
                       std::to_string(kRecordingMajor) + ".x: use a dlprobe of that version");
  }
  return {};
}

Expected<Target> read_header(Frames& frames) {
  const size_t offset = frames.offset();
  DLP_TRY(const auto body, frames.next());
  if (!body) return failure(ErrorCode::kMalformed, "the recording is cut off inside its header");
  const auto item = parse_cbor(*body);
  RecordingHeader header;
  if (!item || !decode(*item, header)) return damaged(offset, "its header makes no sense");
  if (header.host.page_size == 0 || header.host.ticks_per_second == 0) {
    return damaged(offset, "its header has a page size or a clock rate of 0");
  }
  KeptRecords kept;
  if (item->contains(kKeptKey) && !decode((*item)[std::string(kKeptKey)], kept)) {
    return damaged(offset, "its header makes no sense");
  }
  Target target = {.builder = RecordingBuilder(std::move(header)), .kept_left = kept.count};
  target.builder.mark_thinned(kept.thinned_records, kept.thinned_at);
  return target;
}

std::string preamble() {
  std::string result(kMagic);
  result += static_cast<char>(kRecordingMajor);
  result += static_cast<char>(kRecordingMinor);
  return result;
}

// Appends records one after the other and counts them.
struct RecordWriter {
  std::string bytes;
  uint64_t count = 0;

  template <class T>
  void operator()(const T& record) {
    bytes += encode_record(record);
    ++count;
  }
  template <class T>
  void operator()(const std::vector<T>& records) {
    for (const T& record : records)
      (*this)(record);
  }
  template <class T>
  void operator()(const std::optional<T>& record) {
    if (record) (*this)(*record);
  }
};

void write_run(RecordWriter& writer, const Run& run) {
  writer(run.begin);
  writer(run.processes);
  writer(run.exits);
  writer(run.mounts);
  writer(run.samples);
  writer(run.shm_use);
  writer(run.ledgers);
  writer(run.loader);
  writer(run.batches);
  writer(run.done);
  writer(run.events);
  writer(run.gaps);
  writer(run.snapshots);
  writer(run.signals);
  writer(run.kernel_log);
  writer(run.oom_counters);
  writer(run.fd_looks);
  writer(run.start_events);
  writer(run.script);
  writer(run.tune_request);
  writer(run.speed);
  writer(run.end);
}

}  // namespace

std::string encode_header(const RecordingHeader& header) {
  return preamble() + frame(encode(header));
}

std::string encode_recording(const Recording& recording) {
  RecordWriter writer;
  for (const Run& run : recording.runs)
    write_run(writer, run);
  for (const Run& run : recording.attempts)
    write_run(writer, run);
  Item header = encode(recording.header);
  header[kKeptKey] = encode(KeptRecords{.count = writer.count,
                                        .thinned_records = recording.thinned_records,
                                        .thinned_at = recording.thinned_at});
  return preamble() + frame(header) + writer.bytes;
}

std::string encode_record(const Record& record) {
  std::string result = std::visit(
      []<class T>(const T& value) { return frame({kRecordName<T>, encode(value)}); }, record);
  if (result.size() <= kFrameHeadBytes + kMostRecordBytes) return result;
  const Gap gap = {.what = "a record of " + format_bytes(result.size()),
                   .why = "a recording holds records of up to " + format_bytes(kMostRecordBytes),
                   .effect = "what it said is missing from the recording",
                   .remedy = ""};
  return encode_record(gap);
}

Expected<Recording> decode_recording(std::string_view bytes) {
  DLP_CHECK(check_preamble(bytes));
  Frames frames(bytes);
  DLP_TRY(auto target, read_header(frames));
  while (true) {
    const size_t offset = frames.offset();
    DLP_TRY(const auto body, frames.next());
    if (!body) break;
    const auto item = parse_cbor(*body);
    if (!item || !file_record(static_cast<const Record*>(nullptr), *item, target)) {
      return damaged(offset, "a record makes no sense");
    }
  }
  // A remedy that was not tried to its end takes nothing from what was examined.
  const std::vector<Run>& runs = target.builder.recording().runs;
  if (frames.is_cut() || runs.empty() || !runs.back().end) {
    target.builder.mark_truncated();
  }
  return std::move(target.builder).take();
}

Expected<ScriptReading> parse_script_reading(std::string_view text) {
  const Item item = Item::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  ScriptReading reading;
  if (item.is_discarded() || !decode(item, reading)) {
    return failure(ErrorCode::kMalformed, "what the interpreter said of the script makes no sense");
  }
  return reading;
}

}  // namespace dlprobe
