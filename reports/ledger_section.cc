#include <algorithm>
#include <map>

#include "reports/sections.h"

namespace dlprobe {
namespace {

constexpr size_t kMostHolders = 10;
constexpr size_t kMostSegments = 10;

uint64_t taken_bytes(const ShmSegment& segment) {
  return segment.allocated_bytes.value_or(segment.size_bytes);
}

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
      held.bytes += taken_bytes(segment);
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

Json holders_json(const ShmLedger& ledger, const Run& run) {
  const std::vector<Held> holders = holders_of(ledger);
  Json result = Json::array();
  for (size_t i = 0; i < std::min(holders.size(), kMostHolders); ++i) {
    const SegmentHolder& holder = *holders[i].holder;
    Json entry = {{"pid", holder.key.pid},
                  {"start_ticks", holder.key.start_ticks},
                  {"comm", json_text(holder.comm)},
                  {"in_tree", holder.in_tree}};
    if (const ProcessInfo* process = run.find_process(holder.key)) {
      entry["role"] = to_string(process->role);
    }
    entry["bytes"] = holders[i].bytes;
    entry["segments"] = holders[i].segments;
    result.push_back(std::move(entry));
  }
  return result;
}

Json segment_json(const ShmSegment& segment) {
  Json entry = {{"inode", segment.inode}};
  if (segment.name) entry["name"] = json_text(*segment.name);
  entry["linked"] = segment.linked;
  entry["kind"] = to_string(segment.kind);
  entry["bytes"] = taken_bytes(segment);
  if (segment.creator_pid) entry["creator_pid"] = *segment.creator_pid;
  entry["creator"] = to_string(segment.creator);
  Json pids = Json::array();
  for (const SegmentHolder& holder : segment.holders)
    pids.push_back(holder.key.pid);
  entry["holder_pids"] = std::move(pids);
  return entry;
}

Json largest_segments(const ShmLedger& ledger) {
  std::vector<const ShmSegment*> segments;
  segments.reserve(ledger.segments.size());
  for (const ShmSegment& segment : ledger.segments)
    segments.push_back(&segment);
  std::ranges::stable_sort(segments, std::ranges::greater{},
                           [](const ShmSegment* segment) { return taken_bytes(*segment); });
  segments.resize(std::min(segments.size(), kMostSegments));
  Json result = Json::array();
  for (const ShmSegment* segment : segments)
    result.push_back(segment_json(*segment));
  return result;
}

Json ledger_json(const ShmLedger& ledger, std::string_view which, const Run& run,
                 const TimeOfDay& time) {
  Json entry = {{"which", which}, {"device", ledger.device}};
  time.put(entry, "seen", ledger.at);
  entry["used_bytes"] = ledger.used_bytes;
  entry["named_bytes"] = ledger.named_bytes;
  entry["unlinked_open_bytes"] = ledger.unlinked_open_bytes;
  entry["unlinked_mapped_bytes"] = ledger.unlinked_mapped_bytes;
  entry["unexplained_bytes"] = ledger.unexplained_bytes;
  entry["segments"] = ledger.segments.size() + ledger.omitted_segments;
  entry["processes_scanned"] = ledger.processes_scanned;
  entry["processes_unreadable"] = ledger.processes_unreadable;
  entry["holders"] = holders_json(ledger, run);
  entry["largest_segments"] = largest_segments(ledger);
  return entry;
}

}  // namespace

Json ledgers_of(const Run& run, const ReportSource& source) {
  struct Pair {
    const ShmLedger* peak = nullptr;
    const ShmLedger* last = nullptr;
  };
  std::map<uint64_t, Pair> by_device;
  for (const ShmLedger& ledger : run.ledgers) {
    Pair& pair = by_device[ledger.device];
    if (pair.peak == nullptr || ledger.used_bytes >= pair.peak->used_bytes) pair.peak = &ledger;
    pair.last = &ledger;
  }
  Json result = Json::array();
  for (const auto& [device, pair] : by_device) {
    result.push_back(ledger_json(*pair.peak, "peak", run, source.time));
    if (pair.last != pair.peak) {
      result.push_back(ledger_json(*pair.last, "last", run, source.time));
    }
  }
  return result;
}

}  // namespace dlprobe
