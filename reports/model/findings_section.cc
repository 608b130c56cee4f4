#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "reports/model/sections.h"
#include "reports/model/stable_id.h"

namespace dlprobe {
namespace {

std::string finding_id(size_t index) {
  return fmt::format("f{}", index + 1);
}

const ProcessInfo* find_process(const Recording& recording, const ProcessKey& key) {
  for (const Run& run : recording.runs) {
    if (const ProcessInfo* process = run.find_process(key)) return process;
  }
  return nullptr;
}

report::FindingSubject subject_of(const Finding& finding, const Recording& recording) {
  report::FindingSubject subject;
  for (const ProcessKey& key : finding.processes) {
    report::FindingProcess& entry = subject.processes.emplace_back();
    entry.pid = key.pid;
    entry.start_ticks = key.start_ticks;
    if (const ProcessInfo* process = find_process(recording, key)) {
      entry.role = process->role;
      entry.comm = process->comm;
    }
  }
  return subject;
}

report::EvidenceValue fact_value_of(const Evidence& evidence, const ReportSource& source) {
  if (const auto* text = std::get_if<Message>(&evidence.value))
    return {source.sentences.text_of(*text)};
  if (const auto* number = std::get_if<int64_t>(&evidence.value)) return {*number};
  return {std::get<double>(evidence.value)};
}

std::vector<report::Evidence> evidence_list(const Finding& finding, const ReportSource& source) {
  std::vector<report::Evidence> result;
  result.reserve(finding.evidence.size());
  for (const Evidence& evidence : finding.evidence) {
    result.push_back({.name = evidence.name,
                      .value = fact_value_of(evidence, source),
                      .unit = evidence.unit,
                      .source = source.sentences.text_of(evidence.source),
                      .threshold = evidence.threshold,
                      .seen = source.time.moment(evidence.at)});
  }
  return result;
}

std::vector<report::Location> locations_of(const Finding& finding, const ReportSource& source) {
  std::vector<report::Location> result;
  for (const SourcePlace& place : finding.places) {
    report::Location& entry = result.emplace_back();
    entry.path = place.file;
    if (place.line > 0) entry.line = as_count(place.line);
    entry.what = source.sentences.text_of(place.what);
  }
  return result;
}

std::vector<report::Alternative> alternatives_of(const Finding& finding,
                                                 const ReportSource& source) {
  std::vector<report::Alternative> result;
  for (const Alternative& alternative : finding.alternatives) {
    report::Alternative& entry = result.emplace_back();
    entry.cause = alternative.cause;
    if (alternative.cause.starts_with("DLP")) entry.code = report::CodeText(alternative.cause);
    entry.why_not = source.sentences.text_of(alternative.why_not);
  }
  return result;
}

// What is changed in the code helps everywhere.
bool applies_here(const Remedy& remedy, std::string_view container) {
  const std::string_view here = container.empty() ? "bare-host" : container;
  return std::ranges::any_of(remedy.applies_to, [&](const std::string& place) {
    return place == here || place == "code" || (here == "podman" && place == "docker");
  });
}

std::vector<report::Setting> settings_of(const std::vector<Setting>& settings) {
  std::vector<report::Setting> result;
  result.reserve(settings.size());
  for (const Setting& setting : settings) {
    result.push_back(
        {.kind = setting.kind, .value = setting.value, .name = report::if_any(setting.name)});
  }
  return result;
}

std::vector<report::Attempt> attempts_of(const std::vector<AttemptAccount>& accounts,
                                         Sentences& sentences) {
  std::vector<report::Attempt> result;
  for (const AttemptAccount& account : accounts) {
    report::Attempt& entry = result.emplace_back();
    entry.failed_alike = account.has_failed_alike;
    entry.ended = sentences.text_of(account.ended);
    entry.duration_s = account.seconds;
    for (const FindingCode code : account.others)
      entry.other_errors.emplace_back(info(code).code);
    entry.no_proof_because = report::if_any(sentences.text_of(account.why_not));
  }
  return result;
}

report::Remedy remedy_of(const Remedy& remedy, Sentences& sentences) {
  report::Remedy entry;
  entry.title = sentences.text_of(remedy.title);
  for (const Message& command : remedy.commands)
    entry.commands.push_back(sentences.text_of(command));
  entry.applies_to = remedy.applies_to;
  entry.verify = sentences.text_of(remedy.verify);
  entry.settings = report::if_any(settings_of(remedy.settings));
  if (const auto& confirmation = remedy.confirmation) {
    entry.confirmed = {.outcome = confirmation->outcome,
                       .text = sentences.text_of(confirmation->text),
                       .with_it = attempts_of(confirmation->with_it, sentences),
                       .without = attempts_of(confirmation->without, sentences)};
  }
  return entry;
}

// What fits the place where the subject runs comes first.
std::vector<report::Remedy> remediation_of(const Finding& finding, const ReportSource& source) {
  const std::string_view container = source.recording.header.host.container;
  std::vector<Remedy> remedies = finding.remedies;
  std::ranges::stable_partition(
      remedies, [&](const Remedy& remedy) { return applies_here(remedy, container); });
  std::vector<report::Remedy> result;
  result.reserve(remedies.size());
  for (const Remedy& remedy : remedies)
    result.push_back(remedy_of(remedy, source.sentences));
  return result;
}

report::Finding finding_of(const Finding& finding, std::string id, const ReportSource& source) {
  const FindingInfo& registered = info(finding.code);
  report::Finding entry;
  entry.id = report::FindingIdText(std::move(id));
  entry.code = report::CodeText(registered.code);
  entry.name = registered.name;
  entry.title = registered.title;
  entry.severity = finding.severity;
  entry.confidence = finding.confidence;
  entry.message = source.sentences.text_of(finding.message);
  entry.fingerprint = report::FingerprintText(fingerprint_of(finding, source.recording));
  if (finding.consequence_of) entry.consequence_of.emplace(info(*finding.consequence_of).code);
  entry.runs.assign(finding.runs.begin(), finding.runs.end());
  entry.subject = subject_of(finding, source.recording);
  entry.locations = report::if_any(locations_of(finding, source));
  entry.evidence = evidence_list(finding, source);
  entry.alternatives = alternatives_of(finding, source);
  entry.remediation = remediation_of(finding, source);
  entry.references = {{.title = fmt::format("dlprobe explain {}", registered.code)}};
  entry.first_seen = source.time.moment(finding.first_seen);
  entry.last_seen = source.time.moment(finding.last_seen);
  return entry;
}

// The account of the probes of that cause; null: nobody looked for it.
const LookedFor* looked_for(FindingCode code, const Verdict& verdict) {
  const auto found = std::ranges::find(verdict.looked_for, code, &LookedFor::code);
  return found == verdict.looked_for.end() ? nullptr : &*found;
}

CheckStatus status_of(std::optional<Severity> worst, bool is_complete) {
  if (worst == Severity::kError) return CheckStatus::kFail;
  if (worst == Severity::kWarning) return CheckStatus::kWarn;
  return is_complete ? CheckStatus::kPass : CheckStatus::kIncomplete;
}

}  // namespace

std::vector<report::Finding> findings_section(const ReportSource& source) {
  std::vector<report::Finding> result;
  for (size_t i = 0; i < source.verdict.findings.size(); ++i) {
    report::Finding& entry =
        result.emplace_back(finding_of(source.verdict.findings[i], finding_id(i), source));
    if (i < source.severity_sources.size())
      entry.severity_source = report::if_any(source.severity_sources[i]);
  }
  return result;
}

std::vector<report::Finding> suppressed_section(const ReportSource& source) {
  std::vector<report::Finding> result;
  for (const SuppressedFinding& each : source.suppressed) {
    report::Finding entry = finding_of(each.finding, fmt::format("s{}", result.size() + 1), source);
    entry.suppressed = {.reason = each.reason, .source = each.source};
    if (!each.until.empty()) entry.suppressed->until.emplace(each.until);
    result.push_back(std::move(entry));
  }
  return result;
}

std::string fingerprint_of(const Finding& finding, const Recording& recording) {
  std::set<std::string_view> roles;
  for (const ProcessKey& key : finding.processes) {
    const ProcessInfo* process = find_process(recording, key);
    roles.insert(process != nullptr ? to_string(process->role) : "outside");
  }
  std::string subject;
  for (const std::string_view role : roles)
    subject += std::string(role) + " ";
  return "v1:" + stable_id({info(finding.code).code, subject, finding.discriminator});
}

namespace {

// Of `dlprobe gate`: with the findings that make each fail.
std::vector<report::Check> named_checks(const ReportSource& source) {
  std::vector<report::Check> result;
  for (const NamedCheck& check : source.verdict.checks) {
    report::Check& entry = result.emplace_back();
    entry.id = check.id;
    if (check.codes.size() == 1) entry.code.emplace(info(check.codes.front()).code);
    entry.title = check.title;
    entry.status = check.status;
    entry.text = source.sentences.text_of(check.text);
    for (size_t i = 0; i < source.verdict.findings.size(); ++i) {
      const FindingCode code = source.verdict.findings[i].code;
      if (std::ranges::count(check.codes, code) > 0) entry.findings.push_back(finding_id(i));
    }
  }
  return result;
}

// The check of one cause; nothing if nobody has looked for it.
std::optional<report::Check> check_of(const FindingInfo& registered, const ReportSource& source) {
  const bool is_complete = source.verdict.gaps.empty() && !source.recording.runs.empty();
  report::Check check;
  std::optional<Severity> worst;
  for (size_t i = 0; i < source.verdict.findings.size(); ++i) {
    const Finding& finding = source.verdict.findings[i];
    if (finding.code != registered.id) continue;
    worst = std::max(worst.value_or(finding.severity), finding.severity);
    check.findings.push_back(finding_id(i));
  }
  const LookedFor* looked = looked_for(registered.id, source.verdict);
  // What could not be seen is not listed as if it had been, unless a gap says why.
  const bool is_told = looked != nullptr && (looked->was_seen || !is_complete);
  if (!is_told && check.findings.empty()) return std::nullopt;
  const std::string& probe =
      looked != nullptr ? looked->probe : source.recording.header.invocation.probe;
  check.id = fmt::format("{}.{}", probe, registered.name);
  check.code.emplace(registered.code);
  check.title = registered.title;
  check.status = status_of(worst, is_complete);
  const auto set_aside = std::ranges::find_if(
      source.suppressed,
      [&](const SuppressedFinding& each) { return each.finding.code == registered.id; });
  if (!worst && set_aside != source.suppressed.end()) {
    check.status = CheckStatus::kSkipped;
    check.text = source.sentences.text_of("suppressed: " + as_text(set_aside->reason));
  }
  return check;
}

}  // namespace

std::vector<report::Check> checks_section(const ReportSource& source) {
  if (!source.verdict.checks.empty()) return named_checks(source);
  std::vector<report::Check> result;
  for (const FindingInfo& registered : all_findings()) {
    if (auto check = check_of(registered, source)) result.push_back(std::move(*check));
  }
  return result;
}

}  // namespace dlprobe
