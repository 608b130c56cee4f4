#include "probes/data/rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::data {
namespace {

using Events = std::vector<const StartEvent*>;

// Fewer that differ may be what each part of the data begins with.
constexpr size_t kFewestSamples = 4;

// What a worker told last of a generator, or of its samples.
Events last_words(const Run& run, StartEventKind kind) {
  std::map<std::pair<ProcessKey, std::string>, const StartEvent*> last;
  for (const StartEvent* event : events_of(run, kind))
    if (event->loader) last[{event->process, event->path}] = event;
  Events words;
  std::ranges::copy(last | std::views::values, std::back_inserter(words));
  return words;
}

// Of two workers or more of one iterator, each group of which told the same; those of each place in
// the program are one.
std::vector<Events> told_alike(const Run& run, StartEventKind kind) {
  std::map<std::tuple<std::optional<uint64_t>, std::string, std::vector<std::string>>, Events>
      groups;
  for (const StartEvent* event : last_words(run, kind))
    groups[{event->loader, event->path, event->digests}].push_back(event);
  std::map<std::pair<std::string, int32_t>, Events> of_places;
  for (const Events& group : groups | std::views::values) {
    if (group.size() < 2) continue;
    Events& place = of_places[{group.front()->file, group.front()->line}];
    place.insert(place.end(), group.begin(), group.end());
  }
  std::vector<Events> alike;
  for (Events& events : of_places | std::views::values) {
    std::ranges::stable_sort(events, {}, &StartEvent::at);
    alike.push_back(std::move(events));
  }
  return alike;
}

// Of the iterator that told first: the next epoch has other workers.
std::vector<ProcessKey> first_workers(const Events& events) {
  Events first;
  std::ranges::copy_if(events, std::back_inserter(first), [&](const StartEvent* event) {
    return event->loader == events.front()->loader && event->path == events.front()->path;
  });
  return processes_of(first);
}

Finding data_finding(FindingCode code, const Events& events) {
  const StartEvent& first = *events.front();
  // Whether it was meant cannot be known.
  Finding finding = new_finding(code, Confidence::kLikely);
  finding.discriminator = first.function;
  finding.processes = first_workers(events);
  finding.first_seen = first.at;
  finding.last_seen = events.back()->at;
  finding.prove(count_fact("processes", finding.processes.size(), kShimSource, first.at));
  if (!first.file.empty()) {
    finding.prove(text_fact("samples_made_at", whole_place(first), kShimSource, first.at));
    add_source(finding, first.file, first.line, "samples made at");
  }
  return finding;
}

// How a generator of that class is seeded with what PyTorch gives each worker.
const char* seeding(std::string_view type) {
  if (type == "random.Random") return ".seed(info.seed)";
  if (type == "numpy.random.RandomState") return ".seed(info.seed % 2**32)";
  if (type == "torch.Generator") return ".manual_seed(info.seed)";
  return ".bit_generator.state = numpy.random.default_rng(info.seed).bit_generator.state";
}

// PyTorch seeds these in each worker: some later call seeded them alike.
bool is_of_library(const StartEvent& event) {
  return event.path == "random" || event.path == "numpy.random" || event.path == "torch";
}

// Nobody else can name the variable of a function that has returned.
bool is_in_closure(const StartEvent& event) {
  return event.path.contains(".<locals>.");
}

Remedy seed_apart(const StartEvent& event) {
  if (is_in_closure(event))
    return {.title = "Let that function draw from a generator which PyTorch seeds in each worker",
            .commands = {"random.random()", "torch.rand(())"},
            .verify = "dlprobe run -- COMMAND"};
  const char* root = event.path.starts_with("dataset.") ? "info." : "";
  return {.title = "Seed it in each worker, with the worker's own seed",
          .commands = {"def seed_worker(_):", "    info = torch.utils.data.get_worker_info()",
                       say("    {}{}{}", root, as_name(event.path), seeding(event.type)),
                       "DataLoader(..., worker_init_fn=seed_worker)"},
          .verify = "dlprobe run -- COMMAND"};
}

Finding finding_of_numbers(const Run& run, const Events& events) {
  const StartEvent& first = *events.front();
  Finding finding = data_finding(FindingCode::kRandomNumbersRepeated, events);
  const OwnWords who = describe_some(run, finding.processes);
  const Message what =
      is_of_library(first)
          ? say("the generator of {} began in the same state in each", as_name(first.path))
          : say("each has a copy of {} ({})", as_name(first.path), as_name(first.type));
  finding.message = say("{} draw the same random numbers: {}", who, what);
  const Message place = place_of(first);
  if (!place.empty()) finding.message += ";" + place;
  std::set<std::string> paths;
  for (const StartEvent* event : events) {
    if (paths.insert(event->path).second)
      finding.prove(text_fact("generator", as_name(event->path), kShimSource, event->at));
  }
  finding.rule_out("a generator that each worker seeds",
                   "its first numbers are the same in each worker, and those of the samples follow "
                   "from them");
  finding.remedies.push_back(seed_apart(first));
  return finding;
}

Finding finding_of_samples(const Run& run, const Events& events) {
  const StartEvent& first = *events.front();
  Finding finding = data_finding(FindingCode::kSamplesRepeated, events);
  const size_t count = first.digests.size();
  finding.message = say("{} deliver the same samples: the first {} of each are equal",
                        describe_some(run, finding.processes), own(count));
  const Message place = place_of(first);
  if (!place.empty()) finding.message += ";" + place;
  finding.prove(count_fact("equal_samples", count, kShimSource, first.at));
  finding.rule_out(
      "data that always looks the same",
      say("{} of the {} samples differ",
          own(std::set(first.digests.begin(), first.digests.end()).size()), own(count)));
  finding.remedies.push_back(
      {.title = "Give each worker its part of the data, in __iter__",
       .commands = {"info = torch.utils.data.get_worker_info()",
                    "files = self.files[info.id::info.num_workers]  # or, of samples:",
                    "itertools.islice(samples, info.id, None, info.num_workers)"},
       .verify = "dlprobe run -- COMMAND"});
  finding.remedies.push_back({.title = "Or use one worker",
                              .commands = {"DataLoader(..., num_workers=1)"},
                              .verify = "dlprobe run -- COMMAND"});
  return finding;
}

}  // namespace

std::vector<Finding> repeated_numbers(const Run& run) {
  std::vector<Finding> findings;
  for (const Events& events : told_alike(run, StartEventKind::kDraws))
    findings.push_back(finding_of_numbers(run, events));
  return findings;
}

std::vector<Finding> repeated_samples(const Run& run) {
  std::vector<Finding> findings;
  for (Events& events : told_alike(run, StartEventKind::kSamples)) {
    std::erase_if(events, [](const StartEvent* event) {
      const std::set different(event->digests.begin(), event->digests.end());
      return different.size() < kFewestSamples;
    });
    if (!events.empty()) findings.push_back(finding_of_samples(run, events));
  }
  return findings;
}

}  // namespace dlprobe::probes::data
