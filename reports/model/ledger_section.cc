#include <algorithm>
#include <cstdlib>
#include <map>

#include "reports/model/sections.h"

namespace dlprobe {
namespace {

constexpr size_t kMostHolders = 10;
constexpr size_t kMostSegments = 10;

struct Held {
  const SegmentHolder* holder = nullptr;
  uint64_t bytes = 0;
  uint64_t segments = 0;
};

// Largest first. A segment with several holders counts for each, so the sum may exceed what is
// used.
std::vector<Held> holders_of(const ShmLedger& ledger) {
  std::map<ProcessKey, Held> by_key;
  for (const ShmSegment& segment : ledger.segments) {
    for (const SegmentHolder& holder : segment.holders) {
      Held& held = by_key[holder.key];
      held.holder = &holder;
      held.bytes += segment.taken_bytes();
      ++held.segments;
    }
  }
  std::vector<Held> result;
  result.reserve(by_key.size());
  for (const auto& [key, held] : by_key)
    result.push_back(held);
  std::ranges::stable_sort(result, std::ranges::greater{}, &Held::bytes);
  return result;
}

std::vector<report::Holder> largest_holders(const ShmLedger& ledger, const Run& run) {
  const std::vector<Held> holders = holders_of(ledger);
  std::vector<report::Holder> result;
  for (size_t i = 0; i < std::min(holders.size(), kMostHolders); ++i) {
    const SegmentHolder& holder = *holders[i].holder;
    const ProcessInfo* process = run.find_process(holder.key);
    result.push_back({.pid = holder.key.pid,
                      .start_ticks = holder.key.start_ticks,
                      .comm = holder.comm,
                      .in_tree = holder.in_tree,
                      .role = process == nullptr ? std::nullopt : std::optional(process->role),
                      .bytes = holders[i].bytes,
                      .segments = holders[i].segments});
  }
  return result;
}

report::Segment segment_of(const ShmSegment& segment) {
  report::Segment entry{.inode = segment.inode,
                        .name = segment.name,
                        .linked = segment.linked,
                        .kind = std::string(to_string(segment.kind)),
                        .bytes = segment.taken_bytes(),
                        .creator_pid = segment.creator_pid,
                        .creator = segment.creator};
  for (const SegmentHolder& holder : segment.holders)
    entry.holder_pids.push_back(holder.key.pid);
  return entry;
}

std::vector<report::Segment> largest_segments(const ShmLedger& ledger) {
  std::vector<const ShmSegment*> segments;
  segments.reserve(ledger.segments.size());
  for (const ShmSegment& segment : ledger.segments)
    segments.push_back(&segment);
  std::ranges::stable_sort(segments, std::ranges::greater{},
                           [](const ShmSegment* segment) { return segment->taken_bytes(); });
  segments.resize(std::min(segments.size(), kMostSegments));
  std::vector<report::Segment> result;
  result.reserve(segments.size());
  for (const ShmSegment* segment : segments)
    result.push_back(segment_of(*segment));
  return result;
}

report::ShmLedger ledger_of(const ShmLedger& ledger, report::LedgerMoment which, const Run& run,
                            const TimeOfDay& time) {
  return {.which = which,
          .device = ledger.device,
          .seen = time.moment(ledger.at),
          .used_bytes = ledger.used_bytes,
          .named_bytes = ledger.named_bytes,
          .unlinked_open_bytes = ledger.unlinked_open_bytes,
          .unlinked_mapped_bytes = ledger.unlinked_mapped_bytes,
          .unexplained_bytes = ledger.unexplained_bytes,
          .segments = ledger.segments.size() + ledger.omitted_segments,
          .processes_scanned = ledger.processes_scanned,
          .processes_unreadable = ledger.processes_unreadable,
          .holders = largest_holders(ledger, run),
          .largest_segments = largest_segments(ledger)};
}

// One during which much changed is an account of no moment.
std::pair<bool, uint64_t> rank_of(const ShmLedger& ledger) {
  const auto unexplained = static_cast<uint64_t>(std::abs(ledger.unexplained_bytes));
  return {unexplained <= ledger.used_bytes / 10, ledger.used_bytes};
}

}  // namespace

std::vector<report::ShmLedger> ledgers_of(const Run& run, const ReportSource& source) {
  struct Pair {
    const ShmLedger* peak = nullptr;
    const ShmLedger* last = nullptr;
  };
  std::map<uint64_t, Pair> by_device;
  for (const ShmLedger& ledger : run.ledgers) {
    Pair& pair = by_device[ledger.device];
    if (pair.peak == nullptr || rank_of(ledger) >= rank_of(*pair.peak)) pair.peak = &ledger;
    pair.last = &ledger;
  }
  std::vector<report::ShmLedger> result;
  for (const auto& [device, pair] : by_device) {
    result.push_back(ledger_of(*pair.peak, report::LedgerMoment::kPeak, run, source.time));
    if (pair.last != pair.peak) {
      result.push_back(ledger_of(*pair.last, report::LedgerMoment::kLast, run, source.time));
    }
  }
  return result;
}

}  // namespace dlprobe
