#include "reports/node_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/host_list.h"
#include "lib/base/units.h"
#include "lib/model/finding.h"
#include "reports/document/text_layout.h"
#include "reports/model/node_limits.h"
#include "reports/model/stable_id.h"

namespace dlprobe {
namespace {

constexpr size_t kMostValues = 6;     ///< of one fact
constexpr size_t kMostNamed = 4;      ///< nodes that have the most frequent value
constexpr size_t kMostDescribed = 2;  ///< differences in the message
constexpr std::string_view kMemoryLimit = "memory limit of the cgroup";
constexpr std::string_view kShmSize = "size of /dev/shm";
constexpr const char* kSource = "the nodes' reports";

struct Cause {
  FindingCode code;
  std::string_view fact;
};
// What runs out or falls short, and the fact that says how much of it there is.
constexpr auto kCauses = std::to_array<Cause>({
    {FindingCode::kShmTooSmall, kShmSize},
    {FindingCode::kShmExhausted, kShmSize},
    {FindingCode::kShmInodesExhausted, kShmSize},
    {FindingCode::kFdLimitTooLow, kOpenFilesLimit},
    {FindingCode::kFdExhausted, kOpenFilesLimit},
    {FindingCode::kFdLeakInWorker, kOpenFilesLimit},
    {FindingCode::kMemoryMapLimitReached, kMappingsLimit},
    {FindingCode::kOomKilledByCgroup, kMemoryLimit},
    {FindingCode::kMemoryLimitTooLow, kMemoryLimit},
    {FindingCode::kForkRefusedByOvercommit, kOvercommitPolicy},
    {FindingCode::kProcessLimitReached, kProcessesLimit},
    {FindingCode::kProcessLimitReached, kGroupTasksLimit},
    {FindingCode::kProcessLimitReached, kTasksLimit},
    {FindingCode::kTooManyWorkers, "usable CPUs"},
    {FindingCode::kTooManyWorkers, kCpuQuota},
});

void put_fact(std::map<std::string, std::string>& facts, std::string_view name, std::string value) {
  if (!value.empty() && value != "-") facts.emplace(name, std::move(value));
}

std::string has(size_t nodes) {
  return nodes == 1 ? "has" : "have";
}

report::Evidence evidence_of(const NodeDifference& difference) {
  report::Evidence evidence;
  evidence.name = difference.fact;
  evidence.value = {describe(difference)};
  evidence.source = kSource;
  return evidence;
}

}  // namespace

std::map<std::string, std::string> facts_of_node(const report::Report& report) {
  std::map<std::string, std::string> facts;
  put_fact(facts, "dlprobe version", report.tool.version);
  put_fact(facts, "kernel", report.host.kernel);
  put_fact(facts, "operating system", report.host.os);
  put_fact(facts, "machine", report.host.machine);
  if (report.host.cpus > 0) put_fact(facts, "usable CPUs", std::to_string(report.host.cpus));
  for (const report::NodeLimit& limit : report::items_of(report.host.limits))
    put_fact(facts, limit.name, limit.value);
  put_fact(facts, "container", report.context.container);
  const auto& memory = report.context.cgroup_limit_bytes;
  if (report.context.cgroup)
    put_fact(facts, kMemoryLimit, memory ? bytes_text(memory) : std::string(kUnlimited));
  const auto put_version = [&](std::string_view key, auto member, report::Holds /*holds*/) {
    put_fact(facts, key, (report.environment.*member).value_or(""));
  };
  list_fields(put_version, Of<report::Environment>{});
  if (report.runs.empty()) return facts;
  for (const report::ShmMount& mount : report.runs.back().shm_mounts) {
    if (mount.mount_point != "/dev/shm") continue;
    put_fact(facts, kShmSize, bytes_text(mount.size_bytes));
    put_fact(facts, "file system of /dev/shm", mount.fs_type);
  }
  return facts;
}

void NodeComparison::add(const std::string& node, const std::map<std::string, std::string>& facts) {
  for (const auto& [fact, value] : facts) {
    std::vector<std::string>& nodes = nodes_[fact][value];
    if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
  }
}

std::vector<NodeDifference> NodeComparison::differences() const {
  std::vector<NodeDifference> differences;
  for (const auto& [fact, by_value] : nodes_) {
    if (by_value.size() < 2) continue;
    NodeDifference& difference = differences.emplace_back();
    difference.fact = fact;
    for (const auto& [text, nodes] : by_value)
      difference.values.push_back({.text = text, .nodes = nodes});
    std::ranges::stable_sort(difference.values, std::ranges::greater{},
                             [](const auto& value) { return value.nodes.size(); });
  }
  return differences;
}

std::string describe(const NodeDifference& difference) {
  const auto& values = difference.values;
  const NodeDifference::Value& most = values.front();
  if (values.size() == 2 && most.nodes.size() > values[1].nodes.size()) {
    const size_t odd = values[1].nodes.size();
    return fmt::format("{} {} {}, the other {} have {}", fold_hosts(values[1].nodes), has(odd),
                       values[1].text, most.nodes.size(), most.text);
  }
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kMostValues); ++i) {
    text += fmt::format("{}{} on {}", i == 0 ? "" : "; ", values[i].text,
                        values[i].nodes.size() > kMostNamed
                            ? std::string(counted(values[i].nodes.size(), "node"))
                            : fold_hosts(values[i].nodes));
  }
  if (values.size() > kMostValues)
    text += fmt::format("; and {} other values", values.size() - kMostValues);
  return text;
}

report::Finding finding_of_differences(const std::vector<NodeDifference>& differences) {
  report::Finding finding;
  std::string described;
  for (size_t i = 0; i < differences.size(); ++i) {
    finding.evidence.push_back(evidence_of(differences[i]));
    const std::string& fact = differences[i].fact;
    if (i < kMostDescribed)
      described += fmt::format("{}{}: {}", i == 0 ? "" : "; ", fact, describe(differences[i]));
    else
      described += (i == kMostDescribed ? "; and in: " : ", ") + fact;
  }
  const FindingInfo& registered = info(FindingCode::kNodesDiffer);
  finding.code = report::CodeText(registered.code);
  finding.name = registered.name;
  finding.title = registered.title;
  finding.severity = registered.severity;
  finding.confidence = Confidence::kCertain;
  finding.message = "the nodes differ in " + described;
  finding.fingerprint =
      report::FingerprintText("v1:" + stable_id({registered.code, "cluster", ""}));
  finding.remediation.emplace_back();
  finding.remediation.back().title =
      "Give all nodes of a job the same limits, mounts and versions, or do not mix different nodes";
  finding.remediation.back().verify = "srun dlprobe gate -f json=out/%h.json";
  finding.references = {{fmt::format("dlprobe explain {}", registered.code)}};
  return finding;
}

void name_what_others_have(const std::vector<NodeDifference>& differences,
                           const std::vector<std::string>& nodes, report::Finding& finding) {
  for (const NodeDifference& difference : differences) {
    const bool is_its_limit = std::ranges::any_of(kCauses, [&](const Cause& cause) {
      return info(cause.code).code == finding.code && cause.fact == difference.fact;
    });
    if (!is_its_limit) continue;
    const auto has_all = [&](const NodeDifference::Value& value) {
      return std::ranges::includes(value.nodes, nodes);
    };
    const auto own = std::ranges::find_if(difference.values, has_all);
    if (own == difference.values.begin() || own == difference.values.end()) continue;
    finding.message += fmt::format(" ({}: {})", difference.fact, describe(difference));
    finding.evidence.push_back(evidence_of(difference));
  }
}

}  // namespace dlprobe
