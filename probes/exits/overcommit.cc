// DLP0513 fork-refused-by-overcommit.

#include <algorithm>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/seen.h"

namespace dlprobe::probes::exits {
namespace {

constexpr int kNeverBeyondLimit = 2;  // Documentation/mm/overcommit-accounting.rst
// A machine with less than this part of its memory to be had lacks memory itself.
constexpr uint64_t kStarvedShare = 8;

/// What the kernel had promised when the process failed.
struct Promises {
  uint64_t limit = 0;
  uint64_t taken = 0;
  uint64_t available = 0;
  uint64_t copy = 0;  ///< what a copy of the process is counted as, at the least
  BootNs at = 0;

  uint64_t left() const { return limit - std::min(limit, taken); }
};

// Memory of its own, which a copy may write to: the kernel counts all of it once more.
uint64_t own_memory(const Sample& sample, const ProcessKey& key) {
  const auto found = std::ranges::find(sample.processes, key, &ProcessSample::key);
  if (found == sample.processes.end() || !found->rss_bytes || !found->rss_shared_bytes) return 0;
  return *found->rss_bytes - std::min(*found->rss_bytes, *found->rss_shared_bytes);
}

// Of the looks before the end, the one at which the process had most.
std::optional<Promises> promises_before(const ExitFacts& facts, const Death& death) {
  constexpr BootNs kShortBefore = 10 * kSecond;
  std::optional<Promises> most;
  for (const Sample& sample : facts.run->samples) {
    const bool is_near = sample.at <= death.at() && sample.at >= death.at() - kShortBefore;
    if (!is_near || !sample.host || !*sample.host) continue;
    const HostMemory& host = **sample.host;
    if (!host.committed_bytes || !host.commit_limit_bytes) continue;
    if (host.available_bytes < host.total_bytes / kStarvedShare) return std::nullopt;
    const uint64_t copy = own_memory(sample, death.process->key);
    if (most && copy <= most->copy) continue;
    most = {.limit = *host.commit_limit_bytes,
            .taken = *host.committed_bytes,
            .available = host.available_bytes,
            .copy = copy,
            .at = sample.at};
  }
  return most;
}

}  // namespace

std::vector<Remedy> remedies_for_refused_copy(const char* title, const char* command) {
  return {{.title = "Start workers from a small process: then nothing of the trainer is copied",
           .commands = {"DataLoader(..., multiprocessing_context='forkserver')",
                        "DataLoader(..., multiprocessing_context='spawn')"},
           .verify = "dlprobe run -- COMMAND",
           .settings = {{SettingKind::kStartMethod, "", "spawn"}}},
          {.title = title,
           .commands = {command},
           .applies_to = {"bare-host"},
           .verify = "sysctl vm.overcommit_memory"}};
}

std::optional<ExitCause> refused_fork(const ExitFacts& facts, const Death& death) {
  const bool may_fork = death.process->role == Role::kTrainer ||
                        death.process->role == Role::kForkserver ||
                        facts.run->begin.root == death.process->key;
  if (facts.header->host.overcommit_memory != kNeverBeyondLimit || !may_fork || death.signal != 0 ||
      death.exit_code == 0)
    return std::nullopt;
  const auto promises = promises_before(facts, death);
  if (!promises || promises->copy <= promises->left()) return std::nullopt;
  constexpr const char* kSource = "/proc/meminfo";
  ExitCause cause;
  cause.code = FindingCode::kForkRefusedByOvercommit;
  cause.confidence = Confidence::kLikely;
  cause.clause = "failed with " + format_bytes(promises->available) +
                 " of memory free: a copy of the process needs " + format_bytes(promises->copy) +
                 ", and with vm.overcommit_memory=2 the kernel grants only " +
                 format_bytes(promises->left()) + " more";
  cause.discriminator = "overcommit";
  cause.together = cause.discriminator;
  cause.evidence = {
      text_fact("overcommit_memory", "2", "/proc/sys/vm/overcommit_memory"),
      held_against(bytes_fact("own_memory", promises->copy, "/proc/PID/statm", promises->at),
                   "> left"),
      bytes_fact("left", promises->left(), "CommitLimit less Committed_AS", promises->at),
      bytes_fact("limit", promises->limit, kSource, promises->at),
      bytes_fact("taken", promises->taken, kSource, promises->at),
      bytes_fact("memory_available", promises->available, kSource, promises->at)};
  cause.rule_out("out of memory (DLP0501, DLP0502)",
                 "memory was free, and no signal ended the process");
  cause.remedies = remedies_for_refused_copy(
      "Allow overcommit, as Linux does by default; first ask who turned it off",
      "sudo sysctl -w vm.overcommit_memory=0");
  return cause;
}

bool saw_overcommit(const RecordingView& recording) {
  return recording.header.host.overcommit_memory.has_value() && saw_ends(recording);
}

}  // namespace dlprobe::probes::exits
