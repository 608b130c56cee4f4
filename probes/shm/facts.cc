#include "probes/shm/facts.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "lib/base/units.h"
#include "lib/model/shm_forecast.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::shm {
namespace {

constexpr uint64_t kDefaultPrefetchFactor = 2;  // torch.utils.data.DataLoader
constexpr uint64_t kInTrainer = 1;              // the batch in use

// The mount that the loader uses: the trainer's, else any process's, else dlprobe's own; the newer
// of two, since a process may move to a mount namespace of its own.
const ShmMount* mount_of(const Run& run) {
  const ShmMount* best = nullptr;
  int best_rank = -1;
  for (const ShmMount& mount : run.mounts) {
    const ProcessInfo* process = run.find_process(mount.seen_through);
    int rank = 0;
    if (process != nullptr) rank = process->role == Role::kTrainer ? 3 : 1;
    if (process != nullptr && process->role == Role::kWorker) rank = 2;
    if (rank >= best_rank) {
      best = &mount;
      best_rank = rank;
    }
  }
  return best;
}

Message source_of(const ShmMount& mount) {
  Message result = "statvfs " + as_path(mount.mount_point);
  if (mount.seen_through.pid != 0) {
    result += " (as pid " + own(mount.seen_through.pid) + " sees it)";
  }
  return result;
}

bool is_tensor_of_tree(const Facts& facts, const ShmSegment& segment) {
  if (segment.kind != SegmentKind::kTorchTensor) return false;
  return is_held_by_job(facts, segment) || creator_of(*facts.run, segment) != nullptr;
}

const ShmSegment* find_largest_segment(const Facts& facts) {
  const ShmSegment* largest = nullptr;
  for (const ShmLedger* ledger : facts.ledgers) {
    for (const ShmSegment& segment : ledger->segments) {
      if (!is_tensor_of_tree(facts, segment)) continue;
      if (largest == nullptr || segment.size_bytes > largest->size_bytes) largest = &segment;
    }
  }
  return largest;
}

bool creator_is_dead(const Facts& facts, const ShmSegment& segment, BootNs at) {
  if (segment.creator == CreatorState::kDead) return true;
  if (segment.creator == CreatorState::kAlive) return false;
  const ProcessInfo* creator = creator_of(*facts.run, segment);
  return creator != nullptr && is_known_dead(*facts.run, creator->key, at);
}

// A tensor of a process that nobody saw: of a worker that lived between two samples, or before
// dlprobe came. Whose it was tells the time: the trainer lived when it was filled.
bool made_during_job(const Facts& facts, const ShmSegment& segment, BootNs at) {
  if (segment.kind != SegmentKind::kTorchTensor || facts.trainer == nullptr ||
      is_known_dead(*facts.run, facts.trainer->key, at)) {
    return false;
  }
  const RecordingHeader& header = *facts.header;
  const BootNs started = birth_of(header.host, facts.trainer->key);
  return segment.modified_ns >= header.realtime_ns + (started - header.boottime_ns);
}

// What the witness saw of the mount where a file had no space.
void add_refusals(Facts& facts) {
  if (facts.use.empty() || facts.mount == nullptr) return;
  for (const StartEvent* event : refused_space(facts)) {
    ShmUse use = facts.use.back();
    use.at = event->at;
    use.size_bytes = event->bytes.value_or(use.size_bytes);
    use.inodes = event->limit.value_or(use.inodes);
    use.used_bytes = use.size_bytes - std::min(use.size_bytes, event->free_bytes.value_or(0));
    if (lacks_inodes(*event)) use.inodes_used = use.inodes;
    facts.use.insert(std::ranges::upper_bound(facts.use, use.at, {}, &ShmUse::at), use);
  }
}

Share& share_of_unheld(const Facts& facts, const ShmSegment& segment, Split& split) {
  const BootNs at = split.ledger->at;
  if (is_semaphore(segment)) return split.semaphores;
  if (!segment.linked) return split.unknown;
  if (creator_of(*facts.run, segment) != nullptr) {
    if (!creator_is_dead(facts, segment, at)) return split.tree;
    const bool trainer_lives =
        facts.trainer != nullptr && !is_known_dead(*facts.run, facts.trainer->key, at);
    return trainer_lives ? split.leaked : split.stale;
  }
  switch (segment.creator) {
    case CreatorState::kAlive:
      return split.other_job;
    case CreatorState::kDead:
      return made_during_job(facts, segment, at) ? split.leaked : split.stale;
    case CreatorState::kUnknown:
      return split.unknown;
    case CreatorState::kNone:
      return split.unheld;
  }
  return split.unknown;
}

Share& share_of(const Facts& facts, const ShmSegment& segment, Split& split) {
  if (segment.holders.empty()) return share_of_unheld(facts, segment, split);
  return is_held_by_job(facts, segment) ? split.tree : split.other_job;
}

void sort_by_size(Share& share) {
  std::ranges::stable_sort(share.segments, [](const ShmSegment* a, const ShmSegment* b) {
    return a->taken_bytes() > b->taken_bytes();
  });
}

bool is_empty_reservation(const Facts& facts, const ShmSegment& segment) {
  return segment.kind == SegmentKind::kTorchTensor && segment.linked && segment.size_bytes > 0 &&
         segment.allocated_bytes && *segment.allocated_bytes == 0 &&
         creator_of(*facts.run, segment) != nullptr;
}

// Collects the reservations that one ledger proves; `seen` holds the empty files of earlier ones.
void add_reservations(const Facts& facts, const ShmLedger& ledger, std::map<uint64_t, BootNs>& seen,
                      std::map<uint64_t, FailedReservation>& proven) {
  const uint64_t size = facts.size_bytes();
  const uint64_t room = size == 0 ? kUnlimited : size - std::min(size, ledger.used_bytes);
  for (const ShmSegment& segment : ledger.segments) {
    if (!is_empty_reservation(facts, segment)) continue;
    const auto [first, is_new] = seen.try_emplace(segment.inode, ledger.at);
    const bool stays = !is_new && first->second < ledger.at;
    if (!stays && !creator_is_dead(facts, segment, ledger.at) && room >= segment.size_bytes)
      continue;
    proven.try_emplace(segment.inode,
                       FailedReservation{.segment_bytes = segment.size_bytes,
                                         .creator = creator_of(*facts.run, segment)->key,
                                         .at = first->second,
                                         .name = segment.name.value_or("")});
  }
}

}  // namespace

Facts facts_of(const RecordingHeader& header, const Run& run) {
  Facts facts;
  facts.header = &header;
  facts.run = &run;
  facts.page_size = header.host.page_size;
  facts.trainer = first_of_role(run, Role::kTrainer);
  // Between two epochs a trainer has no workers that would tell what it is.
  if (facts.trainer == nullptr && run.begin.root) facts.trainer = run.find_process(*run.begin.root);
  for (const ProcessInfo& process : run.processes) {
    if (process.role == Role::kWorker) facts.workers.push_back(&process);
  }
  facts.mount = mount_of(run);
  if (facts.mount == nullptr) return facts;
  facts.source = source_of(*facts.mount);
  for (const ShmUse& use : run.shm_use) {
    if (use.device == facts.mount->device) facts.use.push_back(use);
  }
  std::ranges::stable_sort(facts.use, {}, &ShmUse::at);
  add_refusals(facts);
  for (const ShmLedger& ledger : run.ledgers) {
    if (ledger.device == facts.mount->device) facts.ledgers.push_back(&ledger);
  }
  facts.most_workers = most_living_workers(run);
  facts.largest_segment = find_largest_segment(facts);
  return facts;
}

std::vector<const StartEvent*> refused_space(const Facts& facts) {
  std::vector<const StartEvent*> refused = fatal_exceptions(*facts.run);
  const std::string folder = facts.mount->mount_point + "/";
  std::erase_if(refused, [&](const StartEvent* event) {
    const bool is_space = event->error_number == ENOSPC || event->error_number == EDQUOT;
    return !is_space || !event->path.starts_with(folder);
  });
  return refused;
}

uint64_t free_bytes(const ShmUse& use) {
  if (use.size_bytes == 0) return kUnlimited;
  return use.size_bytes - std::min(use.size_bytes, use.used_bytes);
}

const ShmUse* tightest_use(const Facts& facts, BootNs from, BootNs to) {
  const ShmUse* tightest = nullptr;
  for (const ShmUse& use : facts.use) {
    if (use.at < from || use.at > to) continue;
    if (tightest == nullptr || free_bytes(use) <= free_bytes(*tightest)) tightest = &use;
  }
  return tightest;
}

const ShmLedger* ledger_at(const Facts& facts, BootNs at) {
  if (facts.ledgers.empty()) return nullptr;
  const ShmLedger* last = facts.ledgers.front();
  for (const ShmLedger* ledger : facts.ledgers) {
    if (ledger->at <= at) last = ledger;
  }
  return last;
}

const ShmLedger* full_ledger_near(const Facts& facts, BootNs at) {
  const ShmLedger* nearest = nullptr;
  for (const ShmLedger* ledger : facts.ledgers) {
    if (!ledger->whole_machine) continue;
    if (nearest == nullptr || std::abs(ledger->at - at) < std::abs(nearest->at - at)) {
      nearest = ledger;
    }
  }
  return nearest;
}

bool is_held_by_job(const Facts& facts, const ShmSegment& segment) {
  return std::ranges::any_of(segment.holders, [&](const SegmentHolder& holder) {
    return holder.in_tree || facts.run->find_process(holder.key) != nullptr;
  });
}

bool is_semaphore(const ShmSegment& segment) {
  return segment.kind == SegmentKind::kPythonSemaphore || segment.kind == SegmentKind::kSemaphore;
}

Split split_ledger(const Facts& facts, const ShmLedger& ledger) {
  Split split;
  split.ledger = &ledger;
  for (const ShmSegment& segment : ledger.segments) {
    Share& share = share_of(facts, segment, split);
    share.bytes += segment.taken_bytes();
    share.segments.push_back(&segment);
  }
  for (Share* share : {&split.tree, &split.leaked, &split.other_job, &split.stale, &split.unheld,
                       &split.unknown, &split.semaphores}) {
    sort_by_size(*share);
  }
  return split;
}

uint64_t foreign_bytes(const Facts& facts) {
  if (facts.run->begin.preflight || facts.ledgers.empty()) {
    return facts.use.empty() ? 0 : facts.use.front().used_bytes;
  }
  const Split split = split_ledger(facts, *facts.ledgers.front());
  return split.other_job.bytes + split.stale.bytes + split.unheld.bytes;
}

Demand demand_of(const Facts& facts) {
  Demand demand;
  if (facts.run->begin.plan) {
    const ShmForecast forecast = forecast_shm(*facts.run->begin.plan, facts.page_size);
    demand = {.bytes = forecast.bytes,
              .most_bytes = forecast.most_bytes,
              .batch_bytes = forecast.batch_bytes,
              .formula = forecast.formula};
  } else if (facts.most_workers > 0 && facts.largest_segment != nullptr) {
    demand.batch_bytes = round_up_to_pages(facts.segment_bytes(), facts.page_size);
    demand.bytes = (facts.most_workers * kDefaultPrefetchFactor + kInTrainer) * demand.batch_bytes;
    demand.most_bytes = demand.bytes + demand.batch_bytes;
    demand.formula = "(" + counted(facts.most_workers, "worker") +
                     " x 2 prefetched, the default, + 1 in the training loop) x " +
                     format_bytes(demand.batch_bytes) + ", the largest segment seen";
  }
  return demand;
}

std::vector<FailedReservation> failed_reservations(const Facts& facts) {
  std::map<uint64_t, BootNs> seen;
  std::map<uint64_t, FailedReservation> proven;
  for (const ShmLedger* ledger : facts.ledgers)
    add_reservations(facts, *ledger, seen, proven);
  std::vector<FailedReservation> result;
  result.reserve(proven.size());
  for (auto& [inode, reservation] : proven)
    result.push_back(std::move(reservation));
  for (const Event& event : facts.run->events) {
    if (event.kind != "segment-reservation-failed" || !event.process) continue;
    const bool known = std::ranges::any_of(
        result, [&](const FailedReservation& each) { return each.creator == *event.process; });
    if (known) continue;
    result.push_back(
        {.segment_bytes = facts.segment_bytes(), .creator = *event.process, .at = event.at});
  }
  std::ranges::stable_sort(result, {}, &FailedReservation::at);
  return result;
}

}  // namespace dlprobe::probes::shm
