// DLP0104 shm-leak: named files that become more and more, or that a job left at its end.

#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <utility>

#include "lib/base/units.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"
#include "probes/shm/remedies.h"
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
// such, it is the job's if no other program of Python's has shared memory, and there was none such
// before the job; else it is not known. Nor is it of a file with a name of a user's. Where the job
// was seen to make none at all, they must begin with it.
class Owners {
 public:
  explicit Owners(const Facts& facts) {
    if (facts.trainer != nullptr) {
      const RecordingHeader& header = *facts.header;
      const BootNs born = birth_of(header.host, facts.trainer->key);
      job_began_ = header.realtime_ns + (born - header.boottime_ns);
      if (!facts.ledgers.empty()) may_begin_ = soon_after(born, facts.ledgers.front()->at);
    }
    for (const ShmLedger* ledger : facts.ledgers) {
      for (const ShmSegment& segment : ledger->segments) {
        if (segment.linked) note(facts, segment);
        changes_[family_of(segment)][segment.inode] = segment.modified_ns;
        if (!segment.holders.empty() && !is_held_by_job(facts, segment))
          held_by_others_.insert(family_of(segment));
        if (std::ranges::any_of(segment.holders, [&](const SegmentHolder& holder) {
              return !holder.in_tree && facts.run->find_process(holder.key) == nullptr;
            }))
          had_by_others_.insert(segment.inode);
      }
    }
    makes_some_ = !made_by_job_.empty() || has_helper(*facts.run);
  }

  bool is_of_job(const ShmSegment& segment) const {
    if (!segment.linked) return false;
    const auto known = is_of_job_.find(segment.inode);
    if (known != is_of_job_.end()) return known->second;
    const Family family = family_of(segment);
    return is_of_its_time(segment) && !made_by_others_.contains(family) &&
           (makes_some_ || begin_with_job(segment, family));
  }

  // Of one that `is_of_job`.
  bool is_known(const ShmSegment& segment) const {
    const Family family = family_of(segment);
    if (is_of_job_.contains(segment.inode) || made_by_job_.contains(family)) return true;
    return family.first != SegmentKind::kOther && is_alone() && !came_before_job(family);
  }

  // Written since the job began, and nobody but its processes was seen to have it.
  bool is_of_job_alone(const ShmSegment& segment) const {
    const auto known = is_of_job_.find(segment.inode);
    return known != is_of_job_.end() && known->second && is_of_its_time(segment) &&
           !had_by_others_.contains(segment.inode);
  }
  bool is_of_its_time(const ShmSegment& segment) const { return segment.modified_ns >= job_began_; }

  // No other program of Python's has shared memory.
  bool is_alone() const {
    return std::ranges::all_of(
        held_by_others_, [](const Family& family) { return family.first == SegmentKind::kOther; });
  }

  // How long after its birth a job may have made the first of what it makes all the time.
  BootNs may_begin() const { return may_begin_; }

 private:
  // Whether those files come since the job began, and no other process has one. What lies in a
  // folder is data: shm_open(3) makes none there.
  bool begin_with_job(const ShmSegment& segment, const Family& family) const {
    const bool is_block =
        family.first == SegmentKind::kPythonShared ||
        (family.first == SegmentKind::kOther && segment.name && !segment.name->contains('/'));
    const auto& changes = changes_.at(family);
    return is_block && !held_by_others_.contains(family) && !came_before_job(family) &&
           std::ranges::any_of(changes, [&](const auto& change) {
             return change.second >= job_began_ && change.second <= job_began_ + may_begin_;
           });
  }

  // Somebody who is there to remove such files.
  static bool has_helper(const Run& run) {
    return std::ranges::any_of(run.processes, [](const ProcessInfo& each) {
      return each.role == Role::kResourceTracker || each.role == Role::kShmManager;
    });
  }

  void note(const Facts& facts, const ShmSegment& segment) {
    const bool is_made_by_job = creator_of(*facts.run, segment) != nullptr;
    const bool is_known =
        is_made_by_job || !segment.holders.empty() || segment.creator == CreatorState::kAlive;
    if (!is_known) return;
    const bool is_of_job = is_made_by_job || is_held_by_job(facts, segment);
    const auto [first, is_new] = is_of_job_.try_emplace(segment.inode, is_of_job);
    if (is_new) (is_of_job ? made_by_job_ : made_by_others_).insert(family_of(segment));
  }

  // Whether such files came before the job as they came since, as far as they are left.
  bool came_before_job(const Family& family) const {
    constexpr std::ptrdiff_t kFew = 10;
    const auto& changes = changes_.at(family);
    const auto in = [&](int64_t from, int64_t to) {
      return std::ranges::count_if(
          changes, [&](const auto& change) { return change.second >= from && change.second < to; });
    };
    const int64_t last = std::ranges::max(changes | std::views::values);
    return in(2 * job_began_ - last, job_began_) * kFew > in(job_began_, last + 1);
  }

  // How long a job that was `born` then may prepare itself, as seen at `at`.
  static BootNs soon_after(BootNs born, BootNs at) {
    return std::max<BootNs>(8 * kSecond, (at - born) / 5);
  }

  int64_t job_began_ = 0;  // CLOCK_REALTIME
  bool makes_some_ = false;
  BootNs may_begin_ = 0;
  std::map<Family, std::map<uint64_t, int64_t>> changes_;  // by inode
  std::map<uint64_t, bool> is_of_job_;                     // by inode
  std::set<Family> made_by_job_;
  std::set<Family> made_by_others_;
  std::set<Family> held_by_others_;
  std::set<uint64_t> had_by_others_;  // by inode
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

std::vector<BootNs> changes_of_job(const Facts& facts, const Owners& owners,
                                   const ShmLedger& ledger) {
  const RecordingHeader& header = *facts.header;
  std::vector<BootNs> changed;
  for (const ShmSegment& segment : ledger.segments) {
    if (owners.is_of_job(segment))
      changed.push_back(segment.modified_ns - header.realtime_ns + header.boottime_ns);
  }
  std::ranges::sort(changed);
  return changed;
}

// Before the first look: how many of those that it lists were there already, where the first of
// them is as old as the job. Of what comes and goes only the youngest are left.
void add_those_before(const Facts& facts, const Owners& owners, std::vector<SeriesPoint>& counts) {
  constexpr BootNs kMostPoints = 600;
  const ShmLedger& first = *facts.ledgers.front();
  if (first.omitted_segments > 0 || facts.trainer == nullptr) return;
  const std::vector<BootNs> changed = changes_of_job(facts, owners, first);
  const BootNs born = birth_of(facts.header->host, facts.trainer->key);
  if (changed.empty() || changed.front() > born + owners.may_begin()) return;
  const BootNs step = std::max(kSecond, (first.at - born) / kMostPoints);
  for (BootNs at = born; at < first.at; at += step) {
    const auto after = std::ranges::upper_bound(changed, at);
    counts.push_back({.at = at, .value = static_cast<double>(after - changed.begin())});
  }
}

// Between two looks: how many of those that the later one lists were there already, by the times of
// their last changes. What was removed in between is left out.
void add_those_between(const Facts& facts, const Owners& owners, const ShmLedger& earlier,
                       const ShmLedger& later, std::vector<SeriesPoint>& counts) {
  if (later.omitted_segments > 0) return;
  const std::vector<BootNs> changed = changes_of_job(facts, owners, later);
  auto use = std::ranges::upper_bound(facts.use, earlier.at, {}, &ShmUse::at);
  for (; use != facts.use.end() && use->at < later.at; ++use) {
    const auto after = std::ranges::upper_bound(changed, use->at);
    counts.push_back({.at = use->at, .value = static_cast<double>(after - changed.begin())});
  }
}

std::vector<SeriesPoint> counts_of_files(const Facts& facts, const Owners& owners) {
  std::vector<SeriesPoint> counts;
  add_those_before(facts, owners, counts);
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

Remedy remedy_for_growing_files(const Run& run, bool are_semaphores) {
  if (are_semaphores) {
    return {.title = "Make locks and queues once, not for each batch or task",
            .commands = {"lock = context.Lock()  # before the loop"},
            .verify = "ls /dev/shm | grep -c ^sem"};
  }
  Remedy remedy{.title = "Unlink each block after use, in the process that made it",
                .commands = {"block.close(); block.unlink()  # multiprocessing.shared_memory"},
                .verify = "ls /dev/shm | wc -l"};
  if (has_data_loader(run))
    remedy.commands.emplace_back("torch.multiprocessing.set_sharing_strategy('file_descriptor')");
  return remedy;
}

// Whether the job came to its end by itself, and none of its processes is there to remove anything.
bool is_all_over(const Facts& facts, BootNs at) {
  const Run& run = *facts.run;
  if (!has_subject_ended(run) || was_ended_by_dlprobe(run) || facts.trainer == nullptr)
    return false;
  const ProcessExit* end = run.find_exit(facts.trainer->key);
  const bool is_killed = end != nullptr && end->wait_status && WIFSIGNALED(*end->wait_status);
  return !is_killed && std::ranges::all_of(run.processes, [&](const ProcessInfo& process) {
    return is_known_dead(run, process.key, at);
  });
}

// Blocks that the job alone was seen to have, and those of its time that are as large, which it may
// have had between two looks: both are its own. Others of its time nobody has.
struct LeftBlocks {
  std::vector<const ShmSegment*> of_job;
  size_t seen = 0;  ///< of those
  uint64_t bytes = 0;
  uint64_t others = 0;

  void add(const ShmSegment& segment) {
    of_job.push_back(&segment);
    bytes += segment.taken_bytes();
  }
};

// Their names are drawn at random: who comes later cannot know them. A file with a name of the
// user's may be left on purpose.
LeftBlocks left_blocks(const Facts& facts, const Owners& owners) {
  const ShmLedger& first = *facts.ledgers.front();
  LeftBlocks left;
  std::set<uint64_t> sizes;
  std::vector<const ShmSegment*> unseen;
  for (const ShmSegment& segment : facts.ledgers.back()->segments) {
    const bool is_left = segment.kind == SegmentKind::kPythonShared && segment.linked &&
                         segment.holders.empty() && owners.is_of_its_time(segment);
    if (!is_left || std::ranges::count(first.segments, segment.inode, &ShmSegment::inode) > 0)
      continue;
    if (!owners.is_of_job_alone(segment)) {
      unseen.push_back(&segment);
      continue;
    }
    left.add(segment);
    sizes.insert(segment.size_bytes);
  }
  left.seen = left.of_job.size();
  for (const ShmSegment* segment : unseen) {
    if (owners.is_of_job(*segment) && sizes.contains(segment->size_bytes)) {
      left.add(*segment);
    } else {
      ++left.others;
    }
  }
  return left;
}

}  // namespace

std::optional<Finding> left_at_end(const Facts& facts) {
  if (facts.ledgers.empty() || !is_all_over(facts, facts.ledgers.back()->at)) return std::nullopt;
  const ShmLedger& last = *facts.ledgers.back();
  const Owners owners(facts);
  const LeftBlocks left = left_blocks(facts, owners);
  if (left.bytes < kMiB || !last.whole_machine || last.hides_pids) return std::nullopt;
  Finding finding = new_finding(FindingCode::kShmLeak, Confidence::kLikely);
  finding.severity = Severity::kWarning;
  finding.discriminator = kLeftAtEnd;
  finding.processes = {facts.trainer->key};
  finding.message = "the job ended and left " + counted(left.of_job.size(), "block") + " with " +
                    format_bytes(left.bytes) + " in " + facts.where() + ", which nothing removes";
  if (left.seen < left.of_job.size()) {
    finding.message += ": its processes were seen to have " + own(left.seen) +
                       " of them, the others came while it ran and are as large";
  }
  if (left.others > 0)
    finding.message += "; " + own(left.others) + " more of that time belong to no process, either";
  finding.first_seen = finding.last_seen = last.at;
  finding.prove(count_fact("leaked_files", left.of_job.size(), kNamedSource, last.at));
  finding.prove(bytes_fact("leaked_bytes", left.bytes, kNamedSource, last.at));
  finding.prove(count_fact("holders", 0, kNamedSource, last.at));
  finding.rule_out("another job", "its processes, and no others, were seen to have such blocks");
  finding.rule_out("a resource tracker that still works", "no process of the job is left");
  finding.remedies.push_back(remedy_for_growing_files(*facts.run, false));
  std::ranges::move(remedies_remove(facts, left.of_job), std::back_inserter(finding.remedies));
  return finding;
}

std::optional<Finding> growing_files(const Facts& facts, Finding* failure) {
  if (facts.use.empty() || facts.ledgers.empty()) return std::nullopt;
  const Owners owners(facts);
  auto growth = find_count_growth(counts_of_files(facts, owners), kRiseOfNamedFiles);
  if (!growth) return std::nullopt;
  const ShmLedger& last = *ledger_at(facts, growth->to);
  const bool is_by_age = growth->from < facts.ledgers.front()->at && facts.trainer != nullptr;
  const NamedFiles before =
      is_by_age ? NamedFiles() : named_files(owners, *ledger_at(facts, growth->from));
  if (is_by_age && growth->is_brief) {
    growth->is_by_age = true;
    growth->from = birth_of(facts.header->host, facts.trainer->key);
  }
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
  tell_count_growth(finding, *growth, kNamedSource, limit_of_files(facts, now), "a pool of blocks");
  if (failure != nullptr && !failure->consequence_of && now.bytes >= facts.size_bytes() / 2) {
    failure->consequence_of = finding.code;
    finding.severity = failure->severity;
  }
  if (is_known) finding.rule_out("another job", "no process outside this tree holds them");
  finding.remedies.push_back(remedy_for_growing_files(*facts.run, are_semaphores));
  return finding;
}

}  // namespace dlprobe::probes::shm
