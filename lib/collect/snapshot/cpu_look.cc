#include "lib/collect/snapshot/cpu_look.h"

#include <algorithm>
#include <optional>
#include <string>

#include "lib/base/parse.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/proc/schedstat.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

// A thread that wants a CPU for less of the time hardly takes it from others.
constexpr double kBusyShare = 0.2;

std::optional<CpuLook::Thread> read_thread(const Directory& process, const std::string& task) {
  const auto schedstat = chain(process.read(task + "/schedstat"), parse_schedstat);
  if (!schedstat) return std::nullopt;
  CpuLook::Thread thread{
      .ran_ns = schedstat->cpu_ns, .queued_ns = schedstat->queued_ns, .preempted = 0};
  const auto status = process.read(task + "/status");
  if (!status) return thread;
  const auto preempted = find_value(*status, "nonvoluntary_ctxt_switches");
  if (preempted) thread.preempted = parse_int<uint64_t>(*preempted).value_or(0);
  return thread;
}

std::map<int32_t, CpuLook::Thread> read_threads(const Directory& process) {
  std::map<int32_t, CpuLook::Thread> threads;
  const auto names = process.list("task");
  if (!names) return threads;
  for (const std::string& name : *names) {
    const auto tid = parse_int<int32_t>(name);
    const auto thread = tid ? read_thread(process, "task/" + name) : std::nullopt;
    if (thread) threads.emplace(*tid, *thread);
  }
  return threads;
}

double seconds_between(uint64_t before_ns, uint64_t after_ns) {
  return static_cast<double>(after_ns - std::min(before_ns, after_ns)) / 1e9;
}

}  // namespace

CpuLook look_at_cpu(const Machine& machine, std::span<const ProcessKey> processes) {
  CpuLook look{.at = machine.clock->now()};
  for (const ProcessKey& key : processes) {
    if (process_key(machine, key.pid) != key) continue;
    const auto directory = machine.root->open_directory("proc/" + std::to_string(key.pid));
    if (!directory) continue;
    auto threads = read_threads(**directory);
    if (!threads.empty()) look.processes.emplace(key, std::move(threads));
  }
  return look;
}

std::vector<ProcessCpu> cpu_between(const CpuLook& before, const CpuLook& after) {
  std::vector<ProcessCpu> result;
  const double window_s = static_cast<double>(after.at - before.at) / 1e9;
  for (const auto& [key, threads] : after.processes) {
    const auto known = before.processes.find(key);
    if (known == before.processes.end()) continue;
    ProcessCpu process{.key = key, .threads = static_cast<int32_t>(threads.size())};
    for (const auto& [tid, thread] : threads) {
      const auto old = known->second.find(tid);
      const CpuLook::Thread began = old == known->second.end() ? CpuLook::Thread() : old->second;
      const double ran_s = seconds_between(began.ran_ns, thread.ran_ns);
      const double queued_s = seconds_between(began.queued_ns, thread.queued_ns);
      process.ran_s += ran_s;
      process.queued_s += queued_s;
      process.preempted += thread.preempted - std::min(began.preempted, thread.preempted);
      process.busy_threads += ran_s + queued_s >= kBusyShare * window_s ? 1 : 0;
    }
    result.push_back(process);
  }
  return result;
}

}  // namespace dlprobe
