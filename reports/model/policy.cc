#include "reports/model/policy.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <iterator>

#include "reports/model/sections.h"

namespace dlprobe {
namespace {

std::optional<double> number_of(const Evidence& evidence) {
  if (const auto* real = std::get_if<double>(&evidence.value)) return *real;
  if (const auto* whole = std::get_if<int64_t>(&evidence.value)) return static_cast<double>(*whole);
  return std::nullopt;
}

const Evidence* evidence_of(const FindingPolicy::Threshold& threshold, const Finding& finding) {
  const auto found = std::ranges::find(finding.evidence, threshold.evidence, &Evidence::name);
  // Bytes are no seconds; "bytes/s" are bytes.
  const bool is_there = found != finding.evidence.end() && number_of(*found) &&
                        found->unit.starts_with(threshold.unit);
  return is_there ? &*found : nullptr;
}

Message numbers_of(const Finding& finding) {
  Message names;
  for (const Evidence& each : finding.evidence) {
    if (number_of(each)) names += (names.empty() ? "" : ", ") + own(each.name);
  }
  return names.empty() ? "no number at all" : names;
}

// Why the finding is below what the threshold asks; nothing if it is not, or cannot be held against
// it.
std::optional<std::string> below(const FindingPolicy::Threshold& threshold,
                                 const Finding& finding) {
  if (finding.code != threshold.code) return std::nullopt;
  const Evidence* evidence = evidence_of(threshold, finding);
  const auto value = evidence == nullptr ? std::nullopt : number_of(*evidence);
  if (!value) return std::nullopt;
  const bool counts = threshold.is_upper ? *value <= threshold.value : *value >= threshold.value;
  if (counts) return std::nullopt;
  return fmt::format("{} is {} {}, and counts {} {}", threshold.evidence, *value, evidence->unit,
                     threshold.is_upper ? "up to" : "from", threshold.text);
}

class Treatment {
 public:
  Treatment(const FindingPolicy& policy, const Recording& recording)
      : policy_(policy),
        recording_(recording),
        day_(TimeOfDay(recording.header)
                 .utc(recording.header.boottime_ns)
                 .value_or("9999-12-31")
                 .substr(0, 10)) {}

  TreatedVerdict apply(Verdict verdict) {
    TreatedVerdict result;
    std::vector<Gap> limits = thresholds_without_evidence(policy_, verdict);
    std::ranges::move(limits, std::back_inserter(verdict.limits));
    std::vector<Finding> all = std::move(verdict.findings);
    verdict.findings.clear();
    for (Finding& finding : all) {
      std::string source = override_severity(finding);
      if (auto suppressed = suppress(finding)) {
        result.suppressed.push_back(std::move(*suppressed));
      } else {
        verdict.findings.push_back(std::move(finding));
        result.severity_sources.push_back(std::move(source));
      }
    }
    for (Gap& gap : expired_)
      verdict.limits.push_back(std::move(gap));
    for (NamedCheck& check : verdict.checks)
      settle(check, verdict.findings, result.suppressed);
    result.verdict = std::move(verdict);
    return result;
  }

 private:
  // The source of the rule; empty: there is none.
  std::string override_severity(Finding& finding) const {
    // Of several the last one counts: it is the one of the nearest file.
    std::string source;
    for (const auto& rule : policy_.severities) {
      if (rule.code != finding.code) continue;
      finding.severity = rule.severity;
      source = rule.source;
    }
    return source;
  }

  std::optional<SuppressedFinding> suppress(const Finding& finding) {
    for (const auto& rule : policy_.suppressions) {
      if (!is_about(rule, finding)) continue;
      if (!rule.until.empty() && day_ > rule.until) {
        note_expired(rule);
        continue;
      }
      return SuppressedFinding{
          .finding = finding, .reason = rule.reason, .until = rule.until, .source = rule.source};
    }
    for (const auto& threshold : policy_.thresholds) {
      if (auto why = below(threshold, finding))
        return SuppressedFinding{
            .finding = finding, .reason = std::move(*why), .source = threshold.source};
    }
    return std::nullopt;
  }

  bool is_about(const FindingPolicy::Suppression& rule, const Finding& finding) const {
    if (rule.code != finding.code) return false;
    if (!rule.fingerprint.empty() && rule.fingerprint != fingerprint_of(finding, recording_))
      return false;
    const HostFacts& host = recording_.header.host;
    const std::string& node = host.node.empty() ? host.name : host.node;
    return rule.node.empty() || ::fnmatch(rule.node.c_str(), node.c_str(), 0) == 0;
  }

  void note_expired(const FindingPolicy::Suppression& rule) {
    const Gap gap{
        .what = say("the suppression of {} in {}", own(info(rule.code).code), as_path(rule.source)),
        .why = say("it ended on {} ({})", own(rule.until), as_text(rule.reason)),
        .effect = "the finding counts again",
        .remedy = "fix the cause, or set a later day"};
    if (std::ranges::count(expired_, gap) == 0) expired_.push_back(gap);
  }

  // A check of `dlprobe gate` says what its findings say now.
  static void settle(NamedCheck& check, const std::vector<Finding>& findings,
                     const std::vector<SuppressedFinding>& suppressed) {
    const auto is_mine = [&check](FindingCode code) {
      return std::ranges::count(check.codes, code) > 0;
    };
    if (check.status != CheckStatus::kFail && check.status != CheckStatus::kWarn) return;
    std::optional<Severity> worst;
    for (const Finding& finding : findings) {
      if (is_mine(finding.code))
        worst = std::max(worst.value_or(finding.severity), finding.severity);
    }
    const auto set_aside = std::ranges::find_if(
        suppressed, [&](const SuppressedFinding& each) { return is_mine(each.finding.code); });
    if (!worst && set_aside != suppressed.end()) {
      check.status = CheckStatus::kSkipped;
      check.text += "; suppressed: " + as_text(set_aside->reason);
    }
    if (!worst) return;
    if (*worst == Severity::kError) check.status = CheckStatus::kFail;
    if (*worst == Severity::kWarning) check.status = CheckStatus::kWarn;
    if (*worst == Severity::kInfo) check.status = CheckStatus::kPass;
  }

  const FindingPolicy& policy_;
  const Recording& recording_;
  std::string day_;
  std::vector<Gap> expired_;
};

}  // namespace

std::vector<Gap> thresholds_without_evidence(const FindingPolicy& policy, const Verdict& verdict) {
  std::vector<Gap> gaps;
  for (const auto& threshold : policy.thresholds) {
    const auto missing = std::ranges::find_if(verdict.findings, [&](const Finding& finding) {
      return finding.code == threshold.code && evidence_of(threshold, finding) == nullptr;
    });
    if (missing == verdict.findings.end()) continue;
    gaps.push_back({.what = say("the threshold of {} in {}", own(info(threshold.code).code),
                                as_path(threshold.source)),
                    .why = say("a finding has no number '{}'{} among its evidence; it has: {}",
                               as_name(threshold.evidence),
                               threshold.unit.empty() ? "" : " in " + as_name(threshold.unit),
                               numbers_of(*missing)),
                    .effect = "the threshold is ignored: the finding counts",
                    .remedy = "name one of these"});
  }
  return gaps;
}

TreatedVerdict apply_policy(const FindingPolicy& policy, const Recording& recording,
                            Verdict verdict) {
  return Treatment(policy, recording).apply(std::move(verdict));
}

}  // namespace dlprobe
