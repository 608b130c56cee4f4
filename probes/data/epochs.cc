#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "probes/data/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::data {
namespace {

using Events = std::vector<const StartEvent*>;

constexpr std::string_view kUnknown = "-";

// What an epoch tells in its digests.
enum Word : uint8_t { kOrder, kData, kModel, kWords };

std::string_view word(const StartEvent& epoch, Word which) {
  return epoch.digests[which];
}

// A process's loops over the same data from one line.
using Loop = std::tuple<ProcessKey, std::string, int32_t, std::string>;

Loop loop_of(const StartEvent& epoch) {
  return {epoch.process, epoch.file, epoch.line, std::string(word(epoch, kData))};
}

// How sure it is that a model learns by it.
enum class Learning : uint8_t {
  kUnseen,
  kBackward,  ///< also in an attack on the model, or where an optimizer writes unseen
  kWritten,
};

Learning learning_of(const StartEvent& epoch) {
  if (word(epoch, kModel) == kUnknown) return Learning::kUnseen;
  return word(epoch, kModel).ends_with('?') ? Learning::kBackward : Learning::kWritten;
}

// The epochs of one process by which one model learns: those of which it is surest. Where no model
// was seen to learn, nothing tells loops to learn from others: there they are those of the only
// loader.
std::vector<Events> learning_epochs(const Run& run) {
  constexpr size_t kFewestOfModel = 2;
  constexpr size_t kFewest = 3;
  std::map<ProcessKey, std::set<Loop>> loops;
  std::map<ProcessKey, Learning> surest;
  std::map<std::pair<Loop, std::string_view>, Events> groups;
  for (const StartEvent* epoch : events_of(run, StartEventKind::kEpoch)) {
    if (epoch->digests.size() != kWords) continue;
    const Loop loop = loop_of(*epoch);
    loops[epoch->process].insert(loop);
    surest[epoch->process] = std::max(surest[epoch->process], learning_of(*epoch));
    groups[{loop, word(*epoch, kModel)}].push_back(epoch);
  }
  std::vector<Events> found;
  for (auto& [key, epochs] : groups) {
    const ProcessKey& process = epochs.front()->process;
    const Learning learning = learning_of(*epochs.front());
    const bool is_of_model = learning != Learning::kUnseen;
    const bool may_learn =
        learning == surest.at(process) && (is_of_model || loops.at(process).size() == 1);
    if (may_learn && epochs.size() >= (is_of_model ? kFewestOfModel : kFewest))
      found.push_back(std::move(epochs));
  }
  return found;
}

Message reason_of_order(const StartEvent& epoch) {
  if (epoch.path.empty())
    return say("the {} had the same epoch number in each", as_name(epoch.type));
  const Message whose = epoch.path == "torch" ? Message("PyTorch's generator")
                                              : say("the generator of its {}", as_name(epoch.type));
  Message reason = whose + " began each in the same state";
  if (epoch.count) reason += say(" (seed {})", own(*epoch.count));
  return reason;
}

Remedy other_order(const StartEvent& epoch) {
  const char* verify = "dlprobe run -- COMMAND";
  if (epoch.path.empty())
    return {.title = "Tell the sampler the number of each epoch",
            .commands = {"sampler.set_epoch(epoch)  # before each epoch"},
            .verify = verify};
  if (epoch.path == "torch")
    return {.title = "Seed PyTorch once, before the first epoch, or otherwise in each",
            .commands = {"torch.manual_seed(seed + epoch)"},
            .verify = verify};
  return {.title = "Seed the generator once, before the first epoch, or otherwise in each",
          .commands = {"generator.manual_seed(seed + epoch)"},
          .verify = verify};
}

bool is_one_order(const Events& epochs) {
  return word(*epochs.front(), kOrder) != kUnknown &&
         std::ranges::all_of(epochs, [&](const StartEvent* epoch) {
           return word(*epoch, kOrder) == word(*epochs.front(), kOrder);
         });
}

void prove_place(Finding& finding, const StartEvent& epoch) {
  if (epoch.file.empty()) return;
  finding.prove(text_fact("loader_made_at", whole_place(epoch), kShimSource, epoch.at));
  add_source(finding, epoch.file, epoch.line, "DataLoader made at");
}

Finding finding_of_order(const Run& run, const Events& epochs) {
  const StartEvent& first = *epochs.front();
  Finding finding = new_finding(FindingCode::kEpochsRepeated, Confidence::kLikely);
  finding.discriminator = first.function + " order";
  finding.processes = processes_of(epochs);
  finding.first_seen = first.at;
  finding.last_seen = epochs.back()->at;
  finding.message = say("{} got the samples of {} epochs in the same shuffled order: ",
                        describe_some(run, finding.processes), own(epochs.size())) +
                    reason_of_order(first);
  const Message place = place_of(first);
  if (!place.empty()) finding.message += "; DataLoader" + place;
  finding.prove(count_fact("epochs", epochs.size(), kShimSource, first.at));
  finding.prove(text_fact("sampler", as_name(first.type), kShimSource, first.at));
  prove_place(finding, first);
  finding.remedies.push_back(other_order(first));
  return finding;
}

// What the workers of one epoch drew from one generator, by their numbers.
using Draws = std::map<int64_t, const StartEvent*>;

bool has_two_alike(const Draws& draws) {
  std::set<std::vector<std::string>> digests;
  for (const StartEvent* event : draws | std::views::values)
    digests.insert(event->digests);
  return digests.size() < draws.size();
}

bool are_alike(const Draws& one, const Draws& other) {
  size_t alike = 0;
  for (const auto& [worker, event] : one) {
    const auto same = other.find(worker);
    if (same == other.end()) continue;
    if (same->second->digests != event->digests) return false;
    ++alike;
  }
  return alike > 0;
}

// Of each generator what the workers of each of these epochs drew first: they may be the same ones
// (persistent_workers).
std::map<std::string, std::vector<Draws>> drawn_in(const Run& run, const Events& epochs) {
  std::map<std::string, std::vector<Draws>> generators;
  const Events all = events_of(run, StartEventKind::kDraws);
  std::set<std::optional<uint64_t>> loaders = {std::nullopt};
  for (const StartEvent* epoch : epochs) {
    if (!loaders.insert(epoch->loader).second) continue;
    std::map<std::string, Draws> drawn;
    for (const StartEvent* event : all)
      if (event->loader == epoch->loader && event->count) drawn[event->path][*event->count] = event;
    for (auto& [path, draws] : drawn)
      generators[path].push_back(std::move(draws));
  }
  return generators;
}

Finding finding_of_numbers(const std::vector<Draws>& epochs) {
  Events events;
  for (const Draws& draws : epochs)
    std::ranges::copy(draws | std::views::values, std::back_inserter(events));
  Events first_ones;
  std::ranges::copy(epochs.front() | std::views::values, std::back_inserter(first_ones));
  const StartEvent& first = *first_ones.front();
  Finding finding = data_finding(FindingCode::kEpochsRepeated, events, processes_of(first_ones));
  finding.discriminator += " " + first.path;
  const Message why =
      is_of_library(first.path)
          ? say("the generator of {} began each in the same state", as_name(first.path))
          : say("each epoch's workers have a copy of {} ({})", as_name(first.path),
                as_name(first.type));
  finding.message =
      say("workers drew the same random numbers in each of {} epochs: ", own(epochs.size())) + why;
  const Message place = place_of(first);
  if (!place.empty()) finding.message += ";" + place;
  finding.prove(count_fact("epochs", epochs.size(), kShimSource, first.at));
  finding.prove(text_fact("generator", as_name(first.path), kShimSource, first.at));
  finding.remedies.push_back(seed_apart(first_ones));
  return finding;
}

// What the workers of each epoch told last of the samples that they drew from a buffer; empty where
// one did not, or the epochs have the same workers (persistent_workers).
std::vector<Events> buffered_in(const Run& run, const Events& epochs) {
  std::vector<Events> buffered;
  std::set<std::optional<uint64_t>> loaders = {std::nullopt};
  for (const StartEvent* epoch : epochs) {
    std::map<ProcessKey, const StartEvent*> last;
    for (const StartEvent* event : events_of(run, StartEventKind::kSamples))
      if (event->loader == epoch->loader) last[event->process] = event;
    const auto is_drawn = [](const StartEvent* event) { return !event->message.empty(); };
    Events words;
    std::ranges::copy(last | std::views::values, std::back_inserter(words));
    if (!loaders.insert(epoch->loader).second || words.empty() ||
        !std::ranges::all_of(words, is_drawn))
      return {};
    buffered.push_back(std::move(words));
  }
  return buffered;
}

bool is_one_order(const std::vector<Events>& epochs) {
  constexpr size_t kFewest = 3;  // the checksum of 64 samples
  const auto orders = [](const Events& epoch) {
    std::multiset<std::pair<std::string, std::vector<std::string>>> all;
    for (const StartEvent* worker : epoch)
      all.emplace(worker->message, worker->chain);
    return all;
  };
  return !epochs.empty() && std::ranges::all_of(epochs, [&](const Events& epoch) {
    return epoch.front()->chain.size() >= kFewest && orders(epoch) == orders(epochs.front());
  });
}

Finding finding_of_buffer(const Run& run, const std::vector<Events>& epochs) {
  const StartEvent& first = *epochs.front().front();
  Finding finding =
      data_finding(FindingCode::kEpochsRepeated, epochs.front(), processes_of(epochs.front()));
  finding.discriminator += " order";
  finding.message =
      say("{} and those of later epochs delivered the samples of {} epochs in the same shuffled "
          "order: the {} by which they draw from a buffer began each in the same state;{}",
          describe_some(run, finding.processes), own(epochs.size()), as_name(first.type),
          place_of(first));
  finding.prove(count_fact("epochs", epochs.size(), kShimSource, first.at));
  finding.prove(text_fact("generator", as_name(first.type), kShimSource, first.at));
  finding.remedies.push_back(
      {.title = "Seed it otherwise in each epoch: PyTorch gives the workers of each another seed",
       .commands = {"random.Random(get_worker_info().seed)  # in __iter__",
                    "dataset.set_epoch(epoch)  # or so, before each epoch; seed + epoch"},
       .verify = "dlprobe run -- COMMAND"});
  return finding;
}

Finding finding_of_epoch(const StartEvent& epoch, const char* kind) {
  Finding finding = new_finding(FindingCode::kEpochsRepeated, Confidence::kLikely);
  finding.discriminator = epoch.function + " " + kind;
  finding.processes = {epoch.process};
  finding.first_seen = epoch.at;
  finding.last_seen = epoch.at;
  return finding;
}

// Of a loader whose sampler is a generator that had come to its end before.
Finding finding_of_end(const Run& run, const StartEvent& epoch) {
  Finding finding = finding_of_epoch(epoch, "end");
  finding.message = say(
      "{} began an epoch that has no batches: the {} of its loader is a generator ({}), which was "
      "used up before",
      describe_some(run, finding.processes), as_name(epoch.path), as_name(epoch.type));
  const Message place = place_of(epoch);
  if (!place.empty()) finding.message += "; DataLoader" + place;
  finding.prove(text_fact("sampler", as_name(epoch.type), kShimSource, epoch.at));
  finding.advise("Make it a class, whose __iter__ begins anew for each epoch",
                 {"class Order:", "    def __iter__(self):",
                  "        yield from ...  # what the generator yields"},
                 "dlprobe run -- COMMAND");
  return finding;
}

bool is_left(const StartEvent& epoch) {
  return epoch.wanted == "left";
}

// Whether the loops that were left from that line on, as told first and last, took only a batch or
// two each, and the workers' starts much of the time.
bool is_lost_on_starts(const StartEvent& first, const StartEvent& last) {
  constexpr int64_t kFewest = 16;
  constexpr double kShortest = 3;  // seconds
  constexpr double kShare = 0.25;
  const double waited = last.seconds.value_or(0) - first.seconds.value_or(0);
  return last.count.value_or(0) >= kFewest && waited >= kShortest &&
         last.different.value_or(0) <= 2 * static_cast<uint64_t>(last.count.value_or(0)) &&
         waited * kSecond >= kShare * static_cast<double>(last.at - first.at);
}

Finding finding_of_starts(const Run& run, const StartEvent& epoch) {
  Finding finding = finding_of_epoch(epoch, "left");
  const auto waited = static_cast<BootNs>(epoch.seconds.value_or(0) * kSecond);
  finding.message = say(
      "{} began {} loops over a DataLoader, took {} from them, and waited {} for the workers of "
      "each to start",
      describe_some(run, finding.processes), epoch.count.value_or(0),
      counted(epoch.different.value_or(0), "batch"),
      format_duration(std::chrono::nanoseconds(waited)));
  const Message place = place_of(epoch);
  if (!place.empty()) finding.message += ";" + place;
  finding.prove(
      count_fact("epochs", static_cast<uint64_t>(epoch.count.value_or(0)), kShimSource, epoch.at));
  finding.prove(count_fact("batches", epoch.different.value_or(0), kShimSource, epoch.at));
  finding.prove(time_fact("time_at_a_standstill", waited, kShimSource));
  add_source(finding, epoch.file, epoch.line, "loop begins at");
  const char* verify = "dlprobe run -- COMMAND";
  finding.advise("Begin one loop, and take its next batch in each step",
                 {"batches = iter(loader)  # once; again after StopIteration",
                  "batch = next(batches)  # not: next(iter(loader))"},
                 verify);
  finding.advise("Or keep the workers", {"DataLoader(..., persistent_workers=True)"}, verify);
  return finding;
}

std::map<std::tuple<std::string, int32_t, std::string>, Finding> left_epochs(const Run& run) {
  std::map<std::tuple<ProcessKey, std::string, int32_t>, Events> loops;
  for (const StartEvent* epoch : events_of(run, StartEventKind::kEpoch))
    if (is_left(*epoch)) loops[{epoch->process, epoch->file, epoch->line}].push_back(epoch);
  std::map<std::tuple<std::string, int32_t, std::string>, Finding> of_places;
  for (const Events& told : loops | std::views::values) {
    const StartEvent& last = *told.back();
    if (is_lost_on_starts(*told.front(), last))
      of_places.try_emplace({last.file, last.line, "left"}, finding_of_starts(run, last));
  }
  return of_places;
}

}  // namespace

std::vector<Finding> repeated_epochs(const Run& run) {
  auto of_places = left_epochs(run);
  for (const StartEvent* epoch : events_of(run, StartEventKind::kEpoch))
    if (epoch->digests.empty() && !is_left(*epoch))
      of_places.try_emplace({epoch->file, epoch->line, "end"}, finding_of_end(run, *epoch));
  for (const Events& epochs : learning_epochs(run)) {
    if (is_one_order(epochs))
      of_places.try_emplace({epochs.front()->file, epochs.front()->line, ""},
                            finding_of_order(run, epochs));
    if (const auto buffered = buffered_in(run, epochs); is_one_order(buffered))
      of_places.try_emplace({epochs.front()->file, epochs.front()->line, "buffer"},
                            finding_of_buffer(run, buffered));
    for (const auto& [path, drawn] : drawn_in(run, epochs)) {
      // Of workers that draw alike another finding tells.
      if (drawn.size() != epochs.size() || has_two_alike(drawn.front())) continue;
      const auto differs = [&](const Draws& draws) { return !are_alike(drawn.front(), draws); };
      if (std::ranges::none_of(drawn, differs)) {
        const StartEvent& first = *drawn.front().begin()->second;
        of_places.try_emplace({first.file, first.line, path}, finding_of_numbers(drawn));
      }
    }
  }
  std::vector<Finding> findings;
  for (Finding& finding : of_places | std::views::values)
    findings.push_back(std::move(finding));
  return findings;
}

}  // namespace dlprobe::probes::data
