#include "probes/facts/grown_containers.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe {
namespace {

constexpr const char* kReader = "the Python objects in the memory of the process";

/// One container, over all looks.
struct Candidate {
  const GrownContainer* last = nullptr;
  uint64_t before = 0;
  double more = 0;
  size_t looks = 0;
  size_t first = 0;  // look that has it
  uint64_t item_bytes = 0;
  bool is_all_known = true;
};

struct Looks {
  std::map<std::pair<uint64_t, std::string>, Candidate> candidates;
  size_t count = 0;
  double seconds = 0;
};

Looks looks_in(const Run& run, const Risen& risen) {
  Looks all;
  for (const ContainerLook& look : run.grown) {
    if (look.process != risen.process || look.at <= risen.from || look.before_at >= risen.to)
      continue;
    ++all.count;
    all.seconds += static_cast<double>(look.at - look.before_at) / kSecond;
    for (const GrownContainer& each : look.grown) {
      Candidate& candidate = all.candidates[{each.address, each.name}];
      if (candidate.looks++ == 0) {
        candidate.before = each.before;
        candidate.first = all.count - 1;
      }
      candidate.last = &each;
      candidate.more += static_cast<double>(each.count - each.before);
      candidate.item_bytes = std::max(candidate.item_bytes, each.item_bytes.value_or(0));
      candidate.is_all_known = candidate.is_all_known && each.item_bytes;
    }
  }
  return all;
}

// How much of what became more it can be; nothing: none, or too little.
std::optional<double> share_of(const Candidate& candidate, const Looks& looks, const Risen& risen) {
  constexpr double kLeastShare = 0.25;
  constexpr double kMostOfOneItem = 16;  // a pool has so many threads
  const double per_second = candidate.more / looks.seconds;
  // Before it began, the program may have loaded its libraries.
  const size_t since = looks.count - candidate.first;
  if (candidate.looks * 3 < std::max(since * 2, looks.count)) return std::nullopt;
  if (risen.count_per_second > 0) {
    const double of_each = risen.count_per_second / per_second;
    return of_each >= 0.5 && of_each <= kMostOfOneItem ? std::optional(1 / of_each) : std::nullopt;
  }
  if (!candidate.is_all_known) {
    // Of what the program does not use itself few items are hardly it.
    constexpr double kMostOfAnItem = 64.0 * (1 << 20);
    const bool may_be = candidate.last->user || risen.bytes_per_second / per_second < kMostOfAnItem;
    return may_be ? std::optional(0.0) : std::nullopt;
  }
  const double share =
      per_second * static_cast<double>(candidate.item_bytes) / risen.bytes_per_second;
  return share >= kLeastShare ? std::optional(share) : std::nullopt;
}

void add_place(Finding& finding, const StackFrame& frame, const Message& what) {
  const StartEvent place{.file = frame.file, .line = frame.line, .function = frame.function};
  finding.message += place_of(place);
  add_source(finding, place.file, place.line, what);
}

Message kind_of(const std::string& type) {
  const size_t dot = type.rfind('.');
  return as_name(dot == std::string::npos ? type : type.substr(dot + 1));
}

}  // namespace

const GrownContainer* name_grown_container(Finding& finding, const Run& run, const Risen& risen) {
  const Looks looks = looks_in(run, risen);
  const Candidate* best = nullptr;
  auto rank_of_best = std::tuple(false, 0.0, false);
  for (const auto& [key, candidate] : looks.candidates) {
    // What a library keeps of its own threads says less than where they stand.
    if (risen.count_per_second > 0 && !candidate.last->user) continue;
    const auto share = share_of(candidate, looks, risen);
    const auto rank = std::tuple(candidate.last->user.has_value(), share.value_or(0),
                                 !is_bounded(*candidate.last));
    if (!share || (best != nullptr && rank <= rank_of_best)) continue;
    best = &candidate;
    rank_of_best = rank;
  }
  if (best == nullptr) return nullptr;
  const GrownContainer& grown = *best->last;
  finding.message += say("; its {} {} grew from {} to {} meanwhile", kind_of(grown.type),
                         as_name(grown.name), own(best->before), counted(grown.count, "item"));
  finding.prove(text_fact(
      "grown_container",
      say("{}: {} to {}", as_name(grown.name), own(best->before), counted(grown.count, "item")),
      kReader, risen.to));
  if (grown.user) add_place(finding, *grown.user, "grows in");
  return &grown;
}

std::optional<StackFrame> where_none_grew(const Run& run, const Risen& risen) {
  constexpr size_t kFewestLooks = 3;
  const Looks looks = looks_in(run, risen);
  const bool has_grown = std::ranges::any_of(looks.candidates, [&](const auto& each) {
    const Candidate& candidate = each.second;
    return candidate.last->user && candidate.looks * 2 >= looks.count;
  });
  if (looks.count < kFewestLooks || has_grown) return std::nullopt;
  const auto look = std::ranges::find_if(run.grown, [&](const ContainerLook& each) {
    return each.process == risen.process && each.at > risen.from && each.crowd;
  });
  return look == run.grown.end() ? std::nullopt : look->crowd;
}

// dlprobe's reader writes the bound behind the name of the type: "collections.deque(maxlen=512)".
bool is_bounded(const GrownContainer& container) {
  return container.type.starts_with("collections.deque(") ||
         container.type.starts_with("functools.lru_cache(");
}

void replace_cycle(Finding& finding, const GrownContainer* grown) {
  if (grown == nullptr || grown->type != "itertools.cycle") return;
  finding.remedies.insert(
      finding.remedies.begin(),
      {.title = "Begin the loader anew: itertools.cycle keeps all that it gave, and gives it again",
       .commands = {"def endless(loader):", "    while True:", "        yield from loader"},
       .verify = "dlprobe run -- COMMAND"});
}

void name_crowd_of_threads(Finding& finding, const Run& run, const Risen& risen) {
  const auto last = std::ranges::find_if(
      run.grown.rbegin(), run.grown.rend(),
      [&](const ContainerLook& look) { return look.process == risen.process; });
  if (last == run.grown.rend() || last->in_crowd * 2 < last->threads) return;
  const std::optional<StackFrame>& crowd = last->crowd;
  if (!crowd) return;
  finding.message += "; " + own(last->in_crowd) + " of them stand";
  finding.prove(count_fact("threads_that_stand_there", last->in_crowd, kReader, last->at));
  add_place(finding, *crowd, "threads stand in");
}

}  // namespace dlprobe
