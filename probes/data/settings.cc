#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "probes/data/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::data {
namespace {

using Events = std::vector<const StartEvent*>;

bool is_kept_by(const StartEvent& worker, const StartEvent& changed) {
  return std::ranges::count(worker.digests, changed.digests.front()) > 0;
}

// The workers of its loader, where all have its old value yet.
Events workers_without(const Run& run, const StartEvent& changed) {
  Events workers = last_words(run, StartEventKind::kSettingsKept);
  std::erase_if(workers,
                [&](const StartEvent* worker) { return worker->loader != changed.loader; });
  const auto heard = [&](const StartEvent* worker) { return !is_kept_by(*worker, changed); };
  return std::ranges::any_of(workers, heard) ? Events() : workers;
}

Finding finding_of_settings(const Run& run, const Events& changes) {
  const StartEvent& first = *changes.front();
  const std::vector<ProcessKey> workers = processes_of(workers_without(run, first));
  Finding finding = data_finding(FindingCode::kEpochsRepeated, changes, workers);
  finding.discriminator += " " + first.path;
  finding.message = say("{} never got what the trainer set for a later epoch: {}",
                        describe_some(run, workers), as_name(first.path));
  if (!first.message.empty() && !first.wanted.empty())
    finding.message +=
        say(" is still {} there, and not {}", as_name(first.message), as_name(first.wanted));
  finding.message += "; persistent_workers keeps their copies of the data set";
  const Message place = place_of(first);
  if (!place.empty()) finding.message += ";" + place;
  finding.message += " (harmless if no sample depends on it)";
  for (const StartEvent* change : changes)
    finding.prove(text_fact("setting", as_name(change->path), kShimSource, change->at));
  finding.rule_out("a value that no sample depends on", "the code for a sample reads it");
  const char* verify = "dlprobe run -- COMMAND";
  finding.advise("Start new workers for each epoch, which get copies of what is set then",
                 {"DataLoader(..., persistent_workers=False)"}, verify);
  finding.advise("Or keep a number where the workers see it: in shared memory",
                 {"self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # in __init__",
                  "self.epoch.fill_(epoch)  # in set_epoch"},
                 verify);
  return finding;
}

}  // namespace

std::vector<Finding> unheard_settings(const Run& run) {
  std::map<std::pair<std::string, int32_t>, Events> of_places;
  for (const StartEvent* changed : events_of(run, StartEventKind::kSettingChanged)) {
    if (!changed->digests.empty() && !workers_without(run, *changed).empty())
      of_places[{changed->file, changed->line}].push_back(changed);
  }
  std::vector<Finding> findings;
  findings.reserve(of_places.size());
  for (const auto& [place, changes] : of_places)
    findings.push_back(finding_of_settings(run, changes));
  return findings;
}

}  // namespace dlprobe::probes::data
