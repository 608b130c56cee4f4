#include "lib/os/host_facts.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "lib/base/parse.h"

namespace dlprobe {
namespace {

constexpr int kMostCpus = 65536;  ///< far more than any kernel is built for

/// PRETTY_NAME of os-release(5): the value may be quoted; inside quotes a backslash escapes.
std::string pretty_name(std::string_view os_release) {
  std::string name;
  for_each_line(os_release, [&name](std::string_view line) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) return;
    line = trim(line.substr(kKey.size()));
    if (line.size() >= 2 && (line.front() == '"' || line.front() == '\'') &&
        line.back() == line.front()) {
      line = line.substr(1, line.size() - 2);
    }
    name.clear();
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\' && i + 1 < line.size()) ++i;
      name += line[i];
    }
  });
  return name;
}

/// A runtime gives a container namespaces of its own. One that was made for a machine's disk is
/// none, whatever marks it has. The inodes are those of include/linux/proc_ns.h.
bool is_in_no_container(const Directory& root) {
  return is_in_first_pid_namespace(root) &&
         root.read_link("proc/self/ns/cgroup").value_or("") == "cgroup:[4026531835]";
}

/// A runtime by a part of the path of the cgroup of dlprobe itself, or by a mark that it leaves.
std::string container_kind(const Directory& root, const EnvironmentLookup& environment) {
  const std::string cgroup = root.read("proc/self/cgroup").value_or("");
  const auto in_cgroup = [&cgroup](std::string_view part) { return cgroup.contains(part); };
  if (environment("KUBERNETES_SERVICE_HOST") || in_cgroup("/kubepods")) return "kubernetes";
  if (environment("SLURM_JOB_ID") || in_cgroup("/slurm")) return "slurm";
  const auto has_mark = [&root](std::string_view file) {
    return root.stat(file).has_value() && !is_in_no_container(root);
  };
  if (has_mark(".dockerenv") || in_cgroup("/docker")) return "docker";
  if (has_mark("run/.containerenv") || in_cgroup("libpod")) return "podman";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kOthers = {
      {{"/lxc", "lxc"},
       {"/containerd", "containerd"},
       {"/machine.slice/systemd-nspawn", "nspawn"}}};
  for (const auto& [part, kind] : kOthers) {
    if (in_cgroup(part)) return std::string(kind);
  }
  return "";
}

std::string first_set(const EnvironmentLookup& environment,
                      std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (auto value = environment(name); value && !value->empty()) return *value;
  }
  return "";
}

/// "0-3,8" as numbers.
Expected<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  for (const std::string_view part : split(trim(text), ',')) {
    const auto ends = split(part, '-');
    const auto first = parse_int<int>(ends.front());
    const auto last = parse_int<int>(ends.back());
    if (ends.size() > 2 || !first || !last || *first < 0 || *last >= kMostCpus) {
      return failure(ErrorCode::kMalformed, "list of CPUs: " + std::string(text));
    }
    for (int cpu = *first; cpu <= *last; ++cpu)
      cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

bool is_in_first_pid_namespace(const Directory& root) {
  // PROC_PID_INIT_INO of include/linux/proc_ns.h never changes.
  return root.read_link("proc/self/ns/pid").value_or("") == "pid:[4026531836]";
}

std::vector<int> usable_cpus() {
  std::array<cpu_set_t, kMostCpus / CPU_SETSIZE> cpus{};
  if (::sched_getaffinity(0, sizeof cpus, cpus.data()) != 0) return {};
  std::vector<int> numbers;
  for (int number = 0; number < kMostCpus; ++number) {
    if (CPU_ISSET_S(number, sizeof cpus, cpus.data())) numbers.push_back(number);
  }
  return numbers;
}

Expected<std::vector<int>> online_cpus(const Directory& root) {
  return chain(root.read("sys/devices/system/cpu/online"), parse_cpu_list);
}

JobFacts read_job_facts(const EnvironmentLookup& environment) {
  const auto rank = job_rank_of(environment);
  return {.node = first_set(environment, {"SLURMD_NODENAME", "NODE_NAME"}),
          .job_id = first_set(environment, {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID",
                                            "TORCHELASTIC_RUN_ID"}),
          .rank = rank ? std::to_string(rank->rank) : ""};
}

HostFacts read_host_facts(const Machine& machine, const EnvironmentLookup& environment) {
  HostFacts facts;
  utsname names{};
  if (::uname(&names) == 0) {
    facts.name = std::data(names.nodename);
    facts.kernel = std::data(names.release);
    facts.machine = std::data(names.machine);
  }
  auto os_release = machine.root->read("etc/os-release");
  if (!os_release) os_release = machine.root->read("usr/lib/os-release");
  if (os_release) facts.os = pretty_name(*os_release);
  facts.page_size = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  facts.ticks_per_second = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  facts.cpus = static_cast<int>(usable_cpus().size());
  if (const auto text = machine.root->read("proc/sys/vm/max_map_count"))
    facts.max_map_count = parse_int<uint64_t>(trim(*text));
  if (const auto text = machine.root->read("proc/sys/vm/overcommit_memory"))
    facts.overcommit_memory = parse_int<int>(trim(*text));
  facts.container = container_kind(*machine.root, environment);
  JobFacts job = read_job_facts(environment);
  if (job.node != facts.name) facts.node = std::move(job.node);
  facts.job_id = std::move(job.job_id);
  facts.rank = std::move(job.rank);
  return facts;
}

}  // namespace dlprobe
