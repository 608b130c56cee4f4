#include "probes/facts/oom.h"

#include <algorithm>
#include <csignal>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// A machine with less than this part of its memory to be had is out of memory.
constexpr uint64_t kStarvedShare = 32;

bool by_kernel_log(const Death& death, OomProof& proof) {
  bool any = false;
  for (const KernelLogLine* line : death.log) {
    if (line->kind != KernelLogKind::kOomKill) continue;
    any = true;
    if (line->whole_host) proof.whole_host = line->whole_host;
    if (!line->limited_cgroup.empty()) proof.limited_cgroup = line->limited_cgroup;
  }
  return any;
}

/// Members of the same group that a SIGKILL ended around then: each wants its own kill.
uint64_t killed_with(const ExitFacts& facts, const Death& death) {
  return static_cast<uint64_t>(std::ranges::count_if(facts.deaths, [&](const Death& other) {
    const bool near = other.exit->at >= death.exit->at - 2 * kSecond &&
                      other.exit->at <= death.exit->at + kSecond;
    return other.signal == SIGKILL && near && other.cgroup() == death.cgroup();
  }));
}

std::optional<OomProof> by_counters(const ExitFacts& facts, const Death& death) {
  OomProof proof;
  const bool from_kernel = death.sent != nullptr;  // others were left out before
  const std::vector<OomMoves> groups = cgroup_oom_moves(facts, death);
  const bool own_known = !groups.empty() && groups.front().cgroup == death.cgroup();
  if (own_known && groups.front().kills.by() > 0) {
    const bool enough = groups.front().kills.by() >= killed_with(facts, death);
    if (!from_kernel && !enough) proof.confidence = Confidence::kPossible;
    return proof;
  }
  const std::optional<OomMoves> host = host_oom_moves(facts, death);
  if (!host || host->kills.by() == 0) return std::nullopt;
  // Somebody was killed on this machine, perhaps in a group that cannot be seen from here.
  if (!from_kernel && own_known) return std::nullopt;
  proof.confidence = from_kernel ? Confidence::kLikely : Confidence::kPossible;
  return proof;
}

const HostMemory* last_host_memory(const ExitFacts& facts, BootNs at) {
  const HostMemory* last = nullptr;
  for (const Sample& sample : facts.run->samples) {
    if (sample.at > at) break;
    if (const auto& host = sample.host; host && *host) last = &**host;
  }
  return last;
}

void find_limited_group(const ExitFacts& facts, const Death& death, OomProof& proof) {
  if (!proof.limited_cgroup.empty() || proof.whole_host == true) return;
  bool counts_hits = false;
  for (const OomMoves& group : cgroup_oom_moves(facts, death)) {
    counts_hits = counts_hits || group.limit_hits.has_value();
    const bool hit = group.limit_hits && group.limit_hits->by() > 0;
    // v1 counts how often the limit was met, which page cache does, too.
    const bool met = group.limit_meets && group.limit_meets->by() > 0 && group.limit_bytes;
    if (!hit && !met) continue;
    proof.limited_cgroup = group.cgroup;
    proof.whole_host = false;
    return;
  }
  if (proof.whole_host) return;
  const HostMemory* host = last_host_memory(facts, death.at());
  const bool starved = host != nullptr && host->available_bytes < host->total_bytes / kStarvedShare;
  if (starved || counts_hits) proof.whole_host = starved;
}

}  // namespace

std::optional<OomProof> oom_proof(const ExitFacts& facts, const Death& death) {
  if (death.signal != SIGKILL) return std::nullopt;
  OomProof proof;
  if (!by_kernel_log(death, proof)) {
    if (death.sent != nullptr && !is_from_kernel(*death.sent)) return std::nullopt;
    auto counted = by_counters(facts, death);
    if (!counted) return std::nullopt;
    proof = *counted;
  }
  find_limited_group(facts, death, proof);
  return proof;
}

}  // namespace dlprobe
