#include "probes/probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "probes/facts/all_well.h"
#include "probes/facts/facts.h"
#include "probes/facts/seen.h"
#include "probes/facts/starts.h"
#include "probes/spawn/rules.h"
#include "probes/spawn/script.h"
#include "probes/spawn/trial.h"

namespace dlprobe::probes::spawn {
namespace {

std::optional<Gap> gap_of_loader(const Run& run) {
  if (!events_of(run, StartEventKind::kStarted).empty() || !run.done) return std::nullopt;
  return Gap{.what = "how workers start under " + method_of(run),
             .why = "the reference loader was asked for none",
             .effect = "dlprobe cannot judge " + method_of(run),
             .remedy = "dlprobe spawn-recursion --workers 2"};
}

// Many processes beside one another: more than the trial allowed, and nothing wrong with that.
std::optional<Gap> gap_of_budget(const Run& run) {
  const auto event = std::ranges::find(run.events, kTooManyProcesses, &Event::kind);
  if (event == run.events.end()) return std::nullopt;
  return Gap{.what = "the command under " + method_of(run),
             .why = event->text + ", more than the " + own(allowed_processes(run)) +
                    " that were allowed; dlprobe ended it",
             .effect = "dlprobe cannot tell whether it would have worked",
             .remedy = "dlprobe spawn-recursion --process-budget N -- COMMAND"};
}

Verdict examine_run(const RunCase& one) {
  const Run& run = one.run;
  Verdict verdict;
  verdict.findings = findings_of_starts(run);
  auto lacks = state_not_inherited(run, one.recording);
  // It is found where nothing else is, but for what could not be made again for want of that state.
  if (lacks)
    std::erase_if(verdict.findings,
                  [](const Finding& finding) { return finding.severity == Severity::kError; });
  std::ranges::move(findings_of_text(run), std::back_inserter(verdict.findings));
  if (auto recursion = recursion_of(run)) {
    if (has_error(verdict.findings)) recursion->consequence_of = verdict.findings.front().code;
    verdict.findings.push_back(std::move(*recursion));
  }
  if (lacks) verdict.findings.push_back(std::move(*lacks));
  if (has_error(verdict.findings)) return verdict;
  if (auto gap = gap_of_budget(run)) {
    verdict.gaps.push_back(std::move(*gap));
  } else if (run.begin.trial && run.begin.subject == SubjectKind::kReferenceLoader) {
    if (auto starts = gap_of_loader(run)) verdict.gaps.push_back(std::move(*starts));
  } else if (run.begin.trial) {
    verdict.gaps = gaps_of_trial(run, one.recording);
  }
  return verdict;
}

bool has_trials(const RecordingView& recording) {
  return !recording.runs.empty() && recording.runs.front().begin.trial.has_value();
}

// "fork, spawn and forkserver".
OwnWords methods_tried(const RecordingView& recording) {
  std::vector<std::string> names;
  for (const Run& run : recording.runs) {
    if (!run.begin.trial) continue;
    const std::string name(to_string(run.begin.trial->start_method));
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }
  if (names.size() < 2) return own(fmt::format("{}", fmt::join(names, "")));
  const std::string last = names.back();
  names.pop_back();
  return own(fmt::format("{} and {}", fmt::join(names, ", "), last));
}

// Of a program that was read and not run; nothing: something was run.
std::optional<Message> what_was_read(const RecordingView& recording) {
  if (recording.runs.size() != 1 || !recording.runs.front().samples.empty()) return std::nullopt;
  const auto& events = recording.runs.front().start_events;
  const auto read = std::ranges::find(events, StartEventKind::kRead, &StartEvent::kind);
  if (read == events.end()) return std::nullopt;
  return say("{}, read and not run: {}", as_path(read->file),
             read->count.value_or(0) > 0 ? "nothing in its text breaks when workers import it"
                                         : "nothing in its text starts processes");
}

Message all_well(const RecordingView& recording) {
  if (auto read = what_was_read(recording)) return *read;
  if (!has_trials(recording)) return nothing_wrong(recording);
  return "nothing was refused under " + methods_tried(recording) + ": " + describe_watch(recording);
}

// Without a start to see, there is nothing that could have gone wrong with it.
bool saw_starts_or_script(const RecordingView& recording) {
  return saw_starts(recording) || saw_script(recording);
}

constexpr std::array<Cause, 10> kCauses = {{
    {FindingCode::kMissingMainGuard, saw_starts_or_script},
    {FindingCode::kUnpicklableObject, saw_starts_or_script},
    {FindingCode::kDaemonicProcessHasChildren, saw_starts_or_script},
    {FindingCode::kStartMethodAlreadySet, saw_starts_or_script},
    {FindingCode::kCudaInForkedChild, saw_starts},
    {FindingCode::kMainModuleReimported, saw_starts},
    {FindingCode::kMainNotImportable, saw_starts},
    {FindingCode::kMpiInSpawnedWorker, saw_starts},
    {FindingCode::kRecursiveProcessCreation, saw_starts},
    {FindingCode::kStateNotInherited, saw_starts},
}};

}  // namespace

const Probe kProbe = {.name = "spawn-recursion",
                      .summary = "start methods: what breaks under spawn, where, and the fix",
                      .causes = kCauses,
                      .applies_to = saw_starts_or_script,
                      .examine_run = examine_run,
                      .all_well = all_well,
                      .tries_start_methods = true};

}  // namespace dlprobe::probes::spawn
