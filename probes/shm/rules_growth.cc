// DLP0104 shm-leak ahead: named files that become more and more.

#include <algorithm>

#include "lib/base/units.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/facts.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

constexpr const char* kNamedSource = "list of /dev/shm, /proc/PID/fd and maps";

// Files with a name that no process outside the job holds.
struct NamedFiles {
  uint64_t segments = 0;
  uint64_t semaphores = 0;
  uint64_t bytes = 0;
  uint64_t all() const { return segments + semaphores; }
};

// A ledger lists 2000 files at the most. The others are taken to be like those.
void add_unlisted(const ShmLedger& ledger, NamedFiles& named) {
  if (ledger.segments.empty()) return;
  const uint64_t unlisted = ledger.omitted_segments * named.all() / ledger.segments.size();
  (named.semaphores > named.segments ? named.semaphores : named.segments) += unlisted;
  if (unlisted > 0) named.bytes += ledger.omitted_bytes;
}

NamedFiles named_files(const Facts& facts, const ShmLedger& ledger) {
  NamedFiles named;
  for (const ShmSegment& segment : ledger.segments) {
    const bool is_of_others = !segment.holders.empty() && !is_held_by_job(facts, segment);
    if (!segment.linked || is_of_others) continue;
    ++(is_semaphore(segment) ? named.semaphores : named.segments);
    named.bytes += segment.taken_bytes();
  }
  add_unlisted(ledger, named);
  return named;
}

// A file that nobody holds may be of any program of the machine. Whether the job is known to make
// such files: one was seen in its hands, or it has a process that is there to remove them.
bool makes_named_files(const Facts& facts) {
  const bool has_helper = std::ranges::any_of(facts.run->processes, [](const ProcessInfo& each) {
    return each.role == Role::kResourceTracker || each.role == Role::kShmManager;
  });
  return has_helper || std::ranges::any_of(facts.ledgers, [&](const ShmLedger* ledger) {
           return std::ranges::any_of(ledger->segments, [&](const ShmSegment& segment) {
             return segment.linked && is_held_by_job(facts, segment);
           });
         });
}

// How many files there were. A mount without a limit of inodes does not count them (statvfs(3)).
std::vector<SeriesPoint> counts_of_files(const Facts& facts) {
  std::vector<SeriesPoint> counts;
  if (facts.use.back().inodes > 0) {
    for (const ShmUse& use : facts.use)
      counts.push_back({.at = use.at, .value = static_cast<double>(use.inodes_used)});
  } else {
    for (const ShmLedger* ledger : facts.ledgers)
      counts.push_back(
          {.at = ledger->at, .value = static_cast<double>(named_files(facts, *ledger).all())});
  }
  leave_out_end(*facts.run, counts);
  return counts;
}

// What comes first: no inode left, or no page.
CountLimit limit_of_files(const Facts& facts, const NamedFiles& named) {
  const ShmUse& use = facts.use.back();
  const uint64_t each = std::max<uint64_t>(named.bytes / std::max<uint64_t>(named.all(), 1), 1);
  const uint64_t by_space = free_bytes(use) == kUnlimited ? kUnlimited : free_bytes(use) / each;
  const uint64_t by_inodes =
      use.inodes == 0 ? kUnlimited : use.inodes - std::min(use.inodes, use.inodes_used);
  if (by_inodes < by_space) {
    return {.name = "the limit of files in " + facts.where() + " (" + own(use.inodes) + ")",
            .left = by_inodes,
            .has_ended = has_subject_ended(*facts.run)};
  }
  return {.name = "the size of " + facts.where() + " (" + format_bytes(use.size_bytes) + ")",
          .left = by_space,
          .has_ended = has_subject_ended(*facts.run)};
}

}  // namespace

std::optional<Finding> growing_files(const Facts& facts, Finding* failure) {
  constexpr double kLeast = 32;
  constexpr double kMostOfIt = 0.7;
  if (facts.use.empty() || facts.ledgers.empty()) return std::nullopt;
  const auto growth = find_count_growth(counts_of_files(facts), kLeast);
  if (!growth || !makes_named_files(facts)) return std::nullopt;
  const ShmLedger& first = *ledger_at(facts, growth->from);
  const ShmLedger& last = *ledger_at(facts, growth->to);
  const NamedFiles before = named_files(facts, first);
  const NamedFiles now = named_files(facts, last);
  const double more = static_cast<double>(now.all()) - static_cast<double>(before.all());
  const double time = static_cast<double>(last.at - first.at) / kSecond;
  if (more < kMostOfIt * growth->per_second * time || more < kLeast / 2) return std::nullopt;
  const bool are_semaphores = now.semaphores - std::min(now.semaphores, before.semaphores) >
                              now.segments - std::min(now.segments, before.segments);
  Finding finding = new_finding(FindingCode::kShmLeak, Confidence::kLikely);
  finding.discriminator = are_semaphores ? "growing-semaphores" : "growing-segments";
  finding.message = are_semaphores
                        ? "the job leaks named semaphores in " + facts.where() + ": " +
                              counted(now.semaphores, "semaphore")
                        : "the job leaks named shared memory in " + facts.where() + ": " +
                              counted(now.segments, "file") + " with " + format_bytes(now.bytes);
  if (facts.trainer != nullptr) finding.processes = {facts.trainer->key};
  finding.prove(count_fact("named_files", now.all(), kNamedSource, last.at));
  finding.prove(bytes_fact("named_bytes", now.bytes, kNamedSource, last.at));
  tell_count_growth(finding, *growth, facts.source, limit_of_files(facts, now));
  if (failure != nullptr && !failure->consequence_of && now.bytes >= facts.size_bytes() / 2) {
    failure->consequence_of = finding.code;
    finding.severity = failure->severity;
  }
  finding.rule_out("another job", "no process outside this tree holds them");
  if (are_semaphores) {
    finding.remedies.push_back({.title = "Make locks and queues once, not for each batch or task",
                                .commands = {"lock = context.Lock()  # before the loop"},
                                .verify = "ls /dev/shm | grep -c ^sem"});
  } else {
    finding.remedies.push_back(
        {.title = "Unlink each block after use, in the process that made it",
         .commands = {"block.close(); block.unlink()  # multiprocessing.shared_memory",
                      "torch.multiprocessing.set_sharing_strategy('file_descriptor')"},
         .verify = "ls /dev/shm | wc -l"});
  }
  return finding;
}

}  // namespace dlprobe::probes::shm
