// When shared memory did not suffice, and who has the space: what DLP0101, 0102, 0105 and 0106
// share.

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

// A dying process keeps its segments for milliseconds; the sampling loop may be one interval late.
constexpr BootNs kBeforeDeath = 1 * kSecond;
// A torch_shm_manager removes the files of the dead 2 s after its last client.
constexpr BootNs kAfterDeath = 2 * kSecond;

// Bytes per second: tmpfs clears its pages at gigabytes per second; this is a starved machine.
constexpr BootNs kSlowestReservation = BootNs{200} << 20;
// A trainer that learns of its worker's death ends within this.
constexpr BootNs kFailureTime = 2 * kSecond;
// Over how long the speed is taken at which a mount fills.
constexpr BootNs kRiseTime = kSecond / 50;
// Between looks further apart than this a mount could do anything.
constexpr BootNs kLongestGuess = kSecond / 20;

bool died_of_bus_error(const ProcessExit& exit) {
  return exit.wait_status && WIFSIGNALED(*exit.wait_status) &&
         WTERMSIG(*exit.wait_status) == SIGBUS;
}

// Whether that process was filling it: a tensor's file names its maker, a block of
// multiprocessing.shared_memory is held by who writes it.
bool is_filled_by(const Facts& facts, const ShmSegment& segment, const ProcessKey& key) {
  if (segment.kind == SegmentKind::kPythonShared)
    return std::ranges::count(segment.holders, key, &SegmentHolder::key) > 0;
  const ProcessInfo* creator = creator_of(*facts.run, segment);
  return segment.kind == SegmentKind::kTorchTensor && creator != nullptr && creator->key == key;
}

// A segment that the dead process had begun to fill, as a ledger around its death shows it.
const ShmSegment* unfilled_segment(const Facts& facts, const ProcessExit& exit) {
  const ShmSegment* best = nullptr;
  for (const ShmLedger* ledger : facts.ledgers) {
    if (ledger->at < exit.at - kBeforeDeath || ledger->at > exit.at + kAfterDeath) continue;
    for (const ShmSegment& segment : ledger->segments) {
      const bool is_his = is_filled_by(facts, segment, exit.key);
      if (is_his && segment.taken_bytes() < segment.size_bytes) best = &segment;
    }
  }
  return best;
}

// Whether the mount, as fast as it was filling up to `use`, was full before the next look.
bool fills_before_next_look(const Facts& facts, const ShmUse& use) {
  const ShmUse* first = facts.use.data();
  const ShmUse* last = first + facts.use.size() - 1;
  if (&use == first || &use == last) return false;
  const ShmUse* before = &use - 1;
  while (before != first && use.at - before->at < kRiseTime)
    --before;
  if (use.used_bytes <= before->used_bytes || use.at <= before->at) return false;
  const BootNs unseen = (&use)[1].at - use.at;
  if (unseen > kLongestGuess) return false;
  const double bytes_per_ns = static_cast<double>(use.used_bytes - before->used_bytes) /
                              static_cast<double>(use.at - before->at);
  return static_cast<double>(free_bytes(use)) < bytes_per_ns * static_cast<double>(unseen);
}

// By how much the mount had filled in the 200 ms up to `use`.
uint64_t risen_by(const Facts& facts, const ShmUse& use) {
  uint64_t least = use.used_bytes;
  for (const ShmUse& each : facts.use)
    if (each.at <= use.at && each.at >= use.at - kSecond / 5)
      least = std::min(least, each.used_bytes);
  return use.used_bytes - least;
}

// Whether the mount was filling up to a death: in the 200 ms before it was noticed.
bool was_rising(const Facts& facts, BootNs at) {
  for (size_t i = 1; i < facts.use.size() && facts.use[i].at <= at; ++i) {
    const bool rose = facts.use[i].used_bytes > facts.use[i - 1].used_bytes;
    if (rose && facts.use[i].at >= at - kSecond / 5) return true;
  }
  return false;
}

// Whether what was seen makes the SIGBUS one of a full mount, and how surely.
std::optional<Confidence> bus_error_confidence(const Facts& facts, const ProcessExit& exit,
                                               const ShmUse& use, const ShmSegment* unfilled) {
  const uint64_t room = free_bytes(use);
  if (room < facts.page_size) return Confidence::kCertain;
  if (unfilled != nullptr && unfilled->size_bytes - unfilled->taken_bytes() > room) {
    return Confidence::kCertain;
  }
  // On a starved machine nobody looks for 50 ms: every worker that fills a segment could have
  // filled the mount meanwhile, of a loader that needs more than there is.
  const bool could_fill = room < facts.most_workers * facts.segment_bytes() &&
                          demand_of(facts).most_bytes > use.size_bytes &&
                          was_rising(facts, exit.at);
  if (could_fill) return Confidence::kLikely;
  // The last pages go within milliseconds: a look just before may still have seen them free.
  if (room < facts.segment_bytes() && room < use.size_bytes / 20) return Confidence::kLikely;
  if (fills_before_next_look(facts, use)) return Confidence::kLikely;
  // Of a job that ends within a moment no segment may be seen: what it had just put there has no
  // room a second time.
  const bool is_unseen = facts.segment_bytes() == 0 && was_rising(facts, exit.at);
  if (is_unseen && risen_by(facts, use) > room) return Confidence::kLikely;
  return std::nullopt;
}

std::optional<Shortage> shortage_of_bus_error(const Facts& facts, const ProcessExit& exit) {
  const ShmUse* use = tightest_use(facts, exit.at - kBeforeDeath, exit.at);
  if (use == nullptr || use->size_bytes == 0) return std::nullopt;
  const ShmSegment* unfilled = unfilled_segment(facts, exit);
  const std::optional<Confidence> confidence = bus_error_confidence(facts, exit, *use, unfilled);
  if (!confidence) return std::nullopt;
  Shortage shortage{.how = Shortage::How::kBusError,
                    .confidence = *confidence,
                    .at = exit.at,
                    .wanted_bytes = facts.segment_bytes(),
                    .use = *use};
  shortage.proof.push_back(
      text_fact("exit_signal", "SIGBUS (7)", "wait status by " + own(exit.source), exit.at));
  if (unfilled != nullptr) {
    shortage.wanted_bytes = unfilled->size_bytes;
    shortage.proof.push_back(held_against(
        bytes_fact("segment_filled", unfilled->taken_bytes(), "stat of the segment", exit.at),
        "< segment_size"));
  }
  return shortage;
}

std::optional<Shortage> first_bus_error(const Facts& facts) {
  std::optional<Shortage> first;
  for (const ProcessExit& exit : facts.run->exits) {
    if (!died_of_bus_error(exit)) continue;
    if (!first) first = shortage_of_bus_error(facts, exit);
    if (first) first->victims.push_back(exit.key);
  }
  return first;
}

// The last look before `at` at which a segment of that size had no room; else the tightest one.
const ShmUse* use_without_room(const Facts& facts, uint64_t segment_bytes, BootNs at) {
  const ShmUse* last = nullptr;
  for (const ShmUse& use : facts.use) {
    if (use.at <= at && free_bytes(use) < segment_bytes) last = &use;
  }
  if (last != nullptr) return last;
  return tightest_use(facts, facts.use.empty() ? 0 : facts.use.front().at, at);
}

// Whether a segment of that size had no room up to `at` for longer than a reservation takes, whose
// own pages count as used while it is under way.
bool lacked_room_for_long(const Facts& facts, uint64_t segment_bytes, BootNs at) {
  const auto longest_reservation = std::max<BootNs>(
      kSecond / 20, static_cast<BootNs>(segment_bytes) * kSecond / kSlowestReservation);
  const ShmUse* first_without = nullptr;
  for (const ShmUse& use : facts.use) {
    if (use.at > at) break;
    if (free_bytes(use) >= segment_bytes) {
      first_without = nullptr;
      continue;
    }
    if (first_without == nullptr) first_without = &use;
    if (use.at - first_without->at > longest_reservation) return true;
  }
  return false;
}

// One empty file of a dead process may also be a reservation that a signal cut short. It is a
// refusal for sure when its process lived on, or made a second one, or there was no room all the
// time.
Confidence reservation_confidence(const Facts& facts,
                                  const std::vector<FailedReservation>& failed) {
  std::map<ProcessKey, int> per_creator;
  for (const FailedReservation& each : failed) {
    if (!is_known_dead(*facts.run, each.creator, each.at)) return Confidence::kCertain;
    if (++per_creator[each.creator] > 1) return Confidence::kCertain;
    if (lacked_room_for_long(facts, each.segment_bytes, each.at)) return Confidence::kCertain;
  }
  return Confidence::kLikely;
}

std::optional<Shortage> first_failed_reservation(const Facts& facts) {
  const std::vector<FailedReservation> failed = failed_reservations(facts);
  if (failed.empty()) return std::nullopt;
  const FailedReservation& first = failed.front();
  const ShmUse* use = use_without_room(facts, first.segment_bytes, first.at);
  // Room enough at every look: whatever stopped the reservation was not the size of the mount.
  if (use == nullptr || free_bytes(*use) >= 2 * first.segment_bytes) return std::nullopt;
  Shortage shortage{.how = Shortage::How::kReservation,
                    .confidence = reservation_confidence(facts, failed),
                    .at = first.at,
                    .wanted_bytes = first.segment_bytes,
                    .use = *use};
  if (free_bytes(*use) >= first.segment_bytes) shortage.confidence = Confidence::kLikely;
  for (const FailedReservation& each : failed) {
    if (std::ranges::count(shortage.victims, each.creator) == 0) {
      shortage.victims.push_back(each.creator);
    }
  }
  shortage.proof.push_back(count_fact("failed_reservations", failed.size(),
                                      "files with a size and 0 allocated blocks (statx)",
                                      first.at));
  return shortage;
}

// The job failed right after the mount had not one page left, and nobody saw how its workers ended:
// they can live for less than the time between two samples.
std::optional<Shortage> failure_after_full_mount(const Facts& facts) {
  if (facts.trainer == nullptr) return std::nullopt;
  const ProcessExit* exit = facts.run->find_exit(facts.trainer->key);
  if (exit == nullptr || !exit->wait_status || *exit->wait_status == 0) return std::nullopt;
  const bool workers_seen = std::ranges::any_of(facts.workers, [&](const ProcessInfo* worker) {
    const ProcessExit* end = facts.run->find_exit(worker->key);
    return end != nullptr && end->wait_status.has_value();
  });
  const ShmUse* use = tightest_use(facts, exit->at - kFailureTime, exit->at);
  if (workers_seen || use == nullptr || free_bytes(*use) >= facts.page_size) return std::nullopt;
  Shortage shortage{.how = Shortage::How::kFailure,
                    .confidence = Confidence::kLikely,
                    .at = exit->at,
                    .wanted_bytes = facts.segment_bytes(),
                    .use = *use,
                    .victims = {exit->key}};
  shortage.proof.push_back(time_fact("failed_after", exit->at - use->at, own(exit->source)));
  return shortage;
}

constexpr uint64_t kNearlyNothing = 20;  // that part of the mount

std::optional<Shortage> refused_file(const Facts& facts) {
  for (const StartEvent* event : refused_space(facts)) {
    const ShmUse* use = tightest_use(facts, event->at - kFailureTime, event->at);
    if (lacks_inodes(*event) || use == nullptr) continue;  // DLP0108
    // What it had made is gone by the first look: whether bytes or inodes lacked is not known.
    const bool was_seen = free_bytes(*use) <= use->size_bytes / kNearlyNothing;
    if (event->error_number == ENOSPC && !was_seen) continue;
    Shortage shortage{.how = Shortage::How::kException,
                      .at = event->at,
                      .use = *use,
                      .victims = {event->process}};
    shortage.proof.push_back(
        text_fact("exception", as_text(event->message), kShimSource, event->at));
    if (!event->file.empty())
      shortage.proof.push_back(text_fact("raised_at", whole_place(*event), kShimSource, event->at));
    return shortage;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Shortage> observed_shortage(const Facts& facts) {
  if (std::optional<Shortage> shortage = first_bus_error(facts)) return shortage;
  if (std::optional<Shortage> shortage = first_failed_reservation(facts)) return shortage;
  if (std::optional<Shortage> shortage = refused_file(facts)) return shortage;
  return failure_after_full_mount(facts);
}

std::optional<Shortage> foretold_shortage(const Facts& facts) {
  if (!facts.run->begin.plan || facts.use.empty() || facts.size_bytes() == 0) return std::nullopt;
  const ShmUse& use = facts.use.front();
  const Demand demand = demand_of(facts);
  if (demand.bytes + foreign_bytes(facts) <= use.size_bytes) return std::nullopt;
  Shortage shortage;
  shortage.how = Shortage::How::kForecast;
  shortage.at = use.at;
  shortage.wanted_bytes = demand.bytes;
  shortage.use = use;
  return shortage;
}

bool left_before(const Facts& facts, const Shortage& shortage, const ShmSegment& segment) {
  const ProcessInfo* creator = creator_of(*facts.run, segment);
  if (creator == nullptr) {
    const RecordingHeader& header = *facts.header;
    return segment.modified_ns - header.realtime_ns < shortage.at - header.boottime_ns;
  }
  if (std::ranges::count(shortage.victims, creator->key) > 0) return false;
  const ProcessExit* exit = facts.run->find_exit(creator->key);
  return exit != nullptr && exit->at < shortage.at;
}

std::optional<Blame> blame_for(const Facts& facts, const Shortage& shortage) {
  const ShmLedger* near = ledger_at(facts, shortage.at);
  const ShmLedger* full = full_ledger_near(facts, shortage.at);
  const uint64_t size = shortage.use.size_bytes;
  if (near == nullptr || full == nullptr || size == 0 || demand_of(facts).bytes > size) {
    return std::nullopt;
  }
  const uint64_t room = free_bytes(shortage.use);
  // Of a segment whose size is not known, only a large part of the mount can be the cause.
  const uint64_t missing = shortage.wanted_bytes > room ? shortage.wanted_bytes - room : size / 4;
  Blame blame{
      .code = FindingCode::kShmLeak, .split = split_ledger(facts, *near), .shortage = &shortage};
  uint64_t leaked = 0;
  for (const ShmSegment* segment : blame.split.leaked.segments) {
    if (left_before(facts, shortage, *segment)) leaked += segment->taken_bytes();
  }
  Split others = split_ledger(facts, *full);
  const uint64_t most = std::max(others.other_job.bytes, others.stale.bytes);
  if (std::max(leaked, most) < missing) return std::nullopt;
  if (leaked > most) return blame;
  blame.code = others.other_job.bytes >= others.stale.bytes ? FindingCode::kShmHeldByAnotherJob
                                                            : FindingCode::kShmStaleFiles;
  blame.split = std::move(others);
  return blame;
}

}  // namespace dlprobe::probes::shm
