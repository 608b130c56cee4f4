#include "probes/confirm/probe.h"

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "lib/base/units.h"
#include "probes/confirm/setting_effect.h"
#include "probes/facts/deaths.h"

namespace dlprobe::probes::confirm {
namespace {

constexpr size_t kMostSettings = 6;
constexpr double kChance = 0.05;

OwnWords span_text(double seconds) {
  return format_duration(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
}

double seconds_of(const Run& run) {
  return run.end ? static_cast<double>(run.end->at - run.begin.at) / 1e9 : 0;
}

bool is_exit_0(const Run& run) {
  return run.end && run.end->wait_status && *run.end->wait_status == 0;
}

Message how_command_ended(const Run& run) {
  if (!run.end) return "dlprobe did not see its end";
  if (run.end->reason == RunEndReason::kNotStarted) return "it was not started: " + run.end->text;
  if (!run.end->text.empty()) return run.end->text;
  if (run.end->reason == RunEndReason::kTimeUp) return "it was still running; dlprobe ended it";
  if (!run.end->wait_status) return "dlprobe did not see its end";
  const int status = *run.end->wait_status;
  if (WIFSIGNALED(status)) return signal_name(WTERMSIG(status));
  return "exit code " + own(WEXITSTATUS(status));
}

// A warning that was an error before is the failure still; a mere hint is not.
bool is_alike(const Finding& seen, const Finding& finding) {
  return seen.code == finding.code &&
         seen.severity >= std::min(finding.severity, Severity::kWarning);
}

bool has_error(const Verdict& verdict, FindingCode code) {
  return std::ranges::any_of(verdict.findings, [code](const Finding& each) {
    return each.code == code && each.severity == Severity::kError;
  });
}

std::vector<FindingCode> other_errors(const Verdict& verdict, const Finding& finding,
                                      bool ended_well) {
  std::vector<FindingCode> codes;
  for (const Finding& each : verdict.findings) {
    bool is_other = each.severity == Severity::kError && each.code != finding.code;
    // Whatever a look showed on the way: what ended well did not hang.
    if (ended_well && info(each.code).code.starts_with("DLP03")) is_other = false;
    if (is_other && std::ranges::count(codes, each.code) == 0) codes.push_back(each.code);
  }
  return codes;
}

bool has_time_up(const RunEnd& end) {
  return end.reason == RunEndReason::kTimeUp || end.still_for;
}

// A run that was over sooner than the failure took to show, or was cut short, did not come as far.
Message why_not_as_far(const Run& attempt, const Run& first, const Finding& finding) {
  constexpr double kMargin = 1.5;
  constexpr double kMarginSeconds = 1;
  // What hung may hang elsewhere.
  constexpr BootNs kLongestPause = 5 * kSecond;
  const double seconds = seconds_of(attempt);
  const double failed = failed_after(finding, first);
  const RunEnd end = attempt.end.value_or(RunEnd());
  if (has_time_up(end)) {
    const BootNs still_for = end.still_for.value_or(0);
    if (still_for >= kLongestPause) {
      return say("the command still ran after {}, but had not moved for {}", span_text(seconds),
                 span_text(static_cast<double>(still_for) / 1e9));
    }
    const bool as_long = first.end && first.end->reason == RunEndReason::kTimeUp &&
                         seconds >= 0.95 * seconds_of(first);
    if (as_long || seconds >= failed * kMargin + kMarginSeconds) return "";
    return say("dlprobe ended the command after {}; the first run failed after {}",
               span_text(seconds), span_text(failed));
  }
  if (!is_exit_0(first) || seconds >= failed / 2) return "";
  return say("the command ended after {}; the first run failed after {}", span_text(seconds),
             span_text(failed));
}

Message other_failure(FindingCode code, const Verdict& at_first) {
  const FindingInfo& other = info(code);
  const OwnWords name = own(other.code) + " " + own(other.name);
  return has_error(at_first, code) ? say("{}, found as well, remained", name)
                                   : say("the command failed in another way: {}", name);
}

int32_t index_of_run(const Finding& finding) {
  return finding.runs.empty() ? 0 : finding.runs.front();
}

const Run& run_of(const Finding& finding, const Recording& recording) {
  const auto index = static_cast<size_t>(index_of_run(finding));
  return recording.runs.at(std::min(index, recording.runs.size() - 1));
}

Message why_no_proof(const Run& attempt, const AttemptAccount& account, const Recording& recording,
                     const Verdict& verdict, const Finding& finding) {
  const RunEnd end = attempt.end.value_or(RunEnd());
  if (end.reason == RunEndReason::kInterrupted) return "the run was interrupted";
  if (const auto why = why_not_set(attempt); !why.empty())
    return "this did not take effect: " + why;
  if (account.has_failed_alike) return "";
  if (!account.others.empty()) return other_failure(account.others.front(), verdict);
  if (!has_time_up(end) && !end.text.empty()) return end.text;
  if (!has_time_up(end) && !is_exit_0(attempt))
    return say("the command failed for an unknown reason ({})", account.ended);
  return why_not_as_far(attempt, run_of(finding, recording), finding);
}

size_t count_failed(const std::vector<AttemptAccount>& accounts) {
  return static_cast<size_t>(std::ranges::count_if(
      accounts, [](const AttemptAccount& each) { return each.has_failed_alike; }));
}

// That all failures fell among those without the remedy, if it did nothing.
double chance_of(size_t failed, size_t without, size_t with_it) {
  double chance = 1;
  for (size_t i = 0; i < failed; ++i) {
    chance *= static_cast<double>(without - i) / static_cast<double>(without + with_it - i);
  }
  return chance;
}

Message account_text(const AttemptAccount& account) {
  return account.ended + (account.seconds ? " after " + span_text(*account.seconds) : "");
}

Confirmation unproven(Message text) {
  return {.outcome = RemedyOutcome::kInconclusive, .text = std::move(text)};
}

// "2 runs of 2"; of one run it goes without saying.
OwnWords runs_text(size_t count, size_t of) {
  return counted(count, "run") + " of " + own(of);
}

const char* noun_of(const Finding& finding) {
  return finding.severity == Severity::kError ? "the failure" : "the problem";
}

// The failure did not come with it: is that its doing?
Confirmation weigh(const OwnWords& settings, const Finding& finding,
                   const std::vector<AttemptAccount>& with_it,
                   const std::vector<AttemptAccount>& without) {
  const size_t failed = count_failed(without);
  const auto told = static_cast<size_t>(std::ranges::count_if(
      without, [](const AttemptAccount& each) { return each.why_not.empty(); }));
  const char* noun = noun_of(finding);
  if (told < 2) {
    return unproven(
        say("not proven: with {} {} did not come, but the unchanged command was not run again",
            settings, noun));
  }
  if (failed < told && chance_of(failed, told, with_it.size()) > kChance) {
    return unproven(
        say("not proven: with {} {} did not come ({}), but unchanged it came in only {}, so this "
            "may be chance; --confirm=N repeats N times",
            settings, noun, runs_text(with_it.size(), with_it.size()), runs_text(failed, told)));
  }
  const OwnWords often =
      with_it.size() > 1 ? runs_text(with_it.size(), with_it.size()) + ", the first: " : "";
  return {.outcome = RemedyOutcome::kConfirmed,
          .text = say("confirmed: with {} {} is gone ({}{}); unchanged, it came in {}", settings,
                      noun, often, account_text(with_it.front()), runs_text(failed, told))};
}

bool was_not_tried(const AttemptAccount& account) {
  return !account.seconds;
}

Confirmation decide(const OwnWords& settings, const Finding& finding,
                    const std::vector<AttemptAccount>& with_it,
                    const std::vector<AttemptAccount>& without) {
  // Where the setting did not take effect it did not fail either.
  const auto open = std::ranges::find_if(
      with_it, [](const AttemptAccount& each) { return !each.why_not.empty(); });
  const auto again = std::ranges::find_if(with_it, [](const AttemptAccount& each) {
    return each.has_failed_alike && each.why_not.empty();
  });
  if (again != with_it.end()) {
    return {.outcome = RemedyOutcome::kNotHelped,
            .text = say(
                "this did not help: with {} {} came again{} ({})", settings, noun_of(finding),
                with_it.size() > 1 ? " in " + runs_text(count_failed(with_it), with_it.size()) : "",
                account_text(*again))};
  }
  if (open != with_it.end()) {
    return unproven(say("{} with {}: {}", was_not_tried(*open) ? "not tried" : "not proven",
                        settings, open->why_not));
  }
  return weigh(settings, finding, with_it, without);
}

// Each once, the cheapest to change for good first.
std::vector<Attempt> attempts_for(const Finding& finding) {
  std::vector<Attempt> all;
  for (const Remedy& remedy : finding.remedies) {
    Attempt attempt{.settings = remedy.settings, .of_run = index_of_run(finding)};
    if (remedy.settings.empty() || std::ranges::count(all, attempt) > 0) continue;
    all.push_back(std::move(attempt));
  }
  std::ranges::stable_sort(all, {}, [](const Attempt& attempt) {
    return std::ranges::max(attempt.settings, {}, &Setting::kind).kind;
  });
  return all;
}

// What the attempts of a recording tell of the findings of its verdict.
class Judge {
 public:
  Judge(const Recording& recording, const Verdict& verdict, const Probe& probe)
      : recording_(recording), verdict_(verdict), planned_(plan_attempts(verdict)) {
    for (const Run& attempt : recording.attempts)
      seen_.push_back(verdict_of_attempt(attempt, recording, probe));
  }

  Confirmation confirmation(const Finding& finding, const std::vector<Setting>& settings) const {
    const Attempt wanted{.settings = settings, .of_run = index_of_run(finding)};
    auto with_it = accounts_of(finding, wanted);
    if (with_it.empty()) return unproven(why_not_tried(wanted));
    std::vector<AttemptAccount> without = {first_account(run_of(finding, recording_))};
    std::ranges::move(accounts_of(finding, {.of_run = wanted.of_run}), std::back_inserter(without));
    return conclude_attempts(settings, finding, std::move(with_it), std::move(without));
  }

 private:
  std::vector<AttemptAccount> accounts_of(const Finding& finding, const Attempt& wanted) const {
    std::vector<AttemptAccount> accounts;
    for (size_t i = 0; i < seen_.size(); ++i) {
      const Run& attempt = recording_.attempts[i];
      if (attempt.begin.attempt == wanted)
        accounts.push_back(judge_attempt(attempt, seen_[i], recording_, verdict_, finding));
    }
    return accounts;
  }

  static AttemptAccount first_account(const Run& first) {
    AttemptAccount account{.has_failed_alike = true, .ended = how_command_ended(first)};
    if (first.end) account.seconds = seconds_of(first);
    return account;
  }

  Message why_not_tried(const Attempt& wanted) const {
    const OwnWords what = "not tried with " + own(describe(wanted.settings)) + ": ";
    if (std::ranges::count(planned_, wanted, &PlannedAttempt::attempt) > 0)
      return what + "dlprobe was stopped before";
    return what + say("--confirm tries only the first {} settings", kMostSettings);
  }

  const Recording& recording_;
  const Verdict& verdict_;
  std::vector<PlannedAttempt> planned_;
  std::vector<Verdict> seen_;  ///< of each attempt
};

}  // namespace

bool is_worth_a_try(const Finding& finding) {
  return finding.severity >= Severity::kWarning;
}

std::vector<PlannedAttempt> plan_attempts(const Verdict& verdict) {
  std::vector<PlannedAttempt> all;
  for (size_t i = 0; i < verdict.findings.size(); ++i) {
    const Finding& finding = verdict.findings[i];
    if (!is_worth_a_try(finding)) continue;
    for (const Attempt& attempt : attempts_for(finding)) {
      const auto same = std::ranges::find(all, attempt, &PlannedAttempt::attempt);
      if (same != all.end()) {
        same->findings.push_back(i);
      } else if (all.size() < kMostSettings) {
        all.push_back({.attempt = attempt, .findings = {i}});
      }
    }
  }
  return all;
}

double failed_after(const Finding& finding, const Run& first) {
  const BootNs end = first.end ? first.end->at : first.begin.at;
  const BootNs at = finding.last_seen.value_or(end);
  return static_cast<double>(std::max<BootNs>(at - first.begin.at, 0)) / 1e9;
}

Verdict verdict_of_attempt(const Run& attempt, const Recording& recording, const Probe& probe) {
  if (!attempt.end || attempt.end->reason == RunEndReason::kNotStarted) return {};
  return probe.examine({recording.header, std::span(&attempt, 1)});
}

AttemptAccount judge_attempt(const Run& attempt, const Verdict& seen, const Recording& recording,
                             const Verdict& verdict, const Finding& finding) {
  AttemptAccount account{.ended = how_command_ended(attempt)};
  if (!attempt.end || attempt.end->reason == RunEndReason::kNotStarted) {
    account.why_not = attempt.end ? attempt.end->text : "dlprobe was stopped before it ended";
    return account;
  }
  account.seconds = seconds_of(attempt);
  account.has_failed_alike = std::ranges::any_of(
      seen.findings, [&](const Finding& each) { return is_alike(each, finding); });
  account.others = other_errors(seen, finding, is_exit_0(attempt));
  account.why_not = why_no_proof(attempt, account, recording, verdict, finding);
  account.has_ended_well = !account.has_failed_alike && account.why_not.empty();
  return account;
}

Confirmation conclude_attempts(const std::vector<Setting>& settings, const Finding& finding,
                               std::vector<AttemptAccount> with_it,
                               std::vector<AttemptAccount> without) {
  Confirmation confirmation = decide(own(describe(settings)), finding, with_it, without);
  confirmation.with_it = std::move(with_it);
  confirmation.without = std::move(without);
  return confirmation;
}

Verdict with_confirmations(Verdict verdict, const Recording& recording, const Probe& probe) {
  if (recording.attempts.empty() || recording.runs.empty()) return verdict;
  Verdict told = verdict;
  const Judge judge(recording, verdict, probe);
  for (Finding& finding : told.findings) {
    if (!is_worth_a_try(finding)) continue;
    for (Remedy& remedy : finding.remedies) {
      if (!remedy.settings.empty())
        remedy.confirmation = judge.confirmation(finding, remedy.settings);
    }
  }
  return told;
}

}  // namespace dlprobe::probes::confirm
