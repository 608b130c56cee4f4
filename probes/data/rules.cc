#include "probes/data/rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::data {
namespace {

using Events = std::vector<const StartEvent*>;

// A process of multiprocessing that is no worker of a DataLoader.
bool is_of_process(const StartEvent& draws) {
  return !draws.count;
}

// Those that work at the same time as another one: what follows a worker, or a trial another one,
// may begin as that did.
Events at_once(const HostFacts& host, const Events& group) {
  const auto overlap = [&](const StartEvent* one, const StartEvent* other) {
    return one != other && birth_of(host, one->process) < other->at &&
           birth_of(host, other->process) < one->at;
  };
  Events found;
  std::ranges::copy_if(group, std::back_inserter(found), [&](const StartEvent* one) {
    return std::ranges::any_of(group, [&](const StartEvent* each) { return overlap(one, each); });
  });
  return found;
}

// Draws of two workers or more of one iterator or pipe, each group of which told the same; those of
// each place in the program are one.
std::vector<Events> drawn_alike(const HostFacts& host, const Run& run) {
  std::map<std::tuple<std::optional<uint64_t>, std::string, std::vector<std::string>>, Events>
      groups;
  for (const StartEvent* event : last_words(run, StartEventKind::kDraws))
    groups[{event->loader, event->path, event->digests}].push_back(event);
  std::map<std::pair<std::string, int32_t>, Events> of_places;
  for (Events& group : groups | std::views::values) {
    if (is_of_process(*group.front())) group = at_once(host, group);
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

// How a generator of that class is seeded with what PyTorch gives each worker.
const char* seeding(std::string_view type) {
  if (type == "random.Random") return ".seed(info.seed)";
  if (type == "numpy.random.RandomState") return ".seed(info.seed % 2**32)";
  if (type == "torch.Generator") return ".manual_seed(info.seed)";
  return ".bit_generator.state = numpy.random.default_rng(info.seed).bit_generator.state";
}

// How it is seeded by the system.
const char* seeding_anew(std::string_view type) {
  if (type == "torch.Generator") return ".seed()";
  if (type != "numpy.random.Generator") return ".seed()";
  return ".bit_generator.state = numpy.random.default_rng().bit_generator.state";
}

// Whether the process's own function can name it by that.
bool is_of_module(const StartEvent& event) {
  constexpr std::array<std::string_view, 4> kOfProcess = {"args", "kwargs", "target", "process"};
  return std::ranges::none_of(kOfProcess, [&](std::string_view name) {
    return event.path == name || event.path.starts_with(std::string(name) + ".") ||
           event.path.starts_with(std::string(name) + "[");
  });
}

// Nobody else can name the variable of a function that has returned.
bool is_in_closure(const StartEvent& event) {
  return event.path.contains(".<locals>.");
}

// Where the samples are made, or the process was started that makes them.
Message place_of_worker(const Run& run, const StartEvent& first) {
  if (const Message place = place_of(first); !place.empty()) return ";" + place;
  for (const StartEvent* started : events_of(run, StartEventKind::kStarted)) {
    const Message place = place_of(*started);
    if (started->child_pid == first.process.pid && !place.empty()) return "; started" + place;
  }
  return {};
}

Remedy seed_in_process(const StartEvent& event) {
  const char* verify = "dlprobe run -- COMMAND";
  if (is_in_closure(event) || !is_of_module(event))
    return {.title = "Make the generator in each process, with a seed of its own",
            .commands = {"rng = numpy.random.default_rng([seed, number])  # of the process"},
            .verify = verify};
  return {
      .title = "Seed it in each process, when that begins",
      .commands = {"def seed_worker():",
                   say("    {}{}", as_name(event.path), seeding_anew(event.type)),
                   "Pool(..., initializer=seed_worker)  # of a Process: call it in its function"},
      .verify = verify};
}

Finding finding_of_numbers(const Run& run, const Events& events) {
  const StartEvent& first = *events.front();
  Finding finding =
      data_finding(FindingCode::kRandomNumbersRepeated, events, first_workers(events));
  const OwnWords who = describe_some(run, finding.processes);
  Message what =
      is_of_library(first.path)
          ? say("the generator of {} began in the same state in each", as_name(first.path))
          : say("each has a copy of {} ({})", as_name(first.path), as_name(first.type));
  std::set<std::string> paths;
  for (const StartEvent* event : events)
    paths.insert(event->path);
  if (paths.size() > 1) what += say(", and so of {}", counted(paths.size() - 1, "other generator"));
  finding.message = say("{} draw the same random numbers: {}", who, what);
  finding.message += place_of_worker(run, first);
  for (const StartEvent* event : events) {
    if (paths.erase(event->path) > 0)
      finding.prove(text_fact("generator", as_name(event->path), kShimSource, event->at));
  }
  finding.rule_out("a generator that each worker seeds",
                   "its first numbers are the same in each worker, and those of the samples follow "
                   "from them");
  finding.remedies.push_back(seed_apart(events));
  return finding;
}

// What two workers of one loader have read, as far as it can be compared: each told the lowest
// checksums of its samples.
struct Common {
  const StartEvent* one = nullptr;
  const StartEvent* other = nullptr;
  size_t equal = 0;
  size_t compared = 0;  ///< of the one that has fewer

  bool is_whole() const { return equal == compared && one->different == other->different; }
};

std::span<const std::string> up_to(const std::vector<std::string>& digests,
                                   const std::string& last) {
  return {digests.begin(), std::ranges::upper_bound(digests, last)};
}

Common common_of(const StartEvent& one, const StartEvent& other) {
  std::string last = "g";  // no digit of a checksum is as high
  for (const StartEvent* each : {&one, &other}) {
    if (each->different.value_or(0) > each->digests.size() && !each->digests.empty())
      last = std::min(last, each->digests.back());
  }
  const auto here = up_to(one.digests, last);
  const auto there = up_to(other.digests, last);
  std::vector<std::string> both;
  std::ranges::set_intersection(here, there, std::back_inserter(both));
  return {.one = &one,
          .other = &other,
          .equal = both.size(),
          .compared = std::min(here.size(), there.size())};
}

// Data that has equal samples, or files that are repeated on purpose, repeat them in each worker,
// too: by chance twice as many are in another one.
bool is_of_data(const Common& common) {
  constexpr double kTimesChance = 4;
  double repeated = 0;
  double count = 0;
  for (const StartEvent* each : {common.one, common.other}) {
    const auto read = static_cast<double>(each->count.value_or(0));
    repeated += read - static_cast<double>(each->different.value_or(0));
    count += read;
  }
  return static_cast<double>(common.equal) * count <=
         kTimesChance * repeated * static_cast<double>(common.compared);
}

// Shards that are drawn with replacement come again in one worker, too, and in others by chance.
bool draws_again(const StartEvent& worker) {
  constexpr double kShare = 0.1;
  const auto read = static_cast<double>(worker.count.value_or(0));
  return read - static_cast<double>(worker.different.value_or(0)) > kShare * read;
}

bool is_in_same_order(const Common& common) {
  const auto& one = common.one->chain;
  const auto& other = common.other->chain;
  const size_t known = std::min(one.size(), other.size());
  return known > 0 &&
         std::equal(one.begin(), one.begin() + static_cast<ptrdiff_t>(known), other.begin());
}

// Workers may each walk through all data in an order of their own, without end.
bool is_drawn_apart(const Common& common) {
  constexpr std::string_view kEnd = "end";
  const bool has_end = common.one->wanted == kEnd && common.other->wanted == kEnd;
  return !has_end && !is_in_same_order(common);
}

// A part may begin with samples that others begin with, too, or be filled up with some.
bool is_repeated(const Common& common, bool is_drawn_again) {
  constexpr size_t kFewest = 4;
  constexpr size_t kFewestOfPart = 8;
  constexpr size_t kOfSo = 20;
  if (is_of_data(common) || is_drawn_apart(common)) return false;
  if (is_drawn_again && !is_in_same_order(common)) return false;
  return common.is_whole()
             ? common.equal >= kFewest
             : common.equal >= kFewestOfPart && common.equal * kOfSo >= common.compared;
}

// The workers that have samples of others, and the pair that has most.
struct Repetition {
  Events workers;
  Common most;
};

Repetition repetition_of(const Events& workers, bool are_drawn_again) {
  Repetition repetition;
  std::set<const StartEvent*> alike;
  for (const StartEvent* one : workers) {
    for (const StartEvent* other : workers) {
      if (one >= other) continue;
      const Common common = common_of(*one, *other);
      if (!is_repeated(common, are_drawn_again)) continue;
      alike.insert({one, other});
      if (common.equal > repetition.most.equal) repetition.most = common;
    }
  }
  std::ranges::copy_if(workers, std::back_inserter(repetition.workers),
                       [&](const StartEvent* event) { return alike.contains(event); });
  return repetition;
}

void add_remedies(Finding& finding, bool is_whole) {
  const char* verify = "dlprobe run -- COMMAND";
  if (!is_whole) {
    finding.advise("Cut the data alike in all workers: one order, and parts that do not overlap",
                   {"files = sorted(files)  # or random.Random(epoch).shuffle(files)",
                    "files = files[info.id::info.num_workers]",
                    "# not by hash(): spawned processes differ in it; zlib.crc32() is the same"},
                   verify);
    return;
  }
  finding.advise("Give each worker its part of the data, in __iter__",
                 {"info = torch.utils.data.get_worker_info()",
                  "files = self.files[info.id::info.num_workers]  # or, of samples:",
                  "itertools.islice(samples, info.id, None, info.num_workers)"},
                 verify);
  finding.advise("Or use one worker", {"DataLoader(..., num_workers=1)"}, verify);
}

Finding finding_of_samples(const Run& run, const Repetition& repetition) {
  const auto& [one, other, equal, compared] = repetition.most;
  Finding finding = data_finding(FindingCode::kSamplesRepeated, repetition.workers,
                                 first_workers(repetition.workers));
  finding.message = say("{} deliver the same samples: {} of {} compared are equal",
                        describe_some(run, finding.processes), own(equal), own(compared));
  const Message place = place_of(*one);
  if (!place.empty()) finding.message += ";" + place;
  if (!repetition.most.is_whole()) finding.message += " (harmless if they are to share some)";
  finding.prove(count_fact("equal_samples", equal, kShimSource, one->at));
  finding.prove(count_fact("compared_samples", compared, kShimSource, one->at));
  finding.rule_out("data that always looks the same",
                   say("{} of the {} samples of one worker differ", own(one->different.value_or(0)),
                       own(one->count.value_or(0))));
  add_remedies(finding, repetition.most.is_whole());
  return finding;
}

// Of the process that joined the job, and of those that it started.
const StartEvent* rank_of(const Run& run, ProcessKey key) {
  constexpr int kMostSteps = 4;
  const auto joined = events_of(run, StartEventKind::kJoinedGroup);
  const auto started = events_of(run, StartEventKind::kStarted);
  for (int step = 0; step < kMostSteps; ++step) {
    const auto found = std::ranges::find(joined, key, &StartEvent::process);
    if (found != joined.end()) return *found;
    const auto starter = std::ranges::find(started, key.pid, &StartEvent::child_pid);
    if (starter == started.end()) break;
    key = (*starter)->process;
  }
  return nullptr;
}

bool is_shuffled(const StartEvent& samples) {
  return samples.count.value_or(0) == 0;
}

// In which loop over that loader a model learned, as the trainer told; null: none was changed.
const StartEvent* learned_in(const Run& run, const StartEvent& samples) {
  constexpr size_t kModel = 2;  // of an epoch's digests
  const StartEvent* rank = rank_of(run, samples.process);
  for (const StartEvent* epoch : events_of(run, StartEventKind::kEpoch)) {
    if (epoch->loader == samples.loader && epoch->digests.size() > kModel &&
        epoch->digests[kModel].find_first_of("-?") == std::string::npos &&
        rank_of(run, epoch->process) == rank)
      return epoch;
  }
  return nullptr;
}

// What ranks tell alike that learn from the same samples. In the order of the data they may be the
// same in all: what is evaluated is, and ranks may skip the batches of others. So are the few of a
// test, and the first ones of streams that have a head.
using Alike = std::pair<uint64_t, std::vector<std::string>>;

std::optional<Alike> to_compare(const Run& run, const StartEvent& samples) {
  constexpr size_t kFewest = 4;
  constexpr size_t kFewestInOrder = 12;
  const size_t different = std::set(samples.digests.begin(), samples.digests.end()).size();
  if (different < (is_shuffled(samples) ? kFewest : kFewestInOrder)) return std::nullopt;
  // A worker that was spawned does not know that it is a rank's.
  const bool is_spawned = !samples.method.empty();
  if (is_shuffled(samples) && !is_spawned) return Alike(0, samples.digests);
  const StartEvent* epoch = learned_in(run, samples);
  if (epoch == nullptr || (is_spawned && !epoch->workers)) return std::nullopt;
  const uint64_t learned = is_shuffled(samples) ? 0 : epoch->different.value_or(0);
  if (!is_shuffled(samples) && learned == 0) return std::nullopt;
  return Alike(learned, samples.digests);
}

// One of each rank of those that told the same.
std::map<int64_t, const StartEvent*> ranks_of(const Run& run, const Events& events) {
  std::map<int64_t, const StartEvent*> ranks;
  for (const StartEvent* event : events)
    if (const StartEvent* joined = rank_of(run, event->process))
      ranks.emplace(joined->count.value_or(0), joined);
  return ranks;
}

constexpr int64_t kOfStream = 2;

Remedy part_of_stream() {
  return {.title = "Give each worker of each rank its part of the data, in __iter__",
          .commands = {"info = torch.utils.data.get_worker_info()",
                       "number, workers = (info.id, info.num_workers) if info else (0, 1)",
                       "part, parts = self.rank * workers + number, self.ranks * workers",
                       "itertools.islice(samples, part, None, parts)"},
          .verify = "dlprobe run -- COMMAND"};
}

Finding finding_of_ranks(const Run& run, const StartEvent& first, const Events& ranks) {
  Finding finding = data_finding(FindingCode::kSamplesRepeated, {&first}, processes_of(ranks));
  finding.message = say("{} learn from the same samples: the first {} of each are equal, in {}",
                        describe_some(run, finding.processes), own(first.digests.size()),
                        Message(is_shuffled(first) ? "one shuffled order" : "the same order"));
  const Message place = place_of(first);
  if (!place.empty()) finding.message += ";" + place;
  if (!is_shuffled(first)) finding.message += " (harmless if each takes its part of each batch)";
  finding.prove(count_fact("equal_samples", first.digests.size(), kShimSource, first.at));
  if (first.count == kOfStream) {
    finding.remedies.push_back(part_of_stream());
    return finding;
  }
  finding.advise("Give each rank its part of the data",
                 {"sampler = torch.utils.data.DistributedSampler(dataset)",
                  "DataLoader(dataset, ..., sampler=sampler)  # without shuffle",
                  "sampler.set_epoch(epoch)  # before each epoch"},
                 "dlprobe run -- COMMAND");
  return finding;
}

}  // namespace

Events last_words(const Run& run, StartEventKind kind) {
  std::map<std::pair<ProcessKey, std::string>, const StartEvent*> last;
  for (const StartEvent* event : events_of(run, kind))
    last[{event->process, event->path}] = event;
  Events words;
  std::ranges::copy(last | std::views::values, std::back_inserter(words));
  return words;
}

Finding data_finding(FindingCode code, const Events& events, std::vector<ProcessKey> processes) {
  const StartEvent& first = *events.front();
  // Whether it was meant cannot be known.
  Finding finding = new_finding(code, Confidence::kLikely);
  finding.discriminator = first.function;
  finding.processes = std::move(processes);
  finding.first_seen = first.at;
  finding.last_seen = events.back()->at;
  finding.prove(count_fact("processes", finding.processes.size(), kShimSource, first.at));
  if (!first.file.empty()) {
    finding.prove(text_fact("samples_made_at", whole_place(first), kShimSource, first.at));
    add_source(finding, first.file, first.line, "samples made at");
  }
  return finding;
}

bool is_of_library(std::string_view generator) {
  return generator == "random" || generator == "numpy.random" || generator == "torch";
}

namespace {

constexpr size_t kMostLines = 6;

// One line for each generator, or for the method that seeds all of them.
std::vector<Message> lines_of_seeding(const Events& events) {
  std::vector<Message> lines;
  for (const StartEvent* event : events) {
    const char* root = event->path.starts_with("dataset.") ? "info." : "";
    Message line = event->wanted.empty()
                       ? say("    {}{}{}", root, as_name(event->path), seeding(event->type))
                       : say("    {}{}(info.seed % 2**32)", root, as_name(event->wanted));
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  if (lines.size() > kMostLines) {
    lines.resize(kMostLines);
    lines.emplace_back("    ...  # and the other generators, or create what holds them here anew");
  }
  return lines;
}

}  // namespace

Remedy seed_apart(const Events& events) {
  const StartEvent& event = *events.front();
  if (is_of_process(event)) return seed_in_process(event);
  if (is_in_closure(event))
    return {.title = "Let that function draw from a generator which PyTorch seeds in each worker",
            .commands = {"random.random()", "torch.rand(())"},
            .verify = "dlprobe run -- COMMAND"};
  Remedy remedy{
      .title = "Seed it in each worker, with the worker's own seed",
      .commands = {"def seed_worker(_):", "    info = torch.utils.data.get_worker_info()"},
      .verify = "dlprobe run -- COMMAND"};
  std::ranges::move(lines_of_seeding(events), std::back_inserter(remedy.commands));
  remedy.commands.emplace_back("DataLoader(..., worker_init_fn=seed_worker)");
  return remedy;
}

std::vector<Finding> repeated_numbers(const RunCase& one) {
  std::vector<Finding> findings;
  for (const Events& events : drawn_alike(one.recording.header.host, one.run))
    findings.push_back(finding_of_numbers(one.run, events));
  return findings;
}

std::vector<Finding> repeated_samples(const Run& run) {
  using Place = std::pair<std::string, int32_t>;
  std::map<std::optional<uint64_t>, Events> loaders;
  std::set<Place> drawn_again;
  for (const StartEvent* event : last_words(run, StartEventKind::kSamples)) {
    loaders[event->loader].push_back(event);
    if (draws_again(*event)) drawn_again.emplace(event->file, event->line);
  }
  // Each epoch has a loader's workers of its own: one finding of each place.
  std::map<Place, Repetition> of_places;
  for (const Events& workers : loaders | std::views::values) {
    const Place read_at(workers.front()->file, workers.front()->line);
    Repetition repetition = repetition_of(workers, drawn_again.contains(read_at));
    if (repetition.workers.empty()) continue;
    std::ranges::stable_sort(repetition.workers, {}, &StartEvent::at);
    const StartEvent& first = *repetition.workers.front();
    Repetition& place = of_places[{first.file, first.line}];
    if (place.workers.empty() || first.at < place.workers.front()->at)
      place = std::move(repetition);
  }
  std::vector<Finding> findings;
  for (const Repetition& repetition : of_places | std::views::values)
    findings.push_back(finding_of_samples(run, repetition));
  return findings;
}

std::optional<Finding> missing_samples(const Run& run) {
  constexpr int64_t kFewest = 32;
  Events workers;
  int64_t count = 0;
  int64_t missing = 0;
  for (const StartEvent* event : last_words(run, StartEventKind::kSamples)) {
    if (!event->digests.empty()) continue;
    workers.push_back(event);
    count += event->count.value_or(0);
    missing += event->count.value_or(0) - static_cast<int64_t>(event->different.value_or(0));
  }
  // A filter of a quality leaves out many. A loader by which the workers only do something, and
  // whose samples are nothing, has None alone.
  const bool are_most = missing * 4 >= count * 3;
  if (count < kFewest || !are_most || missing == count) return std::nullopt;
  const StartEvent& first = *workers.front();
  Finding finding = data_finding(FindingCode::kDataNotReadable, workers, first_workers(workers));
  finding.severity = Severity::kWarning;
  finding.message = say("{} of the first {} samples of {} are None", own(missing), own(count),
                        describe_some(run, finding.processes));
  const Message place = place_of(first);
  if (!place.empty()) finding.message += ";" + place;
  finding.message += " (harmless if so many are left out on purpose)";
  finding.prove(
      count_fact("compared_samples", static_cast<uint64_t>(count), kShimSource, first.at));
  finding.advise("Let the data set raise what it catches, to see why it has no sample",
                 {"DataLoader(..., num_workers=0)  # with a debugger"}, "dlprobe run -- COMMAND");
  return finding;
}

std::vector<Finding> repeated_by_ranks(const Run& run) {
  std::map<Alike, Events> groups;
  for (const StartEvent* event : last_words(run, StartEventKind::kRankSamples))
    if (const auto alike = to_compare(run, *event)) groups[*alike].push_back(event);
  std::map<std::pair<std::string, int32_t>, Finding> of_places;
  for (const Events& events : groups | std::views::values) {
    Events ranks;
    std::ranges::copy(ranks_of(run, events) | std::views::values, std::back_inserter(ranks));
    const StartEvent& first = *events.front();
    if (ranks.size() > 1)
      of_places.try_emplace({first.file, first.line}, finding_of_ranks(run, first, ranks));
  }
  std::vector<Finding> findings;
  for (Finding& finding : of_places | std::views::values)
    findings.push_back(std::move(finding));
  return findings;
}

}  // namespace dlprobe::probes::data
