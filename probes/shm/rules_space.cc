// DLP0101 shm-too-small, DLP0102 shm-exhausted, DLP0108 shm-inodes-exhausted.

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/memory_need.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"
#include "probes/shm/remedies.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

constexpr const char* kForecastSource =
    "forecast: batches in flight x bytes per batch, page-rounded";
constexpr const char* kLedgerSource = "stat of the files in /dev/shm and of /proc/PID/fd, maps";

void add_all(std::vector<Remedy>& to, std::vector<Remedy> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// The size that would do: what the loader wants at the most, and at least what it had and one more.
uint64_t size_that_would_do(const Facts& facts, const Demand& demand, uint64_t wanted) {
  uint64_t peak = 0;
  for (const ShmUse& use : facts.use)
    peak = std::max(peak, use.used_bytes);
  // A mount that ran full held less than the need. Where the forecast says otherwise, no whole
  // batch was ever seen: it died filling the first ones, with two per worker and two more to come.
  constexpr uint64_t kTimesOfAFirstFill = 3;
  const uint64_t unseen = demand.bytes < peak ? kTimesOfAFirstFill * peak : 0;
  return comfortable_size(std::max({demand.most_bytes, peak + wanted, unseen}));
}

// What there is for all that runs; none where that was not read.
std::optional<uint64_t> memory_of_machine(const Run& run) {
  std::optional<uint64_t> least;
  const auto take = [&](const std::optional<uint64_t>& bytes) {
    if (bytes && *bytes > 0) least = std::min(least.value_or(*bytes), *bytes);
  };
  if (run.gate) {
    if (run.gate->memory) take(run.gate->memory->total_bytes);
    if (run.gate->cgroup) take(run.gate->cgroup->limit_bytes);
  }
  if (const auto limit = nearest_memory_limit(run)) take(limit->bytes);
  return least;
}

// Shared memory is memory: of more than there is a larger mount holds no more.
void add_ways(Finding& finding, const Facts& facts, const Demand& demand, uint64_t size) {
  const auto memory = memory_of_machine(*facts.run);
  const bool has_memory = !memory || demand.most_bytes <= *memory;
  std::vector<Remedy> in_code = remedies_in_code(facts, demand);
  if (has_memory || in_code.empty()) add_all(finding.remedies, remedies_for_size(facts, size));
  add_all(finding.remedies, std::move(in_code));
}

void add_remedies(Finding& finding, const Facts& facts, const Demand& demand, uint64_t wanted) {
  const uint64_t size = size_that_would_do(facts, demand, wanted);
  finding.prove(bytes_fact("size_that_would_do", size, "the need and a quarter more"));
  add_ways(finding, facts, demand, size);
}

void add_demand(Finding& finding, const Demand& demand) {
  if (demand.bytes == 0) return;
  finding.prove(held_against(bytes_fact("forecast", demand.bytes, kForecastSource), "> shm_size"));
  finding.prove(text_fact("forecast_formula", demand.formula, kForecastSource));
}

void add_mount(Finding& finding, const Facts& facts, const ShmUse& use) {
  finding.prove(bytes_fact("shm_size", use.size_bytes, facts.source, use.at));
  finding.prove(bytes_fact("shm_used", use.used_bytes, facts.source, use.at));
  finding.prove(text_fact("mount_options",
                          as_name(facts.mount->fs_type) + " " + as_text(facts.mount->options),
                          "/proc/PID/mountinfo"));
}

// A plan that the mount cannot hold, or barely. Nothing if it holds it with ease.
std::optional<Finding> too_small_for_plan(const Facts& facts, bool fits) {
  const Demand demand = demand_of(facts);
  const uint64_t size = facts.size_bytes();
  Finding finding = new_finding(FindingCode::kShmTooSmall, Confidence::kCertain);
  const Message shm = facts.where() + " has " + format_bytes(size);
  const OwnWords need = "this loader keeps up to " + format_bytes(demand.bytes) + " in flight";
  const uint64_t others = foreign_bytes(facts);
  const bool roomy = demand.bytes <= size / 5 * 4;
  if (fits && roomy && demand.most_bytes + others <= size) return std::nullopt;
  if (fits && roomy) {
    finding.severity = Severity::kWarning;
    finding.message = need + ", and briefly one batch more; " + shm;
    if (others > 0) finding.message += ", of which " + format_bytes(others) + " are taken already";
  } else if (fits) {
    finding.severity = Severity::kWarning;
    finding.message = need + ", more than 80 % of what " + shm;
  } else if (demand.bytes > size) {
    finding.message = need + ", and " + shm;
  } else {
    finding.message =
        need + ", and " + shm + ", of which " + format_bytes(others) + " are taken already";
  }
  add_mount(finding, facts, facts.use.front());
  add_demand(finding, demand);
  finding.first_seen = facts.use.front().at;
  const uint64_t enough = comfortable_size(demand.most_bytes + others);
  finding.prove(bytes_fact("size_that_would_do", enough, "the need and a quarter more"));
  add_ways(finding, facts, demand, enough);
  return finding;
}

// No plan: a loader that came within one segment of the edge, and by its segments may ask for more.
std::optional<Finding> too_small_by_measure(const Facts& facts) {
  const Demand demand = demand_of(facts);
  const uint64_t size = facts.size_bytes();
  if (demand.most_bytes <= size || facts.segment_bytes() == 0) return std::nullopt;
  const ShmUse* tightest = tightest_use(facts, facts.use.front().at, facts.use.back().at);
  const ShmLedger* ledger = ledger_at(facts, tightest->at);
  const bool own =
      ledger != nullptr && split_ledger(facts, *ledger).tree.bytes * 2 > ledger->used_bytes;
  if (free_bytes(*tightest) >= facts.segment_bytes() || !own) return std::nullopt;
  Finding finding = new_finding(FindingCode::kShmTooSmall, Confidence::kLikely);
  finding.severity = Severity::kWarning;
  finding.message = "only " + format_bytes(free_bytes(*tightest)) + " of " + format_bytes(size) +
                    " were free in " + facts.where() + ", and one segment of this loader takes " +
                    format_bytes(facts.segment_bytes());
  finding.discriminator = "measured";
  add_mount(finding, facts, *tightest);
  add_demand(finding, demand);
  finding.prove(bytes_fact("largest_segment", facts.segment_bytes(), kLedgerSource));
  finding.first_seen = tightest->at;
  finding.last_seen = facts.use.back().at;
  add_remedies(finding, facts, demand, facts.segment_bytes());
  return finding;
}

// What the trainer holds beyond what a loader needs, the training loop keeps: then a larger mount
// only fails later.
void add_kept_batches(Finding& finding, const Facts& facts, const Shortage& shortage,
                      const Demand& demand) {
  const ShmLedger* ledger = ledger_at(facts, shortage.at);
  if (ledger == nullptr || facts.trainer == nullptr || demand.bytes == 0) return;
  uint64_t bytes = 0;
  uint64_t segments = 0;
  for (const ShmSegment& segment : ledger->segments) {
    const bool by_trainer = std::ranges::any_of(segment.holders, [&](const SegmentHolder& holder) {
      return holder.key == facts.trainer->key && holder.maps > 0;
    });
    if (!by_trainer || segment.kind == SegmentKind::kPythonSemaphore) continue;
    bytes += segment.taken_bytes();
    ++segments;
  }
  if (bytes <= demand.most_bytes || bytes < shortage.use.size_bytes / 2) return;
  finding.message += "; trainer " + own(facts.trainer->key.pid) + " alone holds " +
                     format_bytes(bytes) + " of them, more than its loader needs";
  finding.prove(bytes_fact("held_by_trainer", bytes, kLedgerSource, ledger->at));
  finding.prove(count_fact("segments_held_by_trainer", segments, kLedgerSource, ledger->at));
  finding.advise(
      "Free what the training process keeps in shared memory (a list of batches, a cache "
      "in /dev/shm): a larger mount only fails later",
      {"kept.append(batch.clone())  # a copy in ordinary memory",
       "losses.append(loss.item())  # a number instead of a tensor"},
      "dlprobe shm -- COMMAND");
}

// Whether only resource trackers have it: a fork left them a descriptor.
bool is_of_nobody(const Facts& facts, const ShmSegment& segment) {
  return std::ranges::all_of(segment.holders, [&](const SegmentHolder& holder) {
    const ProcessInfo* process = facts.run->find_process(holder.key);
    return process != nullptr && process->role == Role::kResourceTracker;
  });
}

// Blocks of multiprocessing.shared_memory that came meanwhile, fill a third of the mount, and that
// no process has: they wait for who opens them, or nobody unlinks them.
void add_closed_blocks(Finding& finding, const Facts& facts, const Shortage& shortage) {
  const ShmLedger* ledger = nullptr;
  size_t blocks = 0;
  uint64_t bytes = 0;
  for (const ShmLedger* each : facts.ledgers) {
    size_t count = 0;
    uint64_t taken = 0;
    for (const ShmSegment& segment : each->segments) {
      if (segment.kind != SegmentKind::kPythonShared || !segment.linked ||
          !is_of_nobody(facts, segment) ||
          std::ranges::count(facts.ledgers.front()->segments, segment.inode, &ShmSegment::inode) >
              0)
        continue;
      ++count;
      taken += segment.taken_bytes();
    }
    if (taken <= bytes) continue;
    ledger = each;
    blocks = count;
    bytes = taken;
  }
  if (ledger == nullptr || bytes < shortage.use.size_bytes / 3) return;
  finding.message +=
      say("; {} of multiprocessing.shared_memory with {} were open in no process: "
          "unless something unlinks each, a larger one fills up, too",
          counted(blocks, "block"), own(format_bytes(bytes)));
  finding.prove(count_fact("named_files", blocks, kLedgerSource, ledger->at));
  finding.prove(bytes_fact("named_bytes", bytes, kLedgerSource, ledger->at));
  finding.remedies.push_back(
      {.title = "Unlink each block after use: close() alone leaves it in /dev/shm",
       .commands = {"block.close(); block.unlink()  # multiprocessing.shared_memory"},
       .verify = "ls /dev/shm | wc -l"});
}

void rule_out_oom(Finding& finding, const Facts& facts) {
  const std::optional<OomCount> count = oom_count(*facts.run);
  if (!count || count->after != count->before) return;
  finding.rule_out("out of memory (the OOM killer)",
                   count->source + " stood at " + own(count->after) +
                       " all the time, and the OOM killer sends SIGKILL, not SIGBUS");
}

void rule_out_for_bus_error(Finding& finding, const Facts& facts, const Shortage& shortage) {
  // Of a mount that was not seen full it is not ruled out.
  if (shortage.confidence == Confidence::kCertain) {
    const uint64_t room = free_bytes(shortage.use);
    finding.rule_out("SIGBUS of another file mapping (a truncated data file, a read error)",
                     "the mount had " + format_bytes(room) +
                         " left just before the death: the kernel then sends SIGBUS for the next "
                         "page of a segment");
  }
  finding.rule_out("killed by a process, a scheduler or a user",
                   "the wait status is signal 7, which the kernel raised");
  rule_out_oom(finding, facts);
}

void rule_out_for_reservation(Finding& finding, const Facts& facts, const Shortage& shortage) {
  finding.rule_out("file descriptors ran out (DLP0202)",
                   "the file was created, which takes a descriptor; only its pages were refused");
  if (shortage.use.inodes > shortage.use.inodes_used) {
    finding.rule_out("DLP0108", own(shortage.use.inodes - shortage.use.inodes_used) + " of " +
                                    own(shortage.use.inodes) + " inodes were free");
  }
  rule_out_oom(finding, facts);
}

std::string name_of_kind(Shortage::How how) {
  switch (how) {
    case Shortage::How::kBusError:
      return "bus-error";
    case Shortage::How::kReservation:
      return "reservation-refused";
    case Shortage::How::kException:
      return "exception";
    case Shortage::How::kFailure:
      return "failed-on-full-mount";
    case Shortage::How::kForecast:
      break;
  }
  return "";
}

Message exhausted_message(const Facts& facts, const Shortage& shortage) {
  const OwnWords who = describe(*facts.run, shortage.victims.front());
  const Message state = format_bytes(free_bytes(shortage.use)) + " of " +
                        format_bytes(shortage.use.size_bytes) + " were free in " + facts.where();
  OwnWords segment = "a segment";
  if (shortage.wanted_bytes > 0) segment += " of " + format_bytes(shortage.wanted_bytes);
  if (shortage.how == Shortage::How::kBusError) {
    const bool seen_full = shortage.confidence == Confidence::kCertain;
    return who + " was killed by SIGBUS while it filled " + segment + ": " + state +
           (seen_full ? "" : " shortly before");
  }
  if (shortage.how == Shortage::How::kException) {
    return who + " could not allocate space in " + facts.where() +
           place_of(*refused_space(facts).front()) + ": " + state + " at the fullest";
  }
  if (shortage.how == Shortage::How::kFailure) return who + " failed just after " + state;
  return who + " could not allocate " + segment + ": " + state;
}

}  // namespace

std::optional<Finding> too_small(const Facts& facts, const Shortage* foretold) {
  if (facts.use.empty() || facts.size_bytes() == 0) return std::nullopt;
  if (!facts.run->begin.plan) return too_small_by_measure(facts);
  return too_small_for_plan(facts, foretold == nullptr);
}

Finding exhausted(const Facts& facts, const Shortage& shortage) {
  Finding finding = new_finding(FindingCode::kShmExhausted, shortage.confidence);
  finding.message = exhausted_message(facts, shortage);
  finding.processes = shortage.victims;
  finding.discriminator = name_of_kind(shortage.how);
  finding.first_seen = shortage.at;
  finding.last_seen = shortage.at;
  add_mount(finding, facts, shortage.use);
  finding.prove(
      held_against(bytes_fact("shm_free", free_bytes(shortage.use), facts.source, shortage.use.at),
                   "< segment_size"));
  if (shortage.wanted_bytes > 0) {
    finding.prove(bytes_fact("segment_size", shortage.wanted_bytes, kLedgerSource));
  }
  finding.evidence.insert(finding.evidence.end(), shortage.proof.begin(), shortage.proof.end());
  for (const ProcessKey& victim : shortage.victims) {
    finding.prove(text_fact("victim", describe(*facts.run, victim), "/proc/PID/stat"));
  }
  if (shortage.how == Shortage::How::kBusError) {
    rule_out_for_bus_error(finding, facts, shortage);
  } else if (shortage.how == Shortage::How::kReservation) {
    rule_out_for_reservation(finding, facts, shortage);
  } else {
    rule_out_oom(finding, facts);
  }
  if (shortage.how == Shortage::How::kException) {
    const StartEvent& event = *refused_space(facts).front();
    add_source(finding, event.file, event.line, "refused at");
  }
  const Demand demand = demand_of(facts);
  if (demand.bytes > shortage.use.size_bytes) add_demand(finding, demand);
  add_kept_batches(finding, facts, shortage, demand);
  add_closed_blocks(finding, facts, shortage);
  add_remedies(finding, facts, demand, shortage.wanted_bytes);
  return finding;
}

std::optional<Finding> inodes_exhausted(const Facts& facts) {
  const auto fullest = std::ranges::max_element(facts.use, {}, [](const ShmUse& use) {
    return use.inodes == 0 ? 0.0
                           : static_cast<double>(use.inodes_used) / static_cast<double>(use.inodes);
  });
  if (fullest == facts.use.end() || fullest->inodes == 0) return std::nullopt;
  if (fullest->inodes_used * 10 < fullest->inodes * 9) return std::nullopt;
  const bool full = fullest->inodes_used >= fullest->inodes;
  // Between two looks the last ones may have gone and come back: then only the hang shows it.
  const std::optional<LoaderStall> stall = find_stall(facts);
  Finding finding = new_finding(FindingCode::kShmInodesExhausted,
                                full || !stall ? Confidence::kCertain : Confidence::kLikely);
  if (!full && !stall) finding.severity = Severity::kWarning;
  finding.message = own(fullest->inodes_used) + " of " + own(fullest->inodes) + " inodes of " +
                    facts.where() + " were in use: " +
                    (full ? "no process can create a segment or semaphore" : "few new files fit");
  finding.first_seen = fullest->at;
  finding.prove(count_fact("inodes", fullest->inodes, facts.source, fullest->at));
  finding.prove(held_against(
      count_fact("inodes_used", fullest->inodes_used, facts.source, fullest->at), ">= inodes"));
  finding.prove(bytes_fact("shm_size", fullest->size_bytes, facts.source, fullest->at));
  finding.prove(bytes_fact("shm_used", fullest->used_bytes, facts.source, fullest->at));
  if (stall) {
    finding.message += "; the trainer has waited for a batch for " +
                       format_duration(std::chrono::nanoseconds(stall->to - stall->from)) +
                       " while every worker is idle";
    finding.prove(time_fact("stalled_for", stall->to - stall->from, "/proc/PID/task/TID/syscall"));
  }
  finding.remedies.push_back(remedy_for_inodes(facts, fullest->inodes * 4));
  finding.advise("Send fewer tensors per batch: each tensor is a file",
                 {"DataLoader(..., collate_fn=<stack what belongs together>)"},
                 "df -i " + facts.where());
  return finding;
}

}  // namespace dlprobe::probes::shm
