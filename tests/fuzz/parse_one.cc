#include "tests/fuzz/parse_one.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/proc/cgroup_cpu.h"
#include "lib/proc/cgroup_memory.h"
#include "lib/proc/cpu_stat.h"
#include "lib/proc/fdinfo.h"
#include "lib/proc/file_locks.h"
#include "lib/proc/host_memory.h"
#include "lib/proc/kernel_log.h"
#include "lib/proc/maps.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/net_tcp.h"
#include "lib/proc/pid_cgroup.h"
#include "lib/proc/pid_io.h"
#include "lib/proc/pid_limits.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/pid_statm.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/sched_file.h"
#include "lib/proc/schedstat.h"
#include "lib/proc/shm_name.h"
#include "lib/proc/smaps_rollup.h"
#include "lib/proc/syscall_file.h"
#include "lib/proc/tracepoint_format.h"

namespace dlprobe {
namespace {

using Parser = void (*)(std::string_view);

template <auto kParse>
void run(std::string_view text) {
  [[maybe_unused]] const auto result = kParse(text);
}

/// The two files of v1: what stands before a semicolon, and what behind it.
void parse_quota_and_period(std::string_view text) {
  const size_t end = std::min(text.find(';'), text.size());
  const std::string_view period = text.substr(std::min(end + 1, text.size()));
  [[maybe_unused]] const auto result = parse_cpu_quota_v1(text.substr(0, end), period);
}

constexpr std::array<std::pair<std::string_view, Parser>, 35> kParsers = {{
    {"cgroup_events_v2", run<parse_cgroup_events_v2>},
    {"cgroup_limit", run<parse_cgroup_limit>},
    {"cgroup_oom_kills", run<parse_cgroup_oom_kills>},
    {"cgroup_stat_v1", run<parse_cgroup_stat_v1>},
    {"cgroup_stat_v2", run<parse_cgroup_stat_v2>},
    {"cpu_max", run<parse_cpu_max>},
    {"cpu_quota_v1", parse_quota_and_period},
    {"cpu_stat", run<parse_cpu_stat>},
    {"fdinfo", run<parse_fdinfo>},
    {"file_locks", run<parse_file_locks>},
    {"io", run<parse_pid_io_calls>},
    {"kernel_message", run<parse_kernel_message>},
    {"kmsg", run<parse_kmsg_record>},
    {"limits", run<parse_open_files_limit>},
    {"limits_cpu", run<parse_cpu_time_limit>},
    {"limits_file_size", run<parse_file_size_limit>},
    {"limits_processes", run<parse_processes_limit>},
    {"maps", run<parse_shared_maps>},
    {"meminfo", run<parse_meminfo>},
    {"memory_pressure", run<parse_memory_pressure>},
    {"mountinfo", run<parse_mountinfo>},
    {"net_tcp", run<parse_net_tcp>},
    {"oom_limit", run<parse_oom_limit>},
    {"pid_cgroup", run<parse_pid_cgroup>},
    {"sched", run<parse_sched_file>},
    {"schedstat", run<parse_schedstat>},
    {"shm_name", run<parse_shm_name>},
    {"smaps_rollup", run<parse_smaps_rollup>},
    {"stat", run<parse_pid_stat>},
    {"statm", run<parse_pid_statm>},
    {"status", run<parse_pid_status>},
    {"syscall", run<parse_syscall_file>},
    {"tracepoint_format", run<parse_tracepoint_format>},
    {"vmstat", run<parse_vmstat_oom_kills>},
    {"vmstat_swap", run<parse_vmstat_swap_traffic>},
}};

}  // namespace

bool parse_one(std::string_view parser, std::string_view text) {
  for (const auto& [name, parse] : kParsers) {
    if (name != parser) continue;
    parse(text);
    return true;
  }
  return false;
}

void parse_all(std::string_view text) {
  for (const auto& [name, parse] : kParsers)
    parse(text);
}

}  // namespace dlprobe
