// What a trial of a command shows where no process was refused.

#include "probes/spawn/trial.h"

#include <sys/wait.h>

#include <algorithm>
#include <iterator>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"
#include "probes/spawn/rules.h"

namespace dlprobe::probes::spawn {
namespace {

bool is_cut_off(const Run& run) {
  return run.end && (!run.end->text.empty() || run.end->reason == RunEndReason::kInterrupted);
}

// A script that names its start method itself was not tried under another. That matters where it
// names fork, which is not everywhere.
std::optional<Gap> gap_of_insistence(const Run& run) {
  const auto chosen = std::ranges::find_if(run.start_events, [](const StartEvent& event) {
    return event.kind == StartEventKind::kChosen && event.wanted == event.method &&
           event.method == to_string(StartMethod::kFork);
  });
  if (chosen == run.start_events.end()) return std::nullopt;
  return Gap{.what = "what happens under " + method_of(run),
             .why = short_place(*chosen) + " asks for " + method_name(chosen->wanted) +
                    " itself, and had it",
             .effect = "whether the script works with " + method_of(run) + " is not known",
             .remedy = "dlprobe spawn-recursion --force -- COMMAND"};
}

std::optional<Gap> gap_of_silence(const Run& run) {
  const bool any_started = !events_of(run, StartEventKind::kStarted).empty() ||
                           !events_of(run, StartEventKind::kRefused).empty();
  if (any_started) return std::nullopt;
  const bool any_python = !events_of(run, StartEventKind::kInterpreter).empty();
  const Message effect =
      "dlprobe cannot judge " + method_of(run) + "; it saw only that processes did not multiply";
  if (!any_python) {
    return Gap{.what = "processes that Python starts",
               .why = "no Python (3.6 or later) of the command loaded dlprobe's witness",
               .effect = effect,
               .remedy = "start python directly, without -I, -E, -S"};
  }
  const ProcessExit* exit = end_of_command(run);
  const bool failed =
      exit != nullptr && exit->wait_status && *exit->wait_status != 0 && !is_cut_off(run);
  return Gap{.what = "processes that Python starts",
             .why = failed ? "the command failed before it started one: see its own output"
                           : "the command started none with multiprocessing",
             .effect = effect,
             .remedy = "make it start its loader: --workers 2, or arguments of the script"};
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
      .effect = "dlprobe cannot tell whether it works or hangs: no DataLoader had returned a batch",
      .remedy = "give it more time, or less work: --for 5m, --epochs 1"};
}

// A process that multiprocessing started did not end well, and nothing was refused: it may lack
// what only a forked process has (state of the main process).
std::optional<Gap> gap_of_failed_children(const Run& run) {
  for (const StartEvent* started : events_of(run, StartEventKind::kStarted)) {
    const auto exit = std::ranges::find_if(run.exits, [&](const ProcessExit& each) {
      return started->child_pid && each.key.pid == *started->child_pid && each.wait_status;
    });
    if (exit == run.exits.end()) continue;
    const int status = exit->wait_status.value_or(0);
    if (status == 0 || !WIFEXITED(status)) continue;
    return Gap{.what = "why " + describe(run, exit->key) + " failed under " + method_of(run),
               .why = "it ended with exit code " + own(WEXITSTATUS(status)) +
                      ", although every process could be started",
               .effect =
                   "dlprobe cannot tell whether the start method is the reason (state that only a "
                   "forked process has)",
               .remedy = "see its own output; does it work with --start-method fork?"};
  }
  return std::nullopt;
}

// It failed, and what is known of its processes does not say why.
std::optional<Gap> gap_of_failure(const Run& run) {
  const ProcessExit* exit = end_of_command(run);
  const bool failed = exit != nullptr && exit->wait_status && *exit->wait_status != 0;
  if (!failed || is_cut_off(run)) return std::nullopt;
  return Gap{.what = "why the command failed under " + method_of(run),
             .why = "every process could be started",
             .effect = "dlprobe cannot tell whether the start method is the reason",
             .remedy = "see its own output; does it work with --start-method fork?"};
}

bool is_insisted_on(const Run& run) {
  return gap_of_insistence(run).has_value();
}

bool is_under_fork(const Run& run) {
  return run.begin.trial && run.begin.trial->start_method == StartMethod::kFork;
}

// What a process cannot make again of what it was sent it may lack from its parent: fork tells.
bool is_explained(const Run& run) {
  const bool may_lack_state =
      !is_under_fork(run) && !refusals_of(run, StartRefusal::kNotRebuilt).empty();
  const auto known = findings_of_starts(run);
  const auto errors = std::ranges::count(known, Severity::kError, &Finding::severity);
  return errors > (may_lack_state ? 1 : 0);
}

// Its failure has no other reason than that processes which it started did not do their work.
std::optional<Gap> unexplained_failure(const Run& run) {
  if (!run.begin.trial || run.begin.subject != SubjectKind::kCommand || is_insisted_on(run))
    return std::nullopt;
  const bool by_user = run.end && run.end->reason == RunEndReason::kInterrupted;
  if (by_user || events_of(run, StartEventKind::kStarted).empty()) return std::nullopt;
  const bool outgrew = std::ranges::any_of(run.events, [](const Event& event) {
    return event.kind == kTooManyProcesses || event.kind == kTooDeep;
  });
  if (outgrew || is_explained(run)) return std::nullopt;
  if (auto gap = gap_of_cut(run)) return gap;
  if (auto gap = gap_of_failure(run)) return gap;
  return is_cut_off(run) ? std::nullopt : gap_of_failed_children(run);
}

bool ended_well(const Run& run) {
  const ProcessExit* exit = end_of_command(run);
  return exit != nullptr && exit->wait_status && *exit->wait_status == 0 && !is_cut_off(run);
}

// When a trial had done what it is run for: it handed out a batch, or ended well.
std::optional<BootNs> came_through_at(const Run& run) {
  if (is_insisted_on(run) || events_of(run, StartEventKind::kStarted).empty()) return std::nullopt;
  const auto batches = events_of(run, StartEventKind::kFirstBatch);
  const ProcessExit* exit = end_of_command(run);
  if (exit != nullptr && ended_well(run) && !gap_of_failed_children(run)) return exit->at;
  if (!batches.empty() && is_cut_off(run)) return batches.front()->at;
  return std::nullopt;
}

// One that merely takes long under this start method has not failed: one that goes on starting
// processes moves.
bool is_long_past(const Run& run, BootNs needed) {
  constexpr BootNs kPatience = 5;
  if (!is_cut_off(run)) return true;
  const BootNs took = run.end.value_or(RunEnd()).at - run.begin.at;
  const auto starts = events_of(run, StartEventKind::kStarted);
  return took > kPatience * needed && starts.back()->at - run.begin.at < took / 2;
}

}  // namespace

std::vector<Gap> gaps_of_trial(const Run& run, const RecordingView& recording) {
  const auto control = std::ranges::find_if(recording.runs, is_under_fork);
  const bool fails_anyhow = !is_under_fork(run) && control != recording.runs.end() &&
                            unexplained_failure(*control).has_value();
  std::vector<Gap> gaps;
  const auto add = [&](std::optional<Gap> gap, bool is_failure) {
    if (!gap) return;
    if (fails_anyhow && is_failure) gap->remedy = "it fails under fork too: see its own output";
    if (is_under_fork(run) && is_failure) gap->remedy = "see what it printed";
    gaps.push_back(std::move(*gap));
  };
  add(gap_of_insistence(run), false);
  add(gap_of_silence(run), false);
  add(gap_of_cut(run), false);
  add(gap_of_failure(run), true);
  // Children that fail under fork as well, in a command that ends well: so it is meant to be.
  const bool is_meant = control != recording.runs.end() && ended_well(run) &&
                        ended_well(*control) && gap_of_failed_children(*control).has_value();
  if (!is_cut_off(run) && !is_meant) add(gap_of_failed_children(run), true);
  return gaps;
}

bool failed_by_itself(const Run& run) {
  const bool any_start = !events_of(run, StartEventKind::kStarted).empty() ||
                         !events_of(run, StartEventKind::kRefused).empty();
  return !any_start && gap_of_failure(run).has_value();
}

bool wants_control(const RecordingView& recording) {
  return std::ranges::none_of(recording.runs, is_under_fork) &&
         std::ranges::any_of(recording.runs,
                             [](const Run& run) { return unexplained_failure(run).has_value(); });
}

std::optional<Finding> state_not_inherited(const Run& run, const RecordingView& recording) {
  if (is_under_fork(run)) return std::nullopt;
  const auto failure = unexplained_failure(run);
  const auto control = std::ranges::find_if(recording.runs, is_under_fork);
  if (!failure || control == recording.runs.end()) return std::nullopt;
  const auto came_through = came_through_at(*control);
  const BootNs works_at = came_through.value_or(0);
  const BootNs needed = works_at - control->begin.at;
  if (!came_through || !is_long_past(run, needed)) return std::nullopt;
  auto failed = events_of(run, StartEventKind::kFailed);
  std::ranges::copy(refusals_of(run, StartRefusal::kNotRebuilt), std::back_inserter(failed));
  const StartEvent how = failed.empty() ? StartEvent() : *failed.back();
  // What a child did not find, and its parent has.
  const bool is_proven = !how.path.empty() && !how.error_number;
  Finding finding = new_finding(FindingCode::kStateNotInherited,
                                is_proven ? Confidence::kCertain : Confidence::kLikely);
  const RunEnd end = run.end.value_or(RunEnd());
  finding.first_seen = finding.last_seen = end.at;
  finding.message = say("the command {} under {} and works under fork: its processes lack {}{}",
                        is_cut_off(run) ? "stands still" : "fails", method_of(run),
                        is_proven ? as_name(how.path) + ", which their parent has"
                                  : "something that a forked process inherits",
                        how.message.empty() ? "" : " (" + as_text(how.message) + ")");
  if (!how.message.empty())
    finding.prove(text_fact("exception", as_text(how.message), kShimSource, how.at));
  if (is_proven) {
    finding.prove(text_fact("in_main_module", as_name(how.path), kShimSource, how.at));
  }
  finding.prove(text_fact("under_" + method_of(run).plain(), failure->why, kShimSource, end.at));
  finding.prove(text_fact(
      "under_fork", "it ended well after " + format_duration(std::chrono::nanoseconds(needed)),
      kShimSource, works_at));
  finding.rule_out("DLP0402", "everything sent to the processes was pickled");
  finding.rule_out("DLP0401", "importing the main module started no process");
  finding.remedies.push_back(pass_to_processes(
      is_proven ? as_name(how.path) : Message("what they lack (see their output)")));
  finding.advise("Or ask for fork, which is no longer the default in Python 3.14",
                 {"multiprocessing.set_start_method(\"fork\")"},
                 "dlprobe run --start-method fork -- COMMAND");
  return finding;
}

}  // namespace dlprobe::probes::spawn
