#include "lib/collect/shm/shm_watch.h"

#include <algorithm>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

/// How fast memory can be filled at most: what earlyoom (main.c) assumes for its own sleep.
constexpr uint64_t kFillBytesPerSecond = uint64_t{6000} << 20;
constexpr BootNs kShortestWait = 10 * kMillisecond;
/// While a mount that is nearly full changes: a worker that dies of it takes its segments along
/// within 10 ms.
constexpr BootNs kShortestWaitNearFull = 2 * kMillisecond;
constexpr BootNs kCalmAfter = kSecond;  ///< without a change

uint64_t free_bytes(const std::optional<ShmUse>& use) {
  if (!use || use->size_bytes == 0) return UINT64_MAX;
  return use->size_bytes - std::min(use->used_bytes, use->size_bytes);
}

bool use_differs(const std::optional<ShmUse>& before, const ShmUse& now) {
  return !before || before->used_bytes != now.used_bytes || before->inodes_used != now.inodes_used;
}

}  // namespace

ShmWatch::ShmWatch(const Machine& machine, DeadlineReader& reader, RecordSink& sink, GapLog& gaps)
    : machine_(machine),
      reader_(reader),
      sink_(sink),
      gaps_(gaps),
      mounts_(machine),
      ledgers_(machine, reader) {}

std::vector<uint64_t> ShmWatch::find_mounts(const ProcessTree& tree, bool again) {
  std::vector<uint64_t> devices;
  for (ShmMount& mount : mounts_.update(tree, again)) {
    devices.push_back(mount.device);
    sink_.add(std::move(mount));
  }
  while (watched_.size() < mounts_.all().size())
    watched_.push_back({.segments = SegmentWatch(machine_, mounts_.all()[watched_.size()])});
  return devices;
}

std::vector<Observed<ShmUse>> ShmWatch::sample() {
  std::vector<Observed<ShmUse>> uses;
  for (size_t i = 0; i < watched_.size(); ++i) {
    uses.push_back(mounts_.use(mounts_.all()[i]));
    if (uses.back()) note_use(watched_[i], *uses.back());
  }
  return uses;
}

void ShmWatch::poll() {
  for (size_t i = 0; i < watched_.size(); ++i) {
    const auto use = mounts_.use(mounts_.all()[i]);
    if (use && note_use(watched_[i], *use)) sink_.add(*use);
  }
}

// Returns whether it differs from the last look.
bool ShmWatch::note_use(Watched& watched, const ShmUse& use) {
  const bool changed = use_differs(watched.last_use, use);
  watched.last_use = use;
  watched.lowest_free = std::min(watched.lowest_free, free_bytes(use));
  if (changed) schedule_.note_use_changed(use.device, use.at);
  return changed;
}

void ShmWatch::check_segments(const ProcessTree& tree) {
  for (Watched& watched : watched_) {
    SegmentWatch& segments = watched.segments;
    segments.check(tree, reader_, watched.lowest_free);
    watched.lowest_free = free_bytes(watched.last_use);
    for (Event& event : segments.take_events())
      sink_.add(std::move(event));
    if (auto gap = segments.take_gap()) gaps_.add(std::move(*gap));
    if (segments.take_activity()) schedule_.note_segments_changed();
  }
}

void ShmWatch::take_ledger(const ProcessTree& tree) {
  poll();
  check_segments(tree);
  if (schedule_.is_fresh(machine_.clock->now()) && tree.living() == living_) return;
  take_ledgers(tree, LedgerKeeper::Scope::kAll);
}

void ShmWatch::take_ledger_if_due(const ProcessTree& tree, bool tree_ended) {
  if (watched_.empty()) return;
  const auto scope = schedule_.due(machine_.clock->now(), fullest(), tree_ended);
  if (scope) take_ledgers(tree, *scope);
}

bool ShmWatch::is_ledger_due() const {
  return schedule_.is_due_for_use(machine_.clock->now(), fullest());
}

void ShmWatch::take_ledgers(const ProcessTree& tree, LedgerKeeper::Scope scope) {
  schedule_.begin(fullest());
  living_ = tree.living();
  const BootNs began = machine_.clock->now();
  for (ShmLedger& ledger : ledgers_.take(tree, mounts_, scope, [this] { poll(); })) {
    note_empty_segments(ledger);
    sink_.add(std::move(ledger));
  }
  schedule_.end(scope, began, machine_.clock->now() - began);
}

// Segments made before inotify watched, or without it.
void ShmWatch::note_empty_segments(const ShmLedger& ledger) {
  for (size_t i = 0; i < watched_.size(); ++i) {
    if (mounts_.all()[i].mount.device != ledger.device) continue;
    for (const ShmSegment& segment : ledger.segments) {
      if (segment.name && segment.linked && segment.size_bytes > 0 &&
          segment.allocated_bytes.value_or(1) == 0) {
        watched_[i].segments.add(*segment.name, free_bytes(watched_[i].last_use));
      }
    }
  }
}

double ShmWatch::fullest() const {
  double most = 0;
  for (const Watched& watched : watched_) {
    const std::optional<ShmUse>& use = watched.last_use;
    if (!use || use->size_bytes == 0) continue;
    most =
        std::max(most, static_cast<double>(use->used_bytes) / static_cast<double>(use->size_bytes));
  }
  return most;
}

BootNs ShmWatch::time_to_fill(BootNs now, BootNs most) const {
  const bool calm = now - schedule_.changed_at() > kCalmAfter;
  const BootNs shortest = calm ? kShortestWait : kShortestWaitNearFull;
  BootNs soonest = most;
  for (const Watched& watched : watched_) {
    if (!watched.last_use || watched.last_use->size_bytes == 0) continue;
    const auto time = static_cast<BootNs>(free_bytes(watched.last_use) /
                                          static_cast<uint64_t>(kFillBytesPerSecond / kSecond));
    soonest = std::min(soonest, std::max(time, shortest));
  }
  return soonest;
}

}  // namespace dlprobe
