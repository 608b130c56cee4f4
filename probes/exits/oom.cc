#include "probes/facts/oom.h"

#include <algorithm>
#include <iterator>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::exits {
namespace {

OwnWords name_of_host_counter() {
  return "oom_kill of /proc/vmstat";
}
Message name_of_counter(const std::string& cgroup) {
  return "oom_kill of cgroup " + as_path(cgroup);
}

// As the kernel's log has it: the one that was met; else as the group's file had it.
struct GroupLimit {
  uint64_t bytes = 0;
  Message source;
};
std::optional<GroupLimit> limit_of(const ExitFacts& facts, const Death& death,
                                   const std::string& cgroup) {
  for (const KernelLogLine* line : death.log) {
    if (line->limit_bytes) return GroupLimit{.bytes = *line->limit_bytes, .source = "/dev/kmsg"};
  }
  for (const OomMoves& group : cgroup_oom_moves(facts, death)) {
    if (group.cgroup == cgroup && group.limit_bytes)
      return GroupLimit{.bytes = *group.limit_bytes,
                        .source = "limit of cgroup " + as_path(cgroup)};
  }
  return std::nullopt;
}

void add_memory_of_victim(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  for (const KernelLogLine* line : death.log) {
    if (line->kind != KernelLogKind::kOomKill) continue;
    cause.prove(text_fact("kernel_log", as_text(line->text), "/dev/kmsg", line->at));
    if (!line->anonymous_bytes) continue;
    cause.prove(bytes_fact("victim_anonymous", *line->anonymous_bytes, "/dev/kmsg"));
    if (line->shmem_bytes) cause.prove(bytes_fact("victim_shmem", *line->shmem_bytes, "/dev/kmsg"));
  }
  if (const ProcessSample* last = last_memory_of(facts, death)) {
    cause.prove(bytes_fact("victim_rss", *last->rss_bytes, "/proc/PID/statm"));
  }
}

void add_counters(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  for (const OomMoves& group : cgroup_oom_moves(facts, death)) {
    if (group.kills.by() > 0) {
      cause.prove(held_against(
          count_fact("oom_kills", group.kills.by(), name_of_counter(group.cgroup)), "> 0"));
    }
    if (group.group_kills && group.group_kills->by() > 0) {
      cause.prove(count_fact(
          "whole_group_kills", group.group_kills->by(),
          "oom_group_kill of cgroup " + as_path(group.cgroup) + ": memory.oom.group is set"));
    }
    if (group.limit_hits && group.limit_hits->by() > 0) {
      cause.prove(count_fact("limit_hits", group.limit_hits->by(),
                             "oom of memory.events.local of cgroup " + as_path(group.cgroup)));
    }
  }
  if (const auto host = host_oom_moves(facts, death); host && host->kills.by() > 0) {
    cause.prove(count_fact("oom_kills_of_host", host->kills.by(), name_of_host_counter()));
  }
}

/// The largest processes of the tree just before.
void add_largest(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  constexpr size_t kShown = 3;
  const Sample* sample = last_sample_before(facts, death.at());
  if (sample == nullptr) return;
  std::vector<const ProcessSample*> processes;
  for (const ProcessSample& each : sample->processes) {
    if (each.rss_bytes && *each.rss_bytes > 0) processes.push_back(&each);
  }
  std::ranges::stable_sort(processes, std::ranges::greater{},
                           [](const ProcessSample* each) { return *each->rss_bytes; });
  if (processes.size() > kShown) processes.resize(kShown);
  for (const ProcessSample* each : processes) {
    cause.prove(text_fact("largest_process",
                          describe(*facts.run, each->key) + ": " + format_bytes(*each->rss_bytes),
                          "/proc/PID/statm", sample->at));
  }
}

void add_group_use(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  const Sample* sample = last_sample_before(facts, death.at());
  if (sample == nullptr || !sample->cgroup || !*sample->cgroup) return;
  const CgroupMemory& group = **sample->cgroup;
  if (group.path != death.cgroup()) return;
  const Message source = "memory of cgroup " + as_path(group.path);
  cause.prove(bytes_fact("cgroup_used", group.used_bytes, source, sample->at));
  cause.prove(bytes_fact("cgroup_shmem", group.shmem_bytes, source, sample->at));
}

// Files of /dev/shm that came while the job ran and that no process has: nothing but their removal
// gives their memory back.
struct KeptFiles {
  size_t count = 0;
  uint64_t bytes = 0;
  std::string example;  ///< the largest one
};

// `held`: where a process may have had them at the look before.
KeptFiles files_of_nobody(const Run& run, const ShmLedger& look, const ShmLedger* held) {
  const auto is_in = [](const ShmLedger& other, const ShmSegment& file) {
    return std::ranges::find(other.segments, file.inode, &ShmSegment::inode);
  };
  KeptFiles kept;
  uint64_t largest = 0;
  for (const ShmSegment& file : look.segments) {
    const ShmLedger& first = run.ledgers.front();
    if (!file.linked || !file.holders.empty() || !file.name ||
        is_in(first, file) != first.segments.end())
      continue;
    if (held != nullptr) {
      const auto before = is_in(*held, file);
      const bool had_holder = before != held->segments.end() && !before->holders.empty();
      if (file.kind != SegmentKind::kOther || had_holder) continue;
    }
    ++kept.count;
    kept.bytes += file.taken_bytes();
    if (file.taken_bytes() <= largest) continue;
    largest = file.taken_bytes();
    kept.example = file.name.value_or("");
  }
  return kept;
}

// On a busy machine the last look before may be seconds old: one just after has what came since.
KeptFiles kept_files(const Run& run, BootNs death) {
  constexpr BootNs kJustAfter = 2 * kSecond;
  const auto later =
      std::ranges::find_if(run.ledgers, [&](const ShmLedger& ledger) { return ledger.at > death; });
  if (later == run.ledgers.begin()) return {};
  const ShmLedger& last = *std::prev(later);
  KeptFiles kept = files_of_nobody(run, last, nullptr);
  if (later == run.ledgers.end() || later->at > death + kJustAfter) return kept;
  const KeptFiles after = files_of_nobody(run, *later, &last);
  return after.bytes > kept.bytes ? after : kept;
}

// Where they are at least half of what the group had; nothing: they are not.
std::optional<Message> files_in_memory(const ExitFacts& facts, const Death& death) {
  const Sample* sample = last_sample_before(facts, death.at());
  if (sample == nullptr || !sample->cgroup || !*sample->cgroup) return std::nullopt;
  const CgroupMemory& group = **sample->cgroup;
  const KeptFiles kept = kept_files(*facts.run, death.at());
  const uint64_t of_group = std::min(kept.bytes, group.shmem_bytes);
  if (group.path != death.cgroup() || 2 * of_group < group.used_bytes) return std::nullopt;
  return say(
      "; {} of that are {} in /dev/shm that came meanwhile, such as {}, and no process has "
      "open: nobody removes them",
      own(format_bytes(of_group)), counted(kept.count, "file"), as_path(kept.example));
}

Remedy remove_files() {
  return {.title =
              "Remove files from /dev/shm that are not needed any more, or keep them on a disk: "
              "they count as memory, of which more would only fill later",
          .commands = {"ls -lRt /dev/shm | head", "tempfile.mkdtemp(dir='/var/tmp')"},
          .applies_to = {"code"},
          .verify = "df -h /dev/shm  # must stand still"};
}

Remedy use_less(const Run& run) {
  Remedy remedy{.title =
                    "Use less memory: fewer workers, fewer batches in flight, and data that "
                    "workers share instead of copying (numpy or Arrow instead of lists of "
                    "objects)",
                .verify = "dlprobe memory -- COMMAND"};
  add_smaller_loader(remedy, run, 1);
  return remedy;
}

void add_remedies_of_group(const Run& run, ExitCause& cause) {
  if (run.begin.own_memory_bytes) {
    cause.advise("Give the command more memory: dlprobe set this limit (--limit-memory)",
                 {"dlprobe run --limit-memory <size> -- COMMAND"});
    return cause.remedies.push_back(use_less(run));
  }
  cause.remedies.push_back(
      {.title = "Give the job a higher memory limit; /dev/shm counts against it too",
       .commands = {"docker run --memory=<size> ...", "srun --mem=<size> ...",
                    "systemd-run --scope -p MemoryMax=<size> ...",
                    "resources: {limits: {memory: <size>}}  # Kubernetes"},
       .applies_to = {"docker", "slurm", "bare-host", "kubernetes"},
       .verify = "cat /sys/fs/cgroup/memory.events  # oom_kill must stand still"});
  cause.remedies.push_back(use_less(run));
}

void add_remedies_of_host(const Run& run, ExitCause& cause) {
  cause.remedies.push_back(use_less(run));
  cause.remedies.push_back(
      {.title = "Find what else uses the machine's memory, or use a larger machine",
       .commands = {"ps -eo pid,rss,comm --sort=-rss | head", "free -h"},
       .applies_to = {"bare-host"},
       .verify = "grep oom_kill /proc/vmstat  # must stand still"});
}

void rule_out_sender(const Death& death, ExitCause& cause) {
  const bool logged = !death.log.empty();
  if (death.sent == nullptr && !logged) return;
  cause.rule_out("killed by a user, a scheduler or another process (DLP0503)",
                 logged ? "the kernel's log names this process as the OOM killer's victim"
                        : "the kernel sent the signal (code 128), no process did");
}

ExitCause cause_of_host(const ExitFacts& facts, const Death& death) {
  ExitCause cause;
  cause.code = FindingCode::kOomKilledByHost;
  cause.clause = "was killed by the kernel's OOM killer: the machine ran out of memory";
  cause.discriminator = "host";
  for (const Sample& sample : facts.run->samples) {
    if (sample.at > death.exit->at || !sample.host || !*sample.host) continue;
    std::erase_if(cause.evidence, [](const Evidence& each) { return each.unit == "bytes"; });
    cause.prove(bytes_fact("memory_available", (*sample.host)->available_bytes, "/proc/meminfo",
                           sample.at));
    cause.prove(
        bytes_fact("memory_total", (*sample.host)->total_bytes, "/proc/meminfo", sample.at));
    cause.prove(
        bytes_fact("swap_free", (*sample.host)->swap_free_bytes, "/proc/meminfo", sample.at));
  }
  add_remedies_of_host(*facts.run, cause);
  return cause;
}

ExitCause cause_of_group(const ExitFacts& facts, const Death& death, const OomProof& proof) {
  ExitCause cause;
  cause.code = FindingCode::kOomKilledByCgroup;
  cause.discriminator = "cgroup";
  const std::string& group = proof.limited_cgroup;
  const std::optional<GroupLimit> limit = limit_of(facts, death, group);
  cause.clause = "was killed by the kernel's OOM killer: ";
  if (group.empty()) {
    cause.clause += "the memory limit of its cgroup " + as_path(death.cgroup()) +
                    ", or of one around it, was reached";
  } else {
    cause.clause += "cgroup " + as_path(group) + " reached its memory limit" +
                    (limit ? " of " + format_bytes(limit->bytes) : "");
    cause.prove(text_fact("limited_cgroup", as_path(group), "memory controller"));
  }
  if (limit) cause.prove(bytes_fact("memory_limit", limit->bytes, limit->source));
  add_group_use(facts, death, cause);
  if (const auto files = files_in_memory(facts, death)) {
    cause.clause += *files;
    cause.remedies.push_back(remove_files());
  } else {
    add_remedies_of_group(*facts.run, cause);
  }
  return cause;
}

}  // namespace

std::optional<ExitCause> oom_cause(const ExitFacts& facts, const Death& death) {
  const std::optional<OomProof> proof = oom_proof(facts, death);
  if (!proof) return std::nullopt;
  ExitCause cause = proof->whole_host == true ? cause_of_host(facts, death)
                                              : cause_of_group(facts, death, *proof);
  cause.confidence = proof->confidence;
  cause.together = "oom " + proof->limited_cgroup;
  for (Evidence& each : signal_evidence(facts, death))
    cause.prove(std::move(each));
  add_counters(facts, death, cause);
  add_memory_of_victim(facts, death, cause);
  add_largest(facts, death, cause);
  rule_out_sender(death, cause);
  return cause;
}

void rule_out_oom(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  Alternative oom{.cause = "out of memory (DLP0501, DLP0502)"};
  const std::optional<OomMoves> host = host_oom_moves(facts, death);
  const std::vector<OomMoves> groups = cgroup_oom_moves(facts, death);
  if (death.sent != nullptr && !is_from_kernel(*death.sent)) {
    oom.why_not = "a process sent the signal (code " + own(death.sent->code) +
                  "); the OOM killer's signal comes from the kernel";
  } else if (host && host->kills.by() == 0) {
    oom.why_not = name_of_host_counter() + " stood at " + own(host->kills.after) +
                  " before and after: the OOM killer killed nothing on this machine";
  } else if (!groups.empty() && groups.front().cgroup == death.cgroup() &&
             groups.front().kills.by() == 0) {
    oom.why_not = name_of_counter(groups.front().cgroup) + " stood at " +
                  own(groups.front().kills.after) + " before and after";
  } else {
    // Then it may be why.
    cause.confidence = std::min(cause.confidence, Confidence::kLikely);
    const bool was_late = facts.run->begin.subject == SubjectKind::kPid;
    cause.gap =
        Gap{.what = "whether the OOM killer ended " + describe(*facts.run, death.process->key),
            .why = "neither the counter of its cgroup nor " + name_of_host_counter() +
                   " was read before and after",
            .effect = "dlprobe cannot tell who sent SIGKILL",
            .remedy = was_late ? "start watching before the failure: dlprobe run -- COMMAND" : ""};
    return;
  }
  cause.alternatives.push_back(std::move(oom));
}

}  // namespace dlprobe::probes::exits
