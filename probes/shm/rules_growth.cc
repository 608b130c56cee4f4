// DLP0104 shm-leak ahead: named files that become more and more.

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "lib/base/units.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/facts.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

constexpr const char* kNamedSource = "list of /dev/shm, /proc/PID/fd and maps";

// Files with a name that are the job's.
struct NamedFiles {
  uint64_t segments = 0;
  uint64_t semaphores = 0;
  uint64_t bytes = 0;
  uint64_t of_nobody_known = 0;  // of those that are listed
  uint64_t all() const { return segments + semaphores; }
};

// What makes files of that sort: by their kind, and of names that tell none by how they begin.
using Family = std::pair<SegmentKind, std::string>;
Family family_of(const ShmSegment& segment) {
  if (segment.kind != SegmentKind::kOther || !segment.name) return {segment.kind, ""};
  const auto is_letter = [](unsigned char c) { return c < 0x80 && std::isalpha(c) != 0; };
  const auto end = std::ranges::find_if_not(*segment.name, is_letter);
  return {segment.kind, std::string(segment.name->begin(), end)};
}

// Whose the named files are. A file is of those in whose hands it was first seen. One that was in
// nobody's may be of anybody that makes such files, and lived then. Where nobody was seen to make
// such, it is the job's if no other program of Python's has shared memory; else it is not known.
class Owners {
 public:
  explicit Owners(const Facts& facts) {
    if (facts.trainer != nullptr) {
      const RecordingHeader& header = *facts.header;
      const BootNs born = birth_of(header.host, facts.trainer->key);
      job_began_ = header.realtime_ns + (born - header.boottime_ns);
    }
    for (const ShmLedger* ledger : facts.ledgers) {
      for (const ShmSegment& segment : ledger->segments) {
        if (segment.linked) note(facts, segment);
        is_alone_ = is_alone_ && (segment.kind == SegmentKind::kOther || segment.holders.empty() ||
                                  is_held_by_job(facts, segment));
      }
    }
  }

  bool is_of_job(const ShmSegment& segment) const {
    if (!segment.linked) return false;
    const auto known = is_of_job_.find(segment.inode);
    if (known != is_of_job_.end()) return known->second;
    return segment.modified_ns >= job_began_ && !made_by_others_.contains(family_of(segment));
  }

  // Of one that `is_of_job`.
  bool is_known(const ShmSegment& segment) const {
    return is_alone_ || is_of_job_.contains(segment.inode) ||
           made_by_job_.contains(family_of(segment));
  }

 private:
  void note(const Facts& facts, const ShmSegment& segment) {
    const bool is_made_by_job = creator_of(*facts.run, segment) != nullptr;
    const bool is_known =
        is_made_by_job || !segment.holders.empty() || segment.creator == CreatorState::kAlive;
    if (!is_known) return;
    const bool is_of_job = is_made_by_job || is_held_by_job(facts, segment);
    const auto [first, is_new] = is_of_job_.try_emplace(segment.inode, is_of_job);
    if (is_new) (is_of_job ? made_by_job_ : made_by_others_).insert(family_of(segment));
  }

  int64_t job_began_ = 0;               // CLOCK_REALTIME
  std::map<uint64_t, bool> is_of_job_;  // by inode
  bool is_alone_ = true;
  std::set<Family> made_by_job_;
  std::set<Family> made_by_others_;
};

// A ledger lists 2000 files at the most. The others are taken to be like those.
void add_unlisted(const ShmLedger& ledger, NamedFiles& named) {
  if (ledger.segments.empty()) return;
  const uint64_t unlisted = ledger.omitted_segments * named.all() / ledger.segments.size();
  (named.semaphores > named.segments ? named.semaphores : named.segments) += unlisted;
  if (unlisted > 0) named.bytes += ledger.omitted_bytes;
}

NamedFiles named_files(const Owners& owners, const ShmLedger& ledger) {
  NamedFiles named;
  for (const ShmSegment& segment : ledger.segments) {
    if (!owners.is_of_job(segment)) continue;
    ++(is_semaphore(segment) ? named.semaphores : named.segments);
    if (!owners.is_known(segment)) ++named.of_nobody_known;
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

// Between two looks: how many of those that the later one lists were there already, by the times of
// their last changes. What was removed in between is left out.
void add_those_between(const Facts& facts, const Owners& owners, const ShmLedger& earlier,
                       const ShmLedger& later, std::vector<SeriesPoint>& counts) {
  if (later.omitted_segments > 0) return;
  const RecordingHeader& header = *facts.header;
  std::vector<BootNs> changed;
  for (const ShmSegment& segment : later.segments) {
    if (owners.is_of_job(segment))
      changed.push_back(segment.modified_ns - header.realtime_ns + header.boottime_ns);
  }
  std::ranges::sort(changed);
  auto use = std::ranges::upper_bound(facts.use, earlier.at, {}, &ShmUse::at);
  for (; use != facts.use.end() && use->at < later.at; ++use) {
    const auto after = std::ranges::upper_bound(changed, use->at);
    counts.push_back({.at = use->at, .value = static_cast<double>(after - changed.begin())});
  }
}

std::vector<SeriesPoint> counts_of_files(const Facts& facts, const Owners& owners) {
  std::vector<SeriesPoint> counts;
  const ShmLedger* earlier = nullptr;
  for (const ShmLedger* ledger : facts.ledgers) {
    if (earlier != nullptr) add_those_between(facts, owners, *earlier, *ledger, counts);
    counts.push_back(
        {.at = ledger->at, .value = static_cast<double>(named_files(owners, *ledger).all())});
    earlier = ledger;
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
  if (facts.use.empty() || facts.ledgers.empty()) return std::nullopt;
  const Owners owners(facts);
  const auto growth = find_count_growth(counts_of_files(facts, owners), kRiseOfNamedFiles);
  if (!growth || !makes_named_files(facts)) return std::nullopt;
  const ShmLedger& last = *ledger_at(facts, growth->to);
  const NamedFiles before = named_files(owners, *ledger_at(facts, growth->from));
  const NamedFiles now = named_files(owners, last);
  const bool are_semaphores = now.semaphores - std::min(now.semaphores, before.semaphores) >
                              now.segments - std::min(now.segments, before.segments);
  const uint64_t files = are_semaphores ? now.semaphores : now.segments;
  Finding finding = new_finding(FindingCode::kShmLeak, Confidence::kLikely);
  finding.discriminator = are_semaphores ? "growing-semaphores" : "growing-segments";
  const bool is_known = 2 * now.of_nobody_known < files;
  const OwnWords what = are_semaphores ? "named semaphores" : "named shared memory";
  finding.message = is_known ? "the job leaks " + what : "this job, or another one, leaks " + what;
  finding.message += " in " + facts.where() + ": " +
                     counted(files, are_semaphores ? "semaphore" : "file") +
                     (are_semaphores ? "" : " with " + format_bytes(now.bytes));
  // Of no process: a risk, behind what is wrong with the job itself.
  if (is_known && facts.trainer != nullptr) finding.processes = {facts.trainer->key};
  finding.prove(count_fact("named_files", files, kNamedSource, last.at));
  finding.prove(bytes_fact("named_bytes", now.bytes, kNamedSource, last.at));
  tell_count_growth(finding, *growth, kNamedSource, limit_of_files(facts, now));
  if (failure != nullptr && !failure->consequence_of && now.bytes >= facts.size_bytes() / 2) {
    failure->consequence_of = finding.code;
    finding.severity = failure->severity;
  }
  if (is_known) finding.rule_out("another job", "no process outside this tree holds them");
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
