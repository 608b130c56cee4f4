#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
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

// One batch as its worker sent it, or as the trainer took it.
struct Batch {
  const StartEvent* teller = nullptr;
  std::vector<std::string_view> words;  ///< a checksum of its shapes, and one of each array
};

// Of one iterator, by their numbers.
using Batches = std::map<std::string_view, Batch>;

std::map<std::optional<uint64_t>, Batches> batches_of(const Run& run, StartEventKind kind) {
  std::map<std::optional<uint64_t>, Batches> loaders;
  for (const StartEvent* event : events_of(run, kind)) {
    for (const std::string& digest : event->digests) {
      std::vector<std::string_view> words = split(digest, ' ');
      const std::string_view number = words.front();
      words.erase(words.begin());
      loaders[event->loader].emplace(number, Batch{.teller = event, .words = std::move(words)});
    }
  }
  return loaders;
}

struct Comparison {
  std::vector<const StartEvent*> senders;  ///< of those that changed
  size_t compared = 0;
  size_t changed = 0;
  bool is_queue =
      false;  ///< the sender told both: when it put it into a queue, and when that was sent
};

void compare(const Batch& sent, const Batch& taken, Comparison& comparison) {
  if (sent.words.size() != taken.words.size() || sent.words.empty() ||
      sent.words.front() != taken.words.front())
    return;
  bool is_compared = false;
  bool is_changed = false;
  for (size_t i = 1; i < sent.words.size(); ++i) {
    if (sent.words[i] == "-" || taken.words[i] == "-") continue;
    is_compared = true;
    is_changed |= sent.words[i] != taken.words[i];
  }
  comparison.compared += is_compared ? 1 : 0;
  if (!is_changed) return;
  comparison.changed += 1;
  comparison.is_queue = sent.teller->process == taken.teller->process;
  comparison.senders.push_back(sent.teller);
}

Comparison compared(const Batches& sent, const Batches& taken) {
  Comparison comparison;
  for (const auto& [number, batch] : sent)
    if (const auto other = taken.find(number); other != taken.end())
      compare(batch, other->second, comparison);
  std::ranges::stable_sort(comparison.senders, {}, &StartEvent::at);
  return comparison;
}

Finding finding_of(const Run& run, const Comparison& comparison) {
  const StartEvent& first = *comparison.senders.front();
  Finding finding = data_finding(FindingCode::kBatchOverwritten, comparison.senders,
                                 processes_of(comparison.senders));
  finding.confidence = Confidence::kCertain;
  const OwnWords who = describe_some(run, finding.processes);
  if (comparison.is_queue) {
    finding.discriminator = "queue";
    finding.message =
        say("{} overwrote arrays after putting them into a queue: {} of {} compared were sent with "
            "other values",
            who, own(comparison.changed), own(comparison.compared));
  } else {
    finding.message =
        say("{} overwrote batches after sending them: the trainer got {} of {} compared with other "
            "values",
            who, own(comparison.changed), own(comparison.compared));
  }
  const Message place = place_of(first);
  if (!place.empty()) finding.message += ";" + place;
  finding.prove(count_fact("changed_batches", comparison.changed, kShimSource, first.at));
  finding.prove(count_fact("compared_batches", comparison.compared, kShimSource, first.at));
  finding.rule_out("a tensor that is always the same",
                   "its values when it was sent and when it was taken differ");
  Remedy remedy = {
      .title = "Send memory that is not written to again: a copy, or new memory for each batch",
      .commands = {"return self.buffer.clone()  # numpy: self.buffer.copy()",
                   "torch.stack(samples)  # without out="},
      .verify = "dlprobe run -- COMMAND"};
  if (comparison.is_queue) {
    remedy.title = "Put a copy: the queue's own thread pickles it later";
    remedy.commands = {"queue.put(array.copy())"};
  }
  finding.remedies.push_back(std::move(remedy));
  return finding;
}

}  // namespace

std::vector<Finding> overwritten_batches(const Run& run) {
  const auto sent = batches_of(run, StartEventKind::kBatchesSent);
  const auto taken = batches_of(run, StartEventKind::kBatchesTaken);
  // Each epoch has an iterator of its own: one finding of each place.
  std::map<std::pair<std::string, int32_t>, Comparison> of_places;
  for (const auto& [loader, batches] : sent) {
    const auto other = taken.find(loader);
    if (other == taken.end()) continue;
    Comparison comparison = compared(batches, other->second);
    if (comparison.changed == 0) continue;
    const StartEvent& first = *comparison.senders.front();
    of_places.try_emplace({first.file, first.line}, std::move(comparison));
  }
  std::vector<Finding> findings;
  findings.reserve(of_places.size());
  for (const auto& [place, comparison] : of_places)
    findings.push_back(finding_of(run, comparison));
  return findings;
}

}  // namespace dlprobe::probes::data
