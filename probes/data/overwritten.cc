#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/path_name.h"
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

using Tellers = std::vector<const StartEvent*>;

Finding finding_of_loss(const Tellers& tellers, const char* what) {
  const StartEvent& first = *tellers.front();
  Finding finding = new_finding(FindingCode::kDataLost, Confidence::kLikely);
  finding.discriminator = first.path + first.function;
  finding.processes = processes_of(tellers);
  finding.first_seen = first.at;
  finding.last_seen = tellers.back()->at;
  finding.prove(count_fact("processes", finding.processes.size(), kShimSource, first.at));
  if (!first.path.empty())
    finding.prove(text_fact("file", as_path(first.path), kShimSource, first.at));
  add_source(finding, first.file, first.line, what);
  return finding;
}

// From when a process emptied a file to when it read it.
struct Turn {
  int64_t emptied = 0;
  int64_t read = 0;
};

std::vector<Turn> turns_of(const StartEvent& event) {
  std::vector<Turn> turns;
  for (const std::string& digest : event.digests) {
    const std::vector<std::string_view> words = split(digest, ' ');
    const auto emptied = parse_int<int64_t>(words.front());
    const auto read = parse_int<int64_t>(words.back());
    if (emptied && read) turns.push_back({.emptied = *emptied, .read = *read});
  }
  return turns;
}

// In how many of its turns another one emptied it, which a lock around them would not have let.
uint64_t broken_turns(const StartEvent& event, const Tellers& all) {
  std::set<int64_t> emptied_by_others;
  for (const StartEvent* other : all)
    if (other->process != event.process)
      for (const Turn& turn : turns_of(*other))
        emptied_by_others.insert(turn.emptied);
  return static_cast<uint64_t>(std::ranges::count_if(turns_of(event), [&](const Turn& turn) {
    const auto next = emptied_by_others.upper_bound(turn.emptied);
    return next != emptied_by_others.end() && *next < turn.read;
  }));
}

std::optional<Finding> overwritten_file(const Run& run, const Tellers& tellers) {
  constexpr uint64_t kFewest = 3;
  Tellers losers;
  uint64_t broken = 0;
  uint64_t turns = 0;
  for (const StartEvent* event : tellers) {
    const uint64_t of_this = broken_turns(*event, tellers);
    if (of_this > 0) losers.push_back(event);
    broken += of_this;
    turns += event->digests.size();
  }
  if (broken < kFewest) return std::nullopt;
  const StartEvent& first = *losers.front();
  Finding finding = finding_of_loss(losers, "written at");
  finding.processes = processes_of(tellers);
  finding.message =
      say("{} write one file, {}, and read it back: in {} of {} turns another had written it "
          "meanwhile",
          describe_some(run, finding.processes), as_path(base_name(first.path)), own(broken),
          own(turns));
  if (const Message place = place_of(first); !place.empty()) finding.message += ";" + place;
  finding.prove(count_fact("overwrites", broken, kShimSource, first.at));
  finding.rule_out("a lock around write and read",
                   "others emptied the file between the two, by the times of both");
  finding.advise(
      "Give each process a file of its own",
      {"with tempfile.NamedTemporaryFile(suffix='.wav') as file:", "    ...  # file.name"},
      "dlprobe run -- COMMAND");
  return finding;
}

// What was written to one index of a data set's own memory.
struct Change {
  const StartEvent* teller = nullptr;
  std::string_view before;
  std::string_view after;
};

// Those that began with what an earlier one had left: each request changes the sample once more.
Tellers changed_again(const std::vector<Change>& changes) {
  Tellers tellers;
  for (size_t i = 0; i < changes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (changes[j].after == changes[i].before) {
        tellers.insert(tellers.end(), {changes[j].teller, changes[i].teller});
        break;
      }
  return tellers;
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

std::vector<Finding> overwritten_files(const Run& run) {
  std::map<std::pair<std::optional<uint64_t>, std::string>, Tellers> files;
  for (const StartEvent* event : last_words(run, StartEventKind::kFileRewritten))
    files[{event->loader, event->path}].push_back(event);
  std::vector<Finding> findings;
  for (const Tellers& tellers : files | std::views::values)
    add(findings, overwritten_file(run, tellers));
  return findings;
}

std::vector<Finding> overwritten_samples(const Run& run) {
  constexpr size_t kFewest = 2;
  using Place = std::pair<std::string, int32_t>;
  std::map<Place, std::map<std::string_view, std::vector<Change>>> of_places;
  for (const StartEvent* event : events_of(run, StartEventKind::kSamplesRewritten)) {
    for (const std::string& digest : event->digests) {
      const std::vector<std::string_view> words = split(digest, ' ');
      if (words.size() == 3)
        of_places[{event->file, event->line}][words[0]].push_back(
            {.teller = event, .before = words[1], .after = words[2]});
    }
  }
  std::vector<Finding> findings;
  for (const auto& indices : of_places | std::views::values) {
    Tellers tellers;
    uint64_t samples = 0;
    for (const auto& changes : indices | std::views::values) {
      const Tellers again = changed_again(changes);
      samples += again.empty() ? 0 : 1;
      tellers.insert(tellers.end(), again.begin(), again.end());
    }
    if (samples < kFewest) continue;
    std::ranges::stable_sort(tellers, {}, &StartEvent::at);
    const StartEvent& first = *tellers.front();
    Finding finding = finding_of_loss(tellers, "samples made at");
    finding.message = say(
        "{} change the data set's own samples: {} of those looked at were changed again when they "
        "came again",
        describe_some(run, finding.processes), own(samples));
    if (const Message place = place_of(first); !place.empty()) finding.message += ";" + place;
    finding.prove(count_fact("overwrites", samples, kShimSource, first.at));
    finding.rule_out("a cache that is filled when a sample is first asked for",
                     "what the first request had left was changed by a later one");
    finding.advise("Work on a copy of what the data set keeps",
                   {"x = self.data[i].clone()  # numpy: .copy(); a mapped file: mode='r'",
                    "x = (x - mean) / std  # not x.sub_(mean).div_(std), x -= mean"},
                   "dlprobe run -- COMMAND");
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> lost_bytes(const Run& run) {
  std::map<std::pair<std::string_view, int32_t>, Tellers> of_places;
  for (const StartEvent* event : events_of(run, StartEventKind::kBytesLost))
    of_places[{event->file, event->line}].push_back(event);
  std::vector<Finding> findings;
  for (const Tellers& tellers : of_places | std::views::values) {
    const StartEvent& first = *tellers.front();
    std::set<std::string_view> files;
    uint64_t bytes = 0;
    for (const StartEvent* event : tellers) {
      files.insert(event->path);
      bytes += event->bytes.value_or(0);
    }
    Finding finding = finding_of_loss(tellers, "written at");
    finding.confidence = Confidence::kCertain;
    finding.message =
        say("{} ended with {} bytes for {}{} in buffers, which are lost: a forked process ends by "
            "os._exit, which flushes no file",
            describe_some(run, finding.processes), own(bytes), as_path(base_name(first.path)),
            files.size() > 1 ? Message(" and others") : Message());
    if (const Message place = place_of(first); !place.empty()) finding.message += ";" + place;
    finding.prove(bytes_fact("lost_bytes", bytes, kShimSource, first.at));
    finding.advise("Open the file in the process that writes it, and close it there",
                   {"with open(path, 'a') as file:  # of a file of before the fork: file.flush()"},
                   "dlprobe run -- COMMAND");
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace dlprobe::probes::data
