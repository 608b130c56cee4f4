#include <algorithm>
#include <iterator>

#include "probes/facts.h"
#include "probes/probe.h"
#include "probes/spawn_facts.h"
#include "probes/spawn_rules.h"
#include "probes/spawn_script.h"

namespace dlprobe {
namespace {

bool has_error(const std::vector<Finding>& findings) {
  return std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.severity == Severity::kError; });
}

// A script that names its start method itself was not tried under another.
std::optional<Gap> gap_of_insistence(const Run& run) {
  const auto chosen = std::ranges::find_if(run.start_events, [](const StartEvent& event) {
    return event.kind == StartEventKind::kChosen && event.wanted == event.method;
  });
  if (chosen == run.start_events.end()) return std::nullopt;
  return Gap{.what = "what happens under " + method_of(run),
             .why = short_place(*chosen) + " asks for " + chosen->wanted + " itself, and had it",
             .effect = "whether the script can live with " + method_of(run) + " is not known",
             .remedy = "dlprobe spawn-recursion --force -- COMMAND"};
}

std::optional<Gap> gap_of_loader(const Run& run) {
  if (!events_of(run, StartEventKind::kStarted).empty() || !run.done) return std::nullopt;
  return Gap{.what = "how workers start under " + method_of(run),
             .why = "the reference loader was asked for none",
             .effect = "nothing can be said of " + method_of(run),
             .remedy = "dlprobe spawn-recursion --workers 2"};
}

std::optional<Gap> gap_of_silence(const Run& run) {
  const bool any_started = !events_of(run, StartEventKind::kStarted).empty() ||
                           !events_of(run, StartEventKind::kRefused).empty();
  if (any_started) return std::nullopt;
  const bool any_python = !events_of(run, StartEventKind::kInterpreter).empty();
  const std::string effect =
      "nothing can be said of " + method_of(run) + "; that processes did not multiply is all";
  if (!any_python) {
    return Gap{.what = "processes that Python starts",
               .why = "no Python interpreter (3.6 or later) of the command loaded dlprobe's shim",
               .effect = effect,
               .remedy = "give the python command itself, without -I, -E, -S"};
  }
  const ProcessExit* exit = end_of_command(run);
  const bool failed = exit != nullptr && exit->wait_status && *exit->wait_status != 0;
  return Gap{.what = "processes that Python starts",
             .why = failed
                        ? "the command failed by itself before it started one: see what it printed"
                        : "the command started none through multiprocessing",
             .effect = effect,
             .remedy = "make it start its loader: --workers 2, or arguments of the script"};
}

bool is_cut_off(const Run& run) {
  return run.end && (!run.end->text.empty() || run.end->reason == RunEndReason::kInterrupted);
}

// Its time was up, or somebody had enough. That batches came is as good as an end.
std::optional<Gap> gap_of_cut(const Run& run) {
  const bool came_to_work = !events_of(run, StartEventKind::kFirstBatch).empty();
  if (!is_cut_off(run) || came_to_work) return std::nullopt;
  const RunEnd end = run.end.value_or(RunEnd());
  const bool by_user = end.reason == RunEndReason::kInterrupted;
  return Gap{
      .what = "how the command under " + method_of(run) + " would have ended",
      .why = by_user ? "it was interrupted" : end.text,
      .effect = "whether it works or hangs is not known: no DataLoader had handed out a batch",
      .remedy = "give it longer, or make it shorter: --for 5m, --epochs 1"};
}

// A process that multiprocessing started did not end well, and nothing was refused: it may lack
// what only a forked process has (state of the main process).
std::optional<Gap> gap_of_failed_children(const Run& run) {
  for (const StartEvent* started : events_of(run, StartEventKind::kStarted)) {
    const auto exit = std::ranges::find_if(run.exits, [&](const ProcessExit& each) {
      return started->child_pid && each.key.pid == *started->child_pid && each.wait_status;
    });
    if (exit == run.exits.end()) continue;
    const int code = exit->wait_status.value_or(0);
    const bool exited_badly = (code & 0x7f) == 0 && code != 0;
    if (!exited_badly) continue;
    return Gap{.what = "why " + describe(run, exit->key) + " failed under " + method_of(run),
               .why = "it ended with exit code " + std::to_string(code >> 8) +
                      ", and no start of a process was refused",
               .effect =
                   "whether the start method is the reason (state that only a forked process "
                   "has) is not known",
               .remedy = "see what it printed; does it work under --start-method fork?"};
  }
  return std::nullopt;
}

// It failed, and what is known of its processes does not say why.
std::optional<Gap> gap_of_failure(const Run& run) {
  const ProcessExit* exit = end_of_command(run);
  const bool failed = exit != nullptr && exit->wait_status && *exit->wait_status != 0;
  if (!failed || is_cut_off(run)) return std::nullopt;
  return Gap{.what = "why the command failed under " + method_of(run),
             .why = "no start of a process was refused",
             .effect = "whether the start method is the reason is not known",
             .remedy = "see what it printed; does it work under --start-method fork?"};
}

// Many processes beside one another: more than the trial allowed, and nothing wrong with that.
std::optional<Gap> gap_of_budget(const Run& run) {
  const auto event = std::ranges::find(run.events, kTooManyProcesses, &Event::kind);
  if (event == run.events.end()) return std::nullopt;
  return Gap{.what = "the command under " + method_of(run),
             .why = event->text + ", more than the " + std::to_string(allowed_processes(run)) +
                    " that were allowed, and was ended",
             .effect = "whether it would have worked is not known",
             .remedy = "dlprobe spawn-recursion --process-budget N -- COMMAND"};
}

void add(std::vector<Gap>& gaps, std::optional<Gap> gap) {
  if (gap && std::ranges::count(gaps, *gap) == 0) gaps.push_back(std::move(*gap));
}

void examine_run(const Run& run, int index, Verdict& verdict) {
  std::vector<Finding> findings = findings_of_starts(run);
  if (auto recursion = recursion_of(run)) {
    if (has_error(findings)) recursion->consequence_of = findings.front().code;
    findings.push_back(std::move(*recursion));
  }
  const bool is_explained = has_error(findings);
  for (Finding& finding : findings) {
    finding.runs = {index};
    merge_finding(verdict.findings, std::move(finding));
  }
  if (is_explained) return;
  if (auto gap = gap_of_budget(run)) return add(verdict.gaps, std::move(gap));
  if (!run.begin.trial) return;
  if (run.begin.subject == SubjectKind::kReferenceLoader) {
    add(verdict.gaps, gap_of_failed_loader(run));
    return add(verdict.gaps, gap_of_loader(run));
  }
  add(verdict.gaps, gap_of_insistence(run));
  add(verdict.gaps, gap_of_silence(run));
  add(verdict.gaps, gap_of_cut(run));
  add(verdict.gaps, gap_of_failure(run));
  if (!is_cut_off(run)) add(verdict.gaps, gap_of_failed_children(run));
}

Verdict examine(const Recording& recording) {
  Verdict verdict;
  for (size_t index = 0; index < recording.runs.size(); ++index)
    examine_run(recording.runs[index], static_cast<int>(index), verdict);
  find_in_script(recording, verdict);
  std::ranges::stable_sort(verdict.findings, std::ranges::greater{}, &Finding::severity);
  return verdict;
}

}  // namespace

extern const Probe k_spawn;
const Probe k_spawn = {
    .name = "spawn-recursion",
    .summary = "start methods: what breaks under spawn and forkserver, where, and how to mend it",
    .examine = examine,
    .tries_start_methods = true};

}  // namespace dlprobe
