#include "probes/gate/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "lib/base/units.h"

namespace dlprobe::probes::gate {
namespace {

std::optional<Severity> worst_of(const Verdict& verdict, const NamedCheck& check, int run) {
  std::optional<Severity> worst;
  for (const Finding& finding : verdict.findings) {
    const bool is_of_run = run >= 0 && std::ranges::count(finding.runs, run) > 0;
    const bool is_of_code = std::ranges::count(check.codes, finding.code) > 0;
    if ((run < 0 && is_of_code) || is_of_run)
      worst = std::max(worst.value_or(finding.severity), finding.severity);
  }
  return worst;
}

// What could not be made fails by an error that was found all the same; a warning does not make it.
void settle(NamedCheck& check, const Verdict& verdict, int run = -1) {
  const auto worst = worst_of(verdict, check, run);
  if (worst == Severity::kError) {
    check.status = CheckStatus::kFail;
  } else if (worst == Severity::kWarning && check.status != CheckStatus::kIncomplete) {
    check.status = CheckStatus::kWarn;
  }
}

const Event* last_of_kind(const Run& run, std::string_view kind) {
  const Event* last = nullptr;
  for (const Event& event : run.events)
    if (event.kind == kind) last = &event;
  return last;
}

// The look began a little later than the time to the deadline.
int64_t given_seconds(const GateFacts& facts) {
  return (facts.deadline - facts.at + kSecond - 1) / kSecond;
}

}  // namespace

OwnWords longer_deadline(const GateFacts& facts) {
  return "--deadline " + own(std::max<int64_t>(20, 3 * given_seconds(facts))) + "s";
}

void add_remedy(Finding& finding, Message title, std::vector<Message> commands,
                std::vector<std::string> places) {
  finding.remedies.push_back({.title = std::move(title),
                              .commands = std::move(commands),
                              .applies_to = std::move(places),
                              .verify = "dlprobe gate"});
}

void Checks::put(NamedCheck check) {
  settle(check, verdict_);
  verdict_.checks.push_back(std::move(check));
}

void Checks::add(std::string id, std::string title, std::vector<FindingCode> codes, Message text) {
  put({.id = std::move(id),
       .title = std::move(title),
       .status = CheckStatus::kPass,
       .text = std::move(text),
       .codes = std::move(codes)});
}

void Checks::add_incomplete(std::string id, std::string title, std::vector<FindingCode> codes,
                            const Message& why, const OwnWords& remedy) {
  NamedCheck check{.id = std::move(id),
                   .title = std::move(title),
                   .status = CheckStatus::kIncomplete,
                   .text = why,
                   .codes = std::move(codes)};
  settle(check, verdict_);
  if (check.status == CheckStatus::kIncomplete) {
    verdict_.gaps.push_back(
        {.what = own(check.title), .why = why, .effect = "dlprobe cannot tell", .remedy = remedy});
  }
  verdict_.checks.push_back(std::move(check));
}

void Checks::add_skipped(std::string id, std::string title, Message why,
                         std::vector<FindingCode> codes) {
  put({.id = std::move(id),
       .title = std::move(title),
       .status = CheckStatus::kSkipped,
       .text = std::move(why),
       .codes = std::move(codes)});
}

void Checks::add_loader(size_t index, const Run& run) {
  if (!run.begin.plan) return;
  const LoaderPlan& plan = *run.begin.plan;
  NamedCheck check{
      .id = fmt::format("loader.{}.{}", to_string(plan.start_method),
                        to_string(plan.sharing_strategy)),
      .title = fmt::format("The reference loader runs under {} and {}",
                           to_string(plan.start_method), to_string(plan.sharing_strategy)),
      .status = CheckStatus::kPass};
  if (run.done) {
    check.text = own(fmt::format(
        "{:.0f} images/s, the first batch after {:.2g} s",
        run.done->seconds > 0 ? static_cast<double>(run.done->images) / run.done->seconds : 0.0,
        run.done->first_batch_s));
    if (last_of_kind(run, kLoaderNoImage) != nullptr)
      check.text += "; with built-in images: --data has none that OpenCV can read";
    settle(check, verdict_, static_cast<int>(index));
    verdict_.checks.push_back(std::move(check));
    return;
  }
  if (source_.facts.level == "quick") {
    check.status = CheckStatus::kSkipped;
    check.text = "--level quick starts no loader";
    verdict_.checks.push_back(std::move(check));
    return;
  }
  const bool not_started = run.end && run.end->reason == RunEndReason::kNotStarted;
  const bool out_of_time = run.end && run.end->reason == RunEndReason::kTimeUp;
  Message why = not_started ? run.end->text : "it did not finish";
  if (const Event* error = last_of_kind(run, kLoaderError)) why += ": " + error->text;
  if (out_of_time) why = say("the deadline of {} s came first", given_seconds(source_.facts));
  check.status = CheckStatus::kIncomplete;
  // One that was not started has not failed: what kept it from that is a finding of its own, which
  // somebody may have suppressed.
  if (!not_started) settle(check, verdict_, static_cast<int>(index));
  check.text = why;
  if (check.status == CheckStatus::kIncomplete) {
    verdict_.gaps.push_back(
        {.what = own(fmt::format("the run of the reference loader under {} and {}",
                                 to_string(plan.start_method), to_string(plan.sharing_strategy))),
         .why = why,
         .effect = "dlprobe cannot tell whether a loader works here",
         .remedy = out_of_time ? longer_deadline(source_.facts) : ""});
  }
  verdict_.checks.push_back(std::move(check));
}

}  // namespace dlprobe::probes::gate
