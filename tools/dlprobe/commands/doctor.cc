#include "reports/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <utility>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/collect/deaths/death_watch.h"
#include "lib/collect/snapshot/access_gap.h"
#include "lib/collect/tree/cgroup_reader.h"
#include "lib/os/folder_try.h"
#include "lib/os/host_facts.h"
#include "lib/os/private_shm.h"
#include "lib/os/stand_in.h"
#include "lib/os/thread_stop.h"
#include "lib/proc/host_memory.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/processes.h"
#include "lib/proc/text.h"
#include "lib/proc/tracepoint_format.h"
#include "lib/session/examination.h"
#include "lib/subject/ask_program.h"
#include "lib/subject/memory_group.h"
#include "lib/subject/reference_loader.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

constexpr uint64_t kSmall = 64 * kMiB;  ///< of what is made to try it

/// What came of a try: nothing stands in the way, or why and what would help.
struct Outcome {
  AbilityState state = AbilityState::kOk;
  std::string text;
  std::string remedy;
};

Outcome fine(std::string text) {
  return {.state = AbilityState::kOk, .text = std::move(text)};
}

Outcome missing(const Error& error, std::string remedy) {
  return {.state = AbilityState::kMissing, .text = to_string(error), .remedy = std::move(remedy)};
}

Outcome limited(std::string text, std::string remedy) {
  return {.state = AbilityState::kLimited, .text = std::move(text), .remedy = std::move(remedy)};
}

std::string hidepid_of(const Machine& machine) {
  const auto mounts = chain(machine.root->read("proc/self/mountinfo"), parse_mountinfo);
  const MountEntry* proc = mounts ? find_mount(*mounts, "/proc") : nullptr;
  if (proc == nullptr) return "";
  for (const std::string_view option : split(proc->super_options, ',')) {
    if (option.starts_with("hidepid=")) return std::string(option);
  }
  return "";
}

Outcome try_proc(const Machine& machine) {
  for (const char* file : {"proc/self/stat", "proc/self/status", "proc/self/maps"}) {
    if (const auto text = machine.root->read(file); !text) {
      return missing(text.error(), "mount -t proc proc /proc");
    }
  }
  return fine("read");
}

// Process 1 is always there, and somebody else's but in a container of this user's own.
Outcome try_proc_of_others(const Machine& machine) {
  const auto first = machine.root->read("proc/1/stat");
  const std::string hidepid = hidepid_of(machine);
  if (first) return fine(hidepid.empty() ? "not hidden" : "visible to this user, " + hidepid);
  if (hidepid.empty()) return missing(first.error(), "mount -t proc proc /proc");
  return missing(failure(ErrorCode::kForbidden, "/proc is mounted with " + hidepid).error(),
                 "run dlprobe as root, or in the group that gid= of that mount names; or: mount -o "
                 "remount,hidepid=0 /proc");
}

Outcome not_looked_into(const Machine& machine, pid_t pid, const Error& error) {
  const auto directory = machine.root->open_directory("proc/" + std::to_string(pid));
  if (!directory) return missing(error, "mount -t proc proc /proc");
  const Gap gap = access_gap(*machine.root, **directory, pid, error);
  return {.state = AbilityState::kMissing, .text = gap.why.plain(), .remedy = gap.remedy.plain()};
}

// Stops it for a moment and copies a word of it.
Outcome try_stacks(const Machine& machine, StandIn::Kinship kinship) {
  static const uint64_t word = 0x646c70726f6265;
  const auto process = StandIn::start(kinship);
  if (!process) return missing(process.error(), "");
  const int32_t tid = process->pid();
  constexpr std::chrono::milliseconds kBudget{50};
  const ThreadStop stop = stop_threads({&tid, 1}, kBudget, [](std::span<const StoppedThread>) {});
  if (stop.threads.empty()) {
    const Error why = stop.not_stopped.empty() ? Error{.context = "it did not stop"}
                                               : stop.not_stopped.front().why;
    return not_looked_into(machine, tid, why);
  }
  uint64_t copy = 0;
  const Status read = machine.processes->read_memory(tid, reinterpret_cast<uint64_t>(&word),
                                                     std::as_writable_bytes(std::span(&copy, 1)));
  if (!read) return not_looked_into(machine, tid, read.error());
  return fine("stopped, read and released a process");
}

bool may_trace_all(const Machine& machine) {
  return has_capability(machine.root->read("proc/self/status").value_or(""), CAP_SYS_PTRACE);
}

struct Other {
  int32_t pid = 0;
  std::shared_ptr<const Directory> directory;
};

// A process of another user that has memory: a thread of the kernel has none.
std::optional<Other> process_of_another_user(const Machine& machine) {
  for (const int32_t pid : list_pids(*machine.root).value_or(std::vector<int32_t>())) {
    auto directory = machine.root->open_directory(fmt::format("proc/{}", pid));
    const auto status = directory ? (*directory)->read("status") : Expected<std::string>("");
    if (!status || !find_value(*status, "VmSize")) continue;
    const auto uids = split_fields(find_value(*status, "Uid").value_or(""));
    const auto uid = uids.empty() ? std::nullopt : parse_int<uint32_t>(uids.front());
    if (uid && *uid != ::geteuid()) return Other{pid, std::move(*directory)};
  }
  return std::nullopt;
}

// The kernel asks for the same right as for a stop, and there is nothing at address 0: nobody is
// touched.
Outcome try_stacks_of_others(const Machine& machine) {
  const auto other = process_of_another_user(machine);
  if (!other) {
    constexpr const char* kNone = "there is no other user's process to try";
    if (may_trace_all(machine)) return fine(fmt::format("{}; CAP_SYS_PTRACE is there", kNone));
    return limited(fmt::format("{}, and CAP_SYS_PTRACE is missing", kNone),
                   "run dlprobe as root; in a container: docker run --cap-add SYS_PTRACE");
  }
  std::byte nothing{};
  const Status read = machine.processes->read_memory(other->pid, 0, {&nothing, 1});
  if (read || read.error().code != ErrorCode::kForbidden) {
    return fine(fmt::format("process {} can be read", other->pid));
  }
  const Gap gap = access_gap(*machine.root, *other->directory, other->pid, read.error());
  return {.state = AbilityState::kMissing, .text = gap.why.plain(), .remedy = gap.remedy.plain()};
}

Outcome try_pidfd(const Machine& machine) {
  const auto process = StandIn::start(StandIn::Kinship::kChild);
  if (!process) return missing(process.error(), "");
  const auto pidfd = machine.processes->open_pidfd(process->pid());
  if (!pidfd) return missing(pidfd.error(), "Linux 5.3, and a seccomp profile with pidfd_open");
  const auto status = machine.processes->exit_status(pidfd->get());
  if (status) return fine("reported by the kernel, also of reaped processes");
  return limited("unknown if the parent reaps the process at once: " + to_string(status.error()),
                 "Linux 6.15; or let dlprobe start the job: dlprobe run -- COMMAND");
}

constexpr const char* kAsRoot = "run dlprobe as root, in a container with --privileged";

Outcome not_told(const Error& error, const char* capabilities) {
  if (error.code == ErrorCode::kUnsupported && error.os_errno == 0) {
    return missing(error, "run dlprobe on the host, outside containers (docker run --pid=host)");
  }
  return missing(error, fmt::format("{} ({})", kAsRoot, capabilities));
}

Outcome try_signals(const Machine& machine) {
  if (const Status ours = check_pid_namespace(machine); !ours) return not_told(ours.error(), "");
  constexpr const char* kNeeds = "CAP_SYS_ADMIN, and CAP_PERFMON";
  const auto format =
      chain(machine.events->tracepoint_format("signal/signal_generate"), parse_tracepoint_format);
  if (!format) return not_told(format.error(), kNeeds);
  const auto tracepoint = machine.events->open_tracepoint(format->id, "sig==9");
  if (!tracepoint) return not_told(tracepoint.error(), kNeeds);
  return fine("turned the tracepoint signal:signal_generate on and off");
}

Outcome try_kernel_log(const Machine& machine) {
  if (const Status ours = check_pid_namespace(machine); !ours) return not_told(ours.error(), "");
  const auto log = machine.events->follow_log();
  if (!log) return not_told(log.error(), "CAP_SYSLOG; or: sysctl kernel.dmesg_restrict=0");
  return fine("opened /dev/kmsg");
}

Outcome try_memory_counters(const Machine& machine) {
  const auto self = machine.root->open_directory("proc/self");
  if (!self) return missing(self.error(), "mount -t proc proc /proc");
  constexpr const char* kMount = "mount /sys/fs/cgroup (in a container read-only is enough)";
  auto reader = CgroupReader::open(machine, **self);
  if (!reader) return missing(reader.error(), kMount);
  const auto memory = reader->read(machine.clock->now());
  if (!memory) return missing(memory.error(), kMount);
  return fine("read the memory cgroup of this process");
}

Outcome try_pressure(const Machine& machine) {
  const auto pressure = chain(machine.root->read("proc/pressure/memory"), parse_memory_pressure);
  if (pressure) return fine("read /proc/pressure/memory");
  return limited(to_string(pressure.error()), "boot with psi=1");
}

Outcome try_sockets(const Machine& machine) {
  const auto sockets = machine.sockets->unix_sockets(::getpid());
  if (sockets) return fine(counted(sockets->size(), "UNIX socket") + " in the kernel's table");
  return missing(sockets.error(),
                 "a kernel with CONFIG_UNIX_DIAG, and a seccomp profile that "
                 "allows netlink sockets");
}

Outcome try_compare(const Machine& machine) {
  const auto process = StandIn::start(StandIn::Kinship::kChild);
  if (!process) return missing(process.error(), "");
  const auto same = machine.processes->compare_files({.pid = ::getpid(), .fd = STDERR_FILENO},
                                                     {.pid = process->pid(), .fd = STDERR_FILENO});
  if (same) return fine("kcmp(2) recognised a shared descriptor");
  return missing(same.error(), "the right to trace both processes, and a kernel with CONFIG_KCMP");
}

Outcome try_shm(const Machine& machine) {
  const auto use = machine.root->mount_use("dev/shm");
  if (!use) return missing(use.error(), "mount -t tmpfs tmpfs /dev/shm");
  const auto tried = try_folder("/dev/shm", FolderUse::kWrite, 1);
  if (!tried) return missing(tried.error(), "chmod 1777 /dev/shm");
  if (!tried->trouble.empty()) {
    return {.state = AbilityState::kMissing, .text = tried->trouble, .remedy = "dlprobe gate"};
  }
  if (use->type_magic != TMPFS_MAGIC) {
    return limited("it is no tmpfs", "mount -t tmpfs tmpfs /dev/shm");
  }
  return fine(fmt::format("{}, {} of it free", format_bytes(use->size_bytes),
                          format_bytes(use->size_bytes - use->used_bytes)));
}

Outcome try_private_shm(const Machine& /*machine*/) {
  const Status entered =
      try_in_child([] { return enter_private_shm({.size_bytes = kSmall, .inodes = 0}); });
  if (entered) return fine(fmt::format("one of {} was mounted", format_bytes(kSmall)));
  return missing(entered.error(), "run dlprobe as root; in a container: --cap-add SYS_ADMIN");
}

Outcome try_memory_group(const Machine& machine) {
  CgroupTree tree;
  auto group = MemoryGroup::create(machine, tree, kSmall);
  if (!group)
    return missing(group.error(),
                   "run dlprobe as root, or by: systemd-run --user "
                   "--scope -p Delegate=yes dlprobe ...");
  const Status removed = (*group)->remove();
  if (!removed) return limited(to_string(removed.error()), "");
  return fine("made and removed one");
}

// The second line of its --version says what it was built with.
Outcome try_loader(const Machine& machine, const std::string& named) {
  const auto path = find_reference_loader(named, own_executable());
  if (!path) return missing(path.error(), "apt-get install dlprobe-reference-loader, or build it");
  constexpr std::chrono::seconds kPatience{20};
  const auto said = ask_program({*path, "--version"}, *machine.clock, "say its version", kPatience);
  if (!said) return missing(said.error(), "reinstall it");
  std::vector<std::string> lines;
  for_each_line(said->text, [&](std::string_view line) { lines.emplace_back(line); });
  const bool is_ours = !lines.empty() && lines.front().starts_with("dlprobe-reference-loader ");
  if (!is_ours) {
    return missing(failure(ErrorCode::kMalformed, *path + " does not run").error(),
                   "see what it says: " + *path + " --version");
  }
  lines.front().erase(0, lines.front().find(' ') + 1);
  return fine(fmt::format("{}, {}", *path, fmt::join(lines, ", ")));
}

Outcome try_python(const Machine& machine) {
  constexpr std::chrono::seconds kPatience{5};
  constexpr const char* kQuestion =
      "import sys; v = sys.version_info; print('%d.%d' % v[:2], sys.executable)";
  const auto said = ask_program({"python3", "-I", "-S", "-c", kQuestion}, *machine.clock,
                                "say its version", kPatience);
  if (!said) return missing(said.error(), "put your jobs' interpreter on PATH");
  const auto words = split_fields(trim(said->text));
  const auto version = words.empty() ? std::vector<std::string_view>() : split(words.front(), '.');
  const auto major = version.size() == 2 ? parse_int<int>(version[0]) : std::nullopt;
  const auto minor = version.size() == 2 ? parse_int<int>(version[1]) : std::nullopt;
  if (!major || !minor) {
    return missing(failure(ErrorCode::kMalformed, "python3 did not say its version").error(), "");
  }
  const std::string found = fmt::format("python3 on PATH is {}", trim(said->text));
  constexpr int kOldest = 8;
  constexpr int kNewest = 15;
  if (*major == 3 && *minor >= kOldest && *minor <= kNewest) return fine(found);
  return limited(
      found +
          ": dlprobe reads Python stacks of 3.8 to 3.15, and of later versions that resemble 3.15",
      "");
}

Outcome try_gpu(const Machine& machine) {
  constexpr std::array<const char*, 2> kDevices = {"dev/nvidiactl", "dev/kfd"};
  for (const char* device : kDevices) {
    if (!machine.root->stat(device)) continue;
    const std::string path = "/" + std::string(device);
    if (::access(path.c_str(), R_OK | W_OK) == 0) return fine(path + " may be used");
    return missing(os_error("use " + path), "the right to it: the group video or render");
  }
  return fine("there is none here");
}

/// A thing to try, as the report names it.
struct ToTry {
  const char* name;
  const char* title;
  const char* needed_for;
  std::function<Outcome(const Machine&)> attempt;
  bool required = false;
};

std::vector<ToTry> all_to_try(const std::string& loader) {
  const auto stacks_of = [](StandIn::Kinship kinship) {
    return [kinship](const Machine& machine) { return try_stacks(machine, kinship); };
  };
  return {
      {"proc", "files of /proc", "everything", try_proc, true},
      {"stacks.started", "stacks of commands that dlprobe starts",
       "run, deadlock, spawn-recursion, every probe on a command",
       stacks_of(StandIn::Kinship::kChild), true},
      {"stacks.own", "stacks of this user's other processes",
       "attach, stacks, --pid; DLP0301 to DLP0315", stacks_of(StandIn::Kinship::kStranger)},
      {"stacks.others", "stacks of other users' processes",
       "attach, stacks and --pid on another user's job", try_stacks_of_others},
      {"proc.others", "processes of other users",
       "who sent a signal (DLP0503), who holds shared memory (DLP0105)", try_proc_of_others},
      {"exits", "exit status of processes that dlprobe did not start",
       "attach and --pid: DLP0501 to DLP0503, DLP0509, DLP0510", try_pidfd},
      {"files.compare", "which descriptors are shared over fork", "DLP0205", try_compare},
      {"sockets", "who is at the other end of a socket", "DLP0308, DLP0309", try_sockets},
      {"signals", "who sent a signal", "DLP0503, DLP0509, DLP0512", try_signals},
      {"kernel.log", "the kernel's log", "DLP0501, DLP0502: whose limit was reached",
       try_kernel_log},
      {"memory.counters", "memory limits and OOM kills of a cgroup",
       "memory, gate; DLP0501, DLP0508", try_memory_counters},
      {"pressure", "memory pressure", "DLP0507", try_pressure},
      {"shm", "/dev/shm", "shm, gate, tune, the reference loader", try_shm},
      {"shm.private", "a private /dev/shm for a command", "--shm-size, --confirm", try_private_shm},
      {"memory.group", "a memory limit for a command",
       "--limit-memory, --fault oom-killed-by-cgroup", try_memory_group},
      {"loader", "the reference loader", "gate, tune, every probe without a subject",
       [loader](const Machine& machine) { return try_loader(machine, loader); }},
      {"python", "a Python interpreter", "spawn-recursion --static, tune", try_python},
      {"gpu", "a GPU", "--device cuda", try_gpu}};
}

// As the kernel numbers them.
report::SeccompMode seccomp_mode(std::string_view mode) {
  if (mode == "0") return report::SeccompMode::kNone;
  if (mode == "1") return report::SeccompMode::kStrict;
  return mode == "2" ? report::SeccompMode::kFilter : report::SeccompMode::kUnknown;
}

report::Rights read_rights(const Machine& machine) {
  report::Rights rights;
  rights.uid = ::geteuid();
  if (const auto status = machine.root->read("proc/self/status")) {
    rights.capabilities = trim(find_value(*status, "CapEff").value_or(""));
    rights.seccomp = seccomp_mode(trim(find_value(*status, "Seccomp").value_or("")));
  }
  if (const auto scope = machine.root->read("proc/sys/kernel/yama/ptrace_scope")) {
    rights.ptrace_scope = trim(*scope);
  }
  rights.own_pid_namespace = !check_pid_namespace(machine);
  return rights;
}

// Tries each thing that dlprobe may want to do, on processes, cgroups and namespaces of its own
// making, and undoes it; reads who dlprobe is. Nothing of anybody else is touched. `loader` is the
// path that DLPROBE_REFERENCE_LOADER names, or empty.
report::Doctor look_at_abilities(const Machine& machine, const std::string& loader) {
  const HostFacts host = read_host_facts(machine, own_environment);
  report::Doctor look;
  look.tool.version = kVersion;
  look.host = {.name = host.name,
               .os = host.os,
               .kernel = host.kernel,
               .machine = host.machine,
               .container = host.container};
  look.rights = read_rights(machine);
  for (const ToTry& each : all_to_try(loader)) {
    Outcome outcome = each.attempt(machine);
    look.abilities.push_back({.name = each.name,
                              .title = each.title,
                              .state = outcome.state,
                              .required = each.required,
                              .text = std::move(outcome.text),
                              .needed_for = each.needed_for,
                              .remedy = std::move(outcome.remedy)});
  }
  return look;
}

int examine_dlprobe(const OutputOptions& options) {
  const auto outputs = planned_outputs(options, doctor_formats());
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const auto machine = live_machine();
  if (!machine) return complain_and_return(machine.error(), kExitIncomplete);
  const std::string loader = own_environment("DLPROBE_REFERENCE_LOADER").value_or("");
  const report::Doctor doctor = make_doctor(look_at_abilities(*machine, loader));
  return write_document(*outputs, options, doctor, exit_code_of_doctor(doctor));
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_status) {
  auto* command =
      app.add_subcommand("doctor", "what dlprobe can and cannot do here, and what would help");
  const auto options = std::make_shared<OutputOptions>();
  add_format_options(*command, *options, doctor_formats());
  add_verbose_option(*command, *options);
  add_quiet_option(*command, *options);
  set_examples(*command, {{"doctor", "as this user; compare with sudo"},
                          {"doctor -q", "in one line"},
                          {"doctor -f json", "for programs; attach it to a bug report"}});
  command->callback([options, &exit_status] { exit_status = examine_dlprobe(*options); });
}

}  // namespace dlprobe
