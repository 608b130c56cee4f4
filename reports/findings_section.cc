#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "reports/sections.h"
#include "reports/stable_id.h"

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

Json subject_of(const Finding& finding, const Recording& recording) {
  Json processes = Json::array();
  for (const ProcessKey& key : finding.processes) {
    Json entry = {{"pid", key.pid}, {"start_ticks", key.start_ticks}};
    if (const ProcessInfo* process = find_process(recording, key)) {
      entry["role"] = to_string(process->role);
      entry["comm"] = json_text(process->comm);
    }
    processes.push_back(std::move(entry));
  }
  return {{"processes", std::move(processes)}};
}

Json evidence_of(const Finding& finding, const TimeOfDay& time) {
  Json result = Json::array();
  for (const Evidence& evidence : finding.evidence) {
    Json entry = {{"name", json_text(evidence.name)}};
    if (const auto* text = std::get_if<std::string>(&evidence.value)) {
      entry["value"] = json_text(*text);
    } else if (const auto* number = std::get_if<double>(&evidence.value)) {
      put_number(entry, "value", *number);
    } else {
      entry["value"] = std::get<int64_t>(evidence.value);
    }
    entry["unit"] = json_text(evidence.unit);
    entry["source"] = json_text(evidence.source);
    if (evidence.threshold) entry["threshold"] = json_text(*evidence.threshold);
    if (evidence.at) time.put(entry, "seen", *evidence.at);
    result.push_back(std::move(entry));
  }
  return result;
}

Json locations_of(const Finding& finding) {
  Json result = Json::array();
  for (const SourcePlace& place : finding.places) {
    Json entry = {{"path", json_text(place.file)}};
    if (place.line > 0) entry["line"] = place.line;
    entry["what"] = json_text(place.what);
    result.push_back(std::move(entry));
  }
  return result;
}

Json alternatives_of(const Finding& finding) {
  Json result = Json::array();
  for (const Alternative& alternative : finding.alternatives) {
    Json entry = {{"cause", json_text(alternative.cause)}};
    if (alternative.cause.starts_with("DLP")) entry["code"] = json_text(alternative.cause);
    entry["why_not"] = json_text(alternative.why_not);
    result.push_back(std::move(entry));
  }
  return result;
}

bool applies_here(const Remedy& remedy, std::string_view container) {
  const std::string_view here = container.empty() ? "bare-host" : container;
  return std::ranges::any_of(remedy.applies_to, [&](const std::string& place) {
    return place == here || (here == "podman" && place == "docker");
  });
}

Json settings_of(const std::vector<Setting>& settings) {
  Json result = Json::array();
  for (const Setting& setting : settings) {
    Json entry = {{"kind", to_string(setting.kind)}, {"value", json_text(setting.value)}};
    if (!setting.name.empty()) entry["name"] = json_text(setting.name);
    result.push_back(std::move(entry));
  }
  return result;
}

Json attempts_of(const std::vector<AttemptAccount>& accounts) {
  Json result = Json::array();
  for (const AttemptAccount& account : accounts) {
    Json entry = {{"failed_alike", account.has_failed_alike}, {"ended", json_text(account.ended)}};
    if (account.seconds) put_number(entry, "duration_s", *account.seconds);
    entry["other_errors"] = Json::array();
    for (const FindingCode code : account.others)
      entry["other_errors"].push_back(info(code).code);
    if (!account.why_not.empty()) entry["no_proof_because"] = json_text(account.why_not);
    result.push_back(std::move(entry));
  }
  return result;
}

Json remedy_entry(const Remedy& remedy) {
  Json entry = {{"title", json_text(remedy.title)},
                {"commands", json_texts(remedy.commands)},
                {"applies_to", json_texts(remedy.applies_to)},
                {"verify", json_text(remedy.verify)}};
  if (!remedy.settings.empty()) entry["settings"] = settings_of(remedy.settings);
  if (const auto& confirmation = remedy.confirmation) {
    entry["confirmed"] = {{"outcome", to_string(confirmation->outcome)},
                          {"text", json_text(confirmation->text)},
                          {"with_it", attempts_of(confirmation->with_it)},
                          {"without", attempts_of(confirmation->without)}};
  }
  return entry;
}

// What fits the place where the subject runs comes first.
Json remediation_of(const Finding& finding, std::string_view container) {
  std::vector<Remedy> remedies = finding.remedies;
  std::ranges::stable_partition(
      remedies, [&](const Remedy& remedy) { return applies_here(remedy, container); });
  Json result = Json::array();
  for (const Remedy& remedy : remedies) {
    result.push_back(remedy_entry(remedy));
  }
  return result;
}

Json finding_entry(const Finding& finding, std::string id, const ReportSource& source) {
  const FindingInfo& registered = info(finding.code);
  Json entry = {{"id", std::move(id)},
                {"code", registered.code},
                {"name", registered.name},
                {"title", registered.title},
                {"severity", to_string(finding.severity)},
                {"confidence", to_string(finding.confidence)},
                {"message", json_text(finding.message)},
                {"fingerprint", fingerprint_of(finding, source.recording)}};
  if (finding.consequence_of) entry["consequence_of"] = info(*finding.consequence_of).code;
  entry["runs"] = finding.runs;
  entry["subject"] = subject_of(finding, source.recording);
  if (!finding.places.empty()) entry["locations"] = locations_of(finding);
  entry["evidence"] = evidence_of(finding, source.time);
  entry["alternatives"] = alternatives_of(finding);
  entry["remediation"] = remediation_of(finding, source.recording.header.host.container);
  entry["references"] = {{{"title", fmt::format("dlprobe explain {}", registered.code)}}};
  if (finding.first_seen) source.time.put(entry, "first_seen", *finding.first_seen);
  if (finding.last_seen) source.time.put(entry, "last_seen", *finding.last_seen);
  return entry;
}

// The codes that a probe looks for share their first two digits.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kPrefixes = {
    {{"shm", "DLP01"},
     {"fd", "DLP02"},
     {"deadlock", "DLP03"},
     {"spawn-recursion", "DLP04"},
     {"memory", "DLP05"}}};

std::string_view code_prefix(std::string_view probe) {
  const auto found =
      std::ranges::find(kPrefixes, probe, &std::pair<std::string_view, std::string_view>::first);
  return found == kPrefixes.end() ? "DLP" : found->second;
}

// Those of `dlprobe tune`, which no other looks for.
bool is_of_tune(FindingCode code) {
  return code == FindingCode::kTooManyWorkers || code == FindingCode::kThreadOversubscription;
}

// Told by `dlprobe gate` or from many nodes' reports alone.
bool is_of_gate_or_merge(FindingCode code) {
  using enum FindingCode;
  return code == kNodesDiffer || code == kProcessLimitReached || code == kCpuAffinityNarrowed ||
         code == kDataNotReadable || code == kShmNotWritable || code == kShmNotTmpfs ||
         code == kTemporaryFolderUnusable || code == kClockWrong;
}

// Whether the probe that ran has looked for that cause.
bool was_looked_for(const FindingInfo& registered, const ReportSource& source) {
  const std::string& probe = source.recording.header.invocation.probe;
  if (is_of_gate_or_merge(registered.id)) return false;
  if (!source.verdict.tune) {
    return registered.code.starts_with(code_prefix(probe)) && !is_of_tune(registered.id);
  }
  // Whether there are too many can only be said where it is known how many there are.
  return is_of_tune(registered.id) &&
         (registered.id != FindingCode::kTooManyWorkers || source.verdict.tune->present);
}

// Where several probes ran, each check is named after its own.
std::string_view probe_of(std::string_view code, std::string_view probe_that_ran) {
  if (code_prefix(probe_that_ran) != "DLP") return probe_that_ran;
  for (const auto& [probe, prefix] : kPrefixes) {
    if (code.starts_with(prefix)) return probe;
  }
  return probe_that_ran;
}

std::string_view status_of(std::optional<Severity> worst, bool is_complete) {
  if (worst == Severity::kError) return "fail";
  if (worst == Severity::kWarning) return "warn";
  return is_complete ? "pass" : "incomplete";
}

}  // namespace

Json findings_section(const ReportSource& source) {
  Json result = Json::array();
  for (size_t i = 0; i < source.verdict.findings.size(); ++i) {
    Json entry = finding_entry(source.verdict.findings[i], finding_id(i), source);
    if (i < source.severity_sources.size() && !source.severity_sources[i].empty())
      entry["severity_source"] = json_text(source.severity_sources[i]);
    result.push_back(std::move(entry));
  }
  return result;
}

Json suppressed_section(const ReportSource& source) {
  Json result = Json::array();
  for (const SuppressedFinding& each : source.suppressed) {
    Json entry = finding_entry(each.finding, fmt::format("s{}", result.size() + 1), source);
    entry["suppressed"] = {{"reason", json_text(each.reason)}, {"source", json_text(each.source)}};
    if (!each.until.empty()) entry["suppressed"]["until"] = json_text(each.until);
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
Json named_checks(const ReportSource& source) {
  Json result = Json::array();
  for (const NamedCheck& check : source.verdict.checks) {
    Json ids = Json::array();
    for (size_t i = 0; i < source.verdict.findings.size(); ++i) {
      const FindingCode code = source.verdict.findings[i].code;
      if (std::ranges::count(check.codes, code) > 0) ids.push_back(finding_id(i));
    }
    Json entry = {{"id", json_text(check.id)}};
    if (check.codes.size() == 1) entry["code"] = info(check.codes.front()).code;
    entry["title"] = json_text(check.title);
    entry["status"] = to_string(check.status);
    entry["text"] = json_text(check.text);
    entry["findings"] = std::move(ids);
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace

Json checks_section(const ReportSource& source) {
  if (!source.verdict.checks.empty()) return named_checks(source);
  const std::string& probe = source.recording.header.invocation.probe;
  const bool is_complete = source.verdict.gaps.empty() && !source.recording.runs.empty();
  Json result = Json::array();
  for (const FindingInfo& registered : all_findings()) {
    Json ids = Json::array();
    std::optional<Severity> worst;
    for (size_t i = 0; i < source.verdict.findings.size(); ++i) {
      const Finding& finding = source.verdict.findings[i];
      if (finding.code != registered.id) continue;
      worst = std::max(worst.value_or(finding.severity), finding.severity);
      ids.push_back(finding_id(i));
    }
    if (!was_looked_for(registered, source) && ids.empty()) continue;
    Json entry = {{"id", fmt::format("{}.{}", probe_of(registered.code, probe), registered.name)},
                  {"code", registered.code},
                  {"title", registered.title},
                  {"status", status_of(worst, is_complete)},
                  {"findings", std::move(ids)}};
    const auto set_aside = std::ranges::find_if(
        source.suppressed,
        [&](const SuppressedFinding& each) { return each.finding.code == registered.id; });
    if (!worst && set_aside != source.suppressed.end()) {
      entry["status"] = to_string(CheckStatus::kSkipped);
      entry["text"] = json_text("suppressed: " + set_aside->reason);
    }
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace dlprobe
