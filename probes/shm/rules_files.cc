// DLP0103 shm-stale-files, DLP0104 shm-leak, DLP0105 shm-held-by-another-job, DLP0107
// leaked-semaphores.

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "lib/base/units.h"
#include "lib/model/memory_need.h"
#include "probes/facts/facts.h"
#include "probes/shm/remedies.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

// Managers and trackers clean up within 2 s of a death; what is there later stays.
constexpr BootNs kCleanUpTime = 3 * kSecond;
// By its last change alone: a file this old is no left-over of a death just now.
constexpr BootNs kOldFile = 10 * kSecond;
constexpr size_t kMostNamed = 5;
constexpr const char* kScanSource = "scan of /dev/shm and of every /proc/PID/fd and maps";

// When each file was first seen without a holder.
std::map<uint64_t, BootNs> unheld_since(const Facts& facts) {
  std::map<uint64_t, BootNs> since;
  for (const ShmLedger* ledger : facts.ledgers) {
    for (const ShmSegment& segment : ledger->segments) {
      if (segment.holders.empty())
        since.try_emplace(segment.inode, ledger->at);
      else
        since.erase(segment.inode);
    }
  }
  return since;
}

BootNs age_by_change(const Facts& facts, const ShmSegment& segment, BootNs at) {
  const RecordingHeader& header = *facts.header;
  return header.realtime_ns + (at - header.boottime_ns) - segment.modified_ns;
}

// A process that will still remove files of the dead: a manager of the subject that lives.
bool is_cleaner_alive(const Facts& facts, BootNs at) {
  return std::ranges::any_of(facts.run->processes, [&](const ProcessInfo& process) {
    return process.role == Role::kShmManager && !is_known_dead(*facts.run, process.key, at);
  });
}

// The files of `share` that are past the time in which somebody may still remove them.
Share lasting(const Facts& facts, const Share& share, BootNs at) {
  const std::map<uint64_t, BootNs> since = unheld_since(facts);
  const bool cleaner_alive = is_cleaner_alive(facts, at);
  Share result;
  for (const ShmSegment* segment : share.segments) {
    const bool watched =
        since.contains(segment->inode) && at - since.at(segment->inode) >= kCleanUpTime;
    const bool own = creator_of(*facts.run, *segment) != nullptr;
    const bool settled =
        own ? watched || !cleaner_alive : watched || age_by_change(facts, *segment, at) >= kOldFile;
    if (!settled) continue;
    result.bytes += segment->taken_bytes();
    result.segments.push_back(segment);
  }
  return result;
}

Message name_of(const ShmSegment& segment) {
  return segment.name ? as_path(*segment.name) : "inode " + own(segment.inode);
}

void add_named(Finding& finding, const Share& share, BootNs at) {
  size_t count = 0;
  for (const ShmSegment* segment : share.segments) {
    if (count++ == kMostNamed) break;
    finding.prove(text_fact("file", name_of(*segment) + ", " + format_bytes(segment->taken_bytes()),
                            kScanSource, at));
  }
}

OwnWords creators_of(const Share& share) {
  std::set<int32_t> pids;
  for (const ShmSegment* segment : share.segments) {
    if (segment->creator_pid) pids.insert(*segment->creator_pid);
  }
  OwnWords text;
  for (const int32_t pid : pids)
    text += (text.empty() ? "" : ", ") + own(pid);
  return text;
}

void add_blame(Finding& finding, const Facts& facts, const Blame* blame) {
  if (blame == nullptr || blame->code != finding.code) return;
  finding.severity = Severity::kError;
  const Shortage& shortage = *blame->shortage;
  const bool foretold = shortage.how == Shortage::How::kForecast;
  const OwnWords wanted =
      shortage.wanted_bytes == 0 ? "a segment" : format_bytes(shortage.wanted_bytes);
  finding.message += foretold ? ", and this loader needs " : ", and the job could not allocate ";
  finding.message += wanted + " with " + format_bytes(free_bytes(shortage.use)) + " of " +
                     format_bytes(shortage.use.size_bytes) + " free";
  finding.prove(bytes_fact("shm_size", shortage.use.size_bytes, facts.source, shortage.use.at));
  finding.prove(bytes_fact("shm_used", shortage.use.used_bytes, facts.source, shortage.use.at));
  const Demand demand = demand_of(facts);
  if (demand.bytes == 0) return;
  finding.prove(held_against(bytes_fact("loader_needs", demand.bytes, demand.formula),
                             "<= shm_size: alone it would fit"));
}

// The moment that a rule about files judges: that of the shortage, else the last look.
const ShmLedger* judged_ledger(const Facts& facts, const Blame* blame) {
  if (blame != nullptr) return blame->split.ledger;
  return facts.ledgers.empty() ? nullptr : facts.ledgers.back();
}

// Whether each names its creator, which is dead; a block that nobody holds names none.
bool all_known_dead(const Share& share) {
  return std::ranges::all_of(
      share.segments, [](const ShmSegment* segment) { return segment->creator_pid.has_value(); });
}

// Whether blocks that nobody holds come or go while a job is watched: somebody is at work, and has
// each for a moment alone.
bool is_somebody_at_work(const Facts& facts) {
  const auto unheld = [](const ShmLedger& ledger) {
    std::set<uint64_t> inodes;
    for (const ShmSegment& segment : ledger.segments)
      if (segment.kind == SegmentKind::kPythonShared && segment.linked && segment.holders.empty())
        inodes.insert(segment.inode);
    return inodes;
  };
  return unheld(*facts.ledgers.front()) != unheld(*facts.ledgers.back());
}

// Blocks of multiprocessing.shared_memory keep an open file for as long as anybody uses them. What
// was written in the time of a job that lives may be on its way from one process of it to another;
// after its end it may be told already.
void add_unheld_blocks(const Facts& facts, BootNs at, bool is_told, Share& stale,
                       const Share& unheld) {
  const bool lives = facts.trainer != nullptr && !is_known_dead(*facts.run, facts.trainer->key, at);
  if (lives && is_somebody_at_work(facts)) return;
  const bool older_only = lives || (facts.trainer != nullptr && is_told);
  const BootNs born = older_only ? birth_of(facts.header->host, facts.trainer->key) : at;
  for (const ShmSegment* segment : unheld.segments) {
    if (segment->kind != SegmentKind::kPythonShared) continue;
    if (older_only && age_by_change(facts, *segment, at) < at - born) continue;
    stale.bytes += segment->taken_bytes();
    stale.segments.push_back(segment);
  }
}

Severity severity_of_waste(const Facts& facts, uint64_t bytes) {
  const uint64_t size = facts.size_bytes();
  const bool much = bytes >= 64 * kMiB || (size > 0 && bytes >= size / 100);
  return much ? Severity::kWarning : Severity::kInfo;
}

// What of a share the subject's own processes made.
uint64_t bytes_of_tree(const Facts& facts, const Share& share) {
  uint64_t bytes = 0;
  for (const ShmSegment* segment : share.segments)
    if (creator_of(*facts.run, *segment) != nullptr) bytes += segment->taken_bytes();
  return bytes;
}

// The last ledger up to then that was taken while the trainer lived.
const ShmLedger* last_ledger_of_trainer(const Facts& facts, BootNs until) {
  const ShmLedger* last = nullptr;
  if (facts.trainer == nullptr) return last;
  for (const ShmLedger* ledger : facts.ledgers) {
    if (ledger->at <= until && !is_known_dead(*facts.run, facts.trainer->key, ledger->at))
      last = ledger;
  }
  return last;
}

std::map<ProcessKey, std::pair<std::string, uint64_t>> holders_of(const Share& share) {
  std::map<ProcessKey, std::pair<std::string, uint64_t>> holders;
  for (const ShmSegment* segment : share.segments) {
    if (segment->holders.empty()) {
      auto& [comm, bytes] =
          holders[ProcessKey{.pid = segment->creator_pid.value_or(0), .start_ticks = 0}];
      bytes += segment->taken_bytes();
      continue;
    }
    auto& [comm, bytes] = holders[segment->holders.front().key];
    comm = segment->holders.front().comm;
    bytes += segment->taken_bytes();
  }
  return holders;
}

Message describe_holder(const ProcessKey& key, const std::string& comm) {
  return "pid " + own(key.pid) + (comm.empty() ? "" : " (" + as_name(comm) + ")");
}

// The files that somebody else than their makers was seen to hold: who lets one go removes it just
// after, unless it is ending itself.
std::set<uint64_t> received_files(const Facts& facts) {
  std::set<uint64_t> inodes;
  for (const ShmLedger* ledger : facts.ledgers) {
    for (const ShmSegment& segment : ledger->segments) {
      const ProcessInfo* creator = creator_of(*facts.run, segment);
      const bool by_another =
          std::ranges::any_of(segment.holders, [&](const SegmentHolder& holder) {
            return creator == nullptr || holder.key != creator->key;
          });
      if (by_another) inodes.insert(segment.inode);
    }
  }
  return inodes;
}

// What of a share of the dead is past the time in which somebody may still remove it.
struct LastingLeak {
  const ShmLedger* ledger = nullptr;
  Share leaked;
  uint64_t known_bytes = 0;  // of makers that were seen to be the subject's
};
LastingLeak lasting_leak(const Facts& facts, const ShmLedger& ledger) {
  const BootNs at = ledger.at;
  const std::map<uint64_t, BootNs> since = unheld_since(facts);
  const std::set<uint64_t> received = received_files(facts);
  LastingLeak result = {.ledger = &ledger};
  for (const ShmSegment* segment : split_ledger(facts, ledger).leaked.segments) {
    const ProcessInfo* creator = creator_of(*facts.run, *segment);
    const bool long_dead =
        creator == nullptr || is_known_dead(*facts.run, creator->key, at - kCleanUpTime);
    const bool long_unheld =
        since.contains(segment->inode) && at - since.at(segment->inode) >= kCleanUpTime;
    const bool never_used = creator != nullptr && !received.contains(segment->inode);
    if (!long_dead || !(long_unheld || never_used)) continue;
    if (creator != nullptr) result.known_bytes += segment->taken_bytes();
    result.leaked.bytes += segment->taken_bytes();
    result.leaked.segments.push_back(segment);
  }
  return result;
}

std::optional<LastingLeak> leak_in(const Facts& facts, const ShmLedger* ledger) {
  if (ledger == nullptr) return std::nullopt;
  LastingLeak leak = lasting_leak(facts, *ledger);
  return leak.leaked.bytes < kMiB ? std::nullopt : std::optional(std::move(leak));
}

// Just before its end a trainer lets go of the managers, which remove everything: of one that has
// ended its time with workers counts, too.
const ShmLedger* ledger_with_leak(const Facts& facts) {
  const ShmLedger* last = last_ledger_of_trainer(facts, std::numeric_limits<BootNs>::max());
  if (last == nullptr || facts.run->find_exit(facts.trainer->key) == nullptr) return last;
  return leak_in(facts, last) ? last : last_ledger_of_trainer(facts, last_at_work(*facts.run));
}

void add_leak_remedies(Finding& finding) {
  finding.remedies.push_back(
      {.title = "Use the file_descriptor strategy: its segments have no names, so none can remain",
       .commands = {"torch.multiprocessing.set_sharing_strategy('file_descriptor')"},
       .verify = "dlprobe shm --pid PID",
       .settings = {{SettingKind::kSharingStrategy, "", "file_descriptor"}}});
  finding.advise("Read each iterator to its end, or keep one loader with persistent workers",
                 {"DataLoader(..., persistent_workers=True)"}, "dlprobe shm --pid PID");
  finding.remedies.push_back(
      {.title = "Restart the job: the managers remove the files 2 s after its end",
       .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
       .verify = "ls /dev/shm"});
}

}  // namespace

std::optional<Finding> stale_files(const Facts& facts, const Blame* blame, const Finding* failure,
                                   const Finding* leak) {
  const bool blamed = blame != nullptr && blame->code == FindingCode::kShmStaleFiles;
  const ShmLedger* ledger = judged_ledger(facts, blamed ? blame : nullptr);
  if (ledger == nullptr) return std::nullopt;
  const Split split = split_ledger(facts, *ledger);
  Share candidates = split.stale;
  const bool is_told = leak != nullptr && leak->discriminator == kLeftAtEnd;
  if (!ledger->hides_pids) add_unheld_blocks(facts, ledger->at, is_told, candidates, split.unheld);
  const Share stale = lasting(facts, candidates, ledger->at);
  if (stale.bytes < kMiB) return std::nullopt;
  const bool proven = all_known_dead(stale) && ledger->processes_unreadable == 0;
  Finding finding =
      new_finding(FindingCode::kShmStaleFiles, proven ? Confidence::kCertain : Confidence::kLikely);
  finding.severity = severity_of_waste(facts, stale.bytes);
  const bool is_one = stale.segments.size() == 1;
  finding.message = counted(stale.segments.size(), "file") + " with " + format_bytes(stale.bytes) +
                    " in " + facts.where();
  if (all_known_dead(stale)) {
    finding.message += is_one ? " belongs to no process" : " belong to nobody any more";
  } else {
    finding.message += is_one ? " is open in no process" : " are open in no process";
  }
  const uint64_t own_bytes = bytes_of_tree(facts, stale);
  if (own_bytes == stale.bytes) {
    finding.message += "; processes of this run left them";
    if (failure != nullptr && !blamed) finding.consequence_of = failure->code;
  }
  finding.first_seen = ledger->at;
  finding.prove(bytes_fact("stale_bytes", stale.bytes, kScanSource, ledger->at));
  finding.prove(count_fact("stale_files", stale.segments.size(), kScanSource, ledger->at));
  finding.prove(bytes_fact("left_by_this_run", own_bytes, kScanSource, ledger->at));
  finding.prove(
      text_fact("dead_creators", creators_of(stale), "pids in the names, /proc", ledger->at));
  finding.prove(count_fact("holders", 0, kScanSource, ledger->at));
  finding.prove(
      count_fact("processes_unreadable", ledger->processes_unreadable, kScanSource, ledger->at));
  add_named(finding, stale, ledger->at);
  finding.rule_out("DLP0105", "of the " + counted(ledger->processes_scanned, "process") +
                                  " checked, none has one of them open or mapped");
  add_blame(finding, facts, blame);
  std::ranges::move(remedies_remove(facts, stale.segments), std::back_inserter(finding.remedies));
  return finding;
}

std::optional<Finding> leak(const Facts& facts, const Blame* blame, const Shortage* observed,
                            const Finding* failure) {
  const bool blamed = blame != nullptr && blame->code == FindingCode::kShmLeak;
  const auto judged = leak_in(facts, blamed ? blame->split.ledger : ledger_with_leak(facts));
  if (!judged) return std::nullopt;
  const auto& [ledger, leaked, known_bytes] = *judged;
  const std::map<uint64_t, BootNs> since = unheld_since(facts);
  const bool all_known = known_bytes == leaked.bytes;
  Finding finding =
      new_finding(FindingCode::kShmLeak, all_known ? Confidence::kCertain : Confidence::kLikely);
  const uint64_t size = facts.size_bytes();
  if (known_bytes < std::max<uint64_t>(size / 20, 1)) finding.severity = Severity::kWarning;
  if (known_bytes == 0) finding.severity = severity_of_waste(facts, leaked.bytes);
  finding.message = counted(leaked.segments.size(), "file") + " with " +
                    format_bytes(leaked.bytes) + " of dead workers " +
                    (leaked.segments.size() == 1 ? "stays in " : "stay in ") + facts.where() +
                    " while trainer " + own(facts.trainer->key.pid) + " lives";
  if (known_bytes == 0) finding.message += "; they may be another job's";
  if (known_bytes > 0) finding.processes = {facts.trainer->key};
  finding.first_seen = ledger->at;
  for (const ShmSegment* segment : leaked.segments) {
    if (since.contains(segment->inode))
      finding.first_seen = std::min(*finding.first_seen, since.at(segment->inode));
  }
  finding.last_seen = ledger->at;
  const bool any_before =
      observed == nullptr || std::ranges::any_of(leaked.segments, [&](const ShmSegment* segment) {
        return left_before(facts, *observed, *segment);
      });
  if (!any_before && failure != nullptr) finding.consequence_of = failure->code;
  finding.prove(bytes_fact("leaked_bytes", leaked.bytes, kScanSource, ledger->at));
  finding.prove(count_fact("leaked_files", leaked.segments.size(), kScanSource, ledger->at));
  finding.prove(text_fact("dead_creators", creators_of(leaked), "exits of the subject's workers",
                          ledger->at));
  finding.prove(bytes_fact("shm_size", size, facts.source, ledger->at));
  add_named(finding, leaked, ledger->at);
  finding.rule_out("prefetched batches in flight",
                   "their makers died 3 s ago or more, and no process has them open or mapped");
  finding.rule_out("DLP0103",
                   all_known
                       ? "the trainer still lives, and so does the manager that would remove them"
                       : "they were filled while this trainer lived; dlprobe did not see all of "
                         "their makers: some may belong to another job");
  add_blame(finding, facts, blame);
  add_leak_remedies(finding);
  return finding;
}

std::optional<Finding> held_by_another_job(const Facts& facts, const Blame* blame) {
  if (blame == nullptr || blame->code != FindingCode::kShmHeldByAnotherJob) return std::nullopt;
  const ShmLedger& ledger = *blame->split.ledger;
  const Share& share = blame->split.other_job;
  const auto by_holder = holders_of(share);
  const auto most = std::ranges::max_element(by_holder, {},
                                             [](const auto& entry) { return entry.second.second; });
  Finding finding = new_finding(FindingCode::kShmHeldByAnotherJob, Confidence::kCertain);
  finding.message = describe_holder(most->first, most->second.first) +
                    (by_holder.size() > 1 ? " and others hold " : " holds ") +
                    format_bytes(share.bytes) + " in " + facts.where();
  finding.first_seen = ledger.at;
  finding.prove(bytes_fact("held_by_others", share.bytes, kScanSource, ledger.at));
  for (const auto& [key, holder] : by_holder) {
    finding.processes.push_back(key);
    if (finding.processes.size() > kMostNamed) continue;
    finding.prove(text_fact("holder",
                            describe_holder(key, holder.first) + ", " + format_bytes(holder.second),
                            kScanSource, ledger.at));
  }
  add_named(finding, share, ledger.at);
  finding.rule_out("DLP0103",
                   "the processes that hold them are alive and outside the subject's tree");
  add_blame(finding, facts, blame);
  const Demand demand = demand_of(facts);
  finding.remedies.push_back(
      {.title = "Wait for the other job to end, end it, or run on another node",
       .commands = {"ps -fp " + own(most->first.pid)},
       .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
       .verify = "df -h " + facts.where()});
  std::ranges::move(remedies_for_size(facts, comfortable_size(demand.most_bytes + share.bytes)),
                    std::back_inserter(finding.remedies));
  finding.remedies.push_back(remedy_look(facts));
  return finding;
}

std::optional<Finding> leaked_semaphores(const Facts& facts) {
  if (facts.ledgers.empty()) return std::nullopt;
  const ShmLedger& ledger = *facts.ledgers.back();
  Share python;
  for (const ShmSegment* segment : split_ledger(facts, ledger).semaphores.segments) {
    if (segment->kind != SegmentKind::kPythonSemaphore || !segment->linked) continue;
    python.segments.push_back(segment);
  }
  const Share left = lasting(facts, python, ledger.at);
  // A live job's semaphores look the same where its processes cannot be seen.
  const bool all_seen = ledger.processes_unreadable == 0 && !ledger.hides_pids;
  if (left.segments.empty() || !all_seen) return std::nullopt;
  Finding finding = new_finding(FindingCode::kLeakedSemaphores, Confidence::kCertain);
  finding.severity = Severity::kWarning;
  finding.message = own(left.segments.size()) + " semaphores of multiprocessing are left in " +
                    facts.where() + "; no process has one mapped";
  finding.first_seen = ledger.at;
  finding.prove(count_fact("leaked_semaphores", left.segments.size(), kScanSource, ledger.at));
  finding.prove(count_fact("holders", 0, kScanSource, ledger.at));
  finding.prove(count_fact("processes_scanned", ledger.processes_scanned, kScanSource, ledger.at));
  add_named(finding, left, ledger.at);
  finding.rule_out("a live spawn or forkserver job",
                   "it would have its semaphores mapped for as long as it lives");
  finding.remedies = remedies_remove(facts, left.segments);
  return finding;
}

}  // namespace dlprobe::probes::shm
