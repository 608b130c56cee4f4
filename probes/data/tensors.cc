#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "probes/data/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::data {
namespace {

using Events = std::vector<const StartEvent*>;

// A tensor as it was sent, or as it came.
struct Passage {
  BootNs at = 0;
  std::string_view word;  ///< a checksum, "-": not written to since; how many are kept and changed
};

// Of one part of some memory, in time order.
struct Passages {
  const StartEvent* teller = nullptr;  ///< null: several processes told
  std::vector<Passage> all;
};

std::map<std::optional<uint64_t>, Passages> passages_of(const Run& run, StartEventKind kind) {
  std::map<std::optional<uint64_t>, Passages> parts;
  for (const StartEvent* event : events_of(run, kind)) {
    Passages& part = parts.try_emplace(event->loader, Passages{.teller = event}).first->second;
    if (part.teller != nullptr && part.teller->process != event->process) part.teller = nullptr;
    for (const std::string& digest : event->digests) {
      const std::vector<std::string_view> words = split(digest, ' ');
      const auto at = parse_int<int64_t>(words.front());
      if (at && words.size() == 2) part.all.push_back({.at = *at, .word = words.back()});
    }
  }
  for (auto& [name, part] : parts)
    std::ranges::stable_sort(part.all, {}, &Passage::at);
  return parts;
}

// How many came after their memory had been written to and sent again. Whoever waits for its turn
// to write sends one after the other has come.
size_t late_ones(const Passages& sent, const Passages& taken) {
  size_t late = 0;
  for (size_t i = 0; i < taken.all.size() && i + 1 < sent.all.size(); ++i)
    late += sent.all[i + 1].word != "-" && taken.all[i].at > sent.all[i + 1].at ? 1 : 0;
  return late;
}

size_t most_kept(const Passages& taken) {
  size_t most = 0;
  for (const Passage& passage : taken.all)
    most = std::max(most, parse_int<size_t>(passage.word).value_or(0));
  return most;
}

// Two senders may hand the memory on, of several takers some may tell nothing.
bool is_from_child(const Run& run, const Passages& sent, const Passages& taken) {
  if (sent.teller == nullptr || taken.teller == nullptr) return false;
  const Events starts = events_of(run, StartEventKind::kStarted);
  return std::ranges::any_of(starts, [&](const StartEvent* start) {
    return start->process == taken.teller->process && start->child_pid == sent.teller->process.pid;
  });
}

struct Overwritten {
  Events senders;
  const StartEvent* taker = nullptr;
  size_t count = 0;
  size_t compared = 0;
};

Finding finding_of_tensors(const Run& run, const Overwritten& tensors) {
  const StartEvent& first = *tensors.senders.front();
  Finding finding =
      data_finding(FindingCode::kBatchOverwritten, tensors.senders, processes_of(tensors.senders));
  finding.severity = Severity::kWarning;
  finding.discriminator = "tensors";
  finding.message =
      say("{} sent tensors and then wrote to their memory: {} of {} compared had changed before {} "
          "used them",
          describe_some(run, finding.processes), own(tensors.count), own(tensors.compared),
          describe(run, tensors.taker->process));
  const Message place = place_of(first);
  if (!place.empty()) finding.message += ";" + place;
  finding.message += " (harmless if the newest values are wanted)";
  finding.prove(count_fact("changed_batches", tensors.count, kShimSource, first.at));
  finding.prove(count_fact("compared_batches", tensors.compared, kShimSource, first.at));
  finding.rule_out("memory that others write to on purpose",
                   "the process that sent it wrote to it itself, between two sends");
  finding.advise("Send memory that is not written to again: PyTorch sends a tensor without a copy",
                 {"queue.put(buffer.clone())  # of a task: return buffer.clone()"},
                 "dlprobe run -- COMMAND");
  return finding;
}

}  // namespace

std::vector<Finding> overwritten_tensors(const Run& run) {
  constexpr size_t kFewestLate = 2;
  constexpr size_t kFewestKept = 4;  // a loop has the last one yet, and maybe one before
  const auto sent = passages_of(run, StartEventKind::kTensorsSent);
  const auto taken = passages_of(run, StartEventKind::kTensorsTaken);
  std::map<std::pair<std::string, int32_t>, Overwritten> of_places;
  for (const auto& [name, sends] : sent) {
    const auto takes = taken.find(name);
    if (takes == taken.end() || !is_from_child(run, sends, takes->second)) continue;
    const size_t late = late_ones(sends, takes->second);
    const size_t kept = most_kept(takes->second);
    if (late < kFewestLate && kept < kFewestKept) continue;
    Overwritten& place = of_places[{sends.teller->file, sends.teller->line}];
    place.senders.push_back(sends.teller);
    place.taker = takes->second.teller;
    place.count += std::max(late, kept);
    place.compared += std::min(takes->second.all.size(), sends.all.size());
  }
  std::vector<Finding> findings;
  findings.reserve(of_places.size());
  for (const auto& [place, tensors] : of_places)
    findings.push_back(finding_of_tensors(run, tensors));
  return findings;
}

}  // namespace dlprobe::probes::data
