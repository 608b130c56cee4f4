#include "reports/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/model/name_table.h"
#include "reports/sections.h"
#include "reports/stable_id.h"

namespace dlprobe {
namespace {

constexpr NameTable<OverallVerdict, 4> kVerdicts = {{
    {OverallVerdict::kPass, "pass"},
    {OverallVerdict::kWarn, "warn"},
    {OverallVerdict::kFail, "fail"},
    {OverallVerdict::kIncomplete, "incomplete"},
}};

struct Counts {
  size_t errors = 0;
  size_t warnings = 0;
  size_t infos = 0;
};

Counts count(const Verdict& verdict) {
  Counts counts;
  for (const Finding& finding : verdict.findings) {
    counts.errors += finding.severity == Severity::kError ? 1 : 0;
    counts.warnings += finding.severity == Severity::kWarning ? 1 : 0;
    counts.infos += finding.severity == Severity::kInfo ? 1 : 0;
  }
  return counts;
}

bool has_seen_anything(const Recording& recording) {
  return std::ranges::any_of(recording.runs, [](const Run& run) {
    return !run.samples.empty() || !run.shm_use.empty() || !run.ledgers.empty() ||
           (run.script && run.script->error.empty());
  });
}

std::string headline_of_checks(const std::vector<NamedCheck>& checks) {
  const auto skipped = std::ranges::count(checks, CheckStatus::kSkipped, &NamedCheck::status);
  const std::string made = counted(checks.size() - static_cast<size_t>(skipped), "check");
  return fmt::format("{} made, none failed{}", made,
                     skipped == 0 ? "" : fmt::format("; {} skipped", skipped));
}

// "Healthy" is never said of what could not be seen: a gap of the probe outweighs a warning.
OverallVerdict decide(const ReportSource& source, const Counts& counts) {
  if (counts.errors > 0) return OverallVerdict::kFail;
  const bool all_seen = has_seen_anything(source.recording) && !source.recording.truncated;
  if (!source.verdict.gaps.empty() || !all_seen) return OverallVerdict::kIncomplete;
  return counts.warnings > 0 ? OverallVerdict::kWarn : OverallVerdict::kPass;
}

std::string headline(const ReportSource& source, OverallVerdict verdict) {
  const std::vector<Finding>& findings = source.verdict.findings;
  if (verdict == OverallVerdict::kIncomplete) {
    if (source.recording.truncated && source.verdict.gaps.empty()) {
      return "the recording was cut off; up to then " + pass_headline(source.recording);
    }
    if (source.verdict.gaps.empty()) return "nothing could be seen, so nothing can be said";
    const Gap& gap = source.verdict.gaps.front();
    return fmt::format("cannot say: {} could not be looked at ({})", gap.what, gap.why);
  }
  const auto worst = std::ranges::max_element(findings, {}, &Finding::severity);
  const bool is_worth_a_headline = worst != findings.end() && worst->severity != Severity::kInfo;
  if (!is_worth_a_headline && !source.verdict.checks.empty())
    return headline_of_checks(source.verdict.checks);
  if (!is_worth_a_headline) {
    return source.verdict.tune ? source.verdict.tune->headline : pass_headline(source.recording);
  }
  return fmt::format("{} {}: {}", info(worst->code).code, info(worst->code).name, worst->message);
}

int exit_code(OverallVerdict verdict, const Counts& counts, Severity fail_on) {
  size_t failing = counts.errors;
  if (fail_on <= Severity::kWarning) failing += counts.warnings;
  if (fail_on <= Severity::kInfo) failing += counts.infos;
  if (failing > 0) return 1;
  return verdict == OverallVerdict::kIncomplete ? 3 : 0;
}

Json summary_section(const ReportSource& source, OverallVerdict verdict, const Counts& counts) {
  return {
      {"verdict", to_string(verdict)},
      {"headline", json_text(headline(source, verdict))},
      {"counts", {{"error", counts.errors}, {"warning", counts.warnings}, {"info", counts.infos}}}};
}

Json invocation_section(const ReportSource& source, const ReportContext& context, int code) {
  const RecordingHeader& header = source.recording.header;
  Json section = {{"probe", json_text(header.invocation.probe)},
                  {"argv", json_texts(header.invocation.argv)},
                  {"euid", header.invocation.euid}};
  if (!header.invocation.working_folder.empty())
    section["working_folder"] = json_text(header.invocation.working_folder);
  put_number(section, "interval_s", static_cast<double>(header.invocation.interval_ns) / 1e9);
  BootNs end = header.boottime_ns;
  for (const Run& run : source.recording.runs)
    end = std::max(end, span_of(run).end);
  source.time.put(section, "started", header.boottime_ns);
  source.time.put(section, "ended", end);
  put_number(section, "duration_s", seconds_between(header.boottime_ns, end));
  for (const SettingFromElsewhere& setting : context.settings) {
    section["settings"].push_back({{"name", json_text(setting.name)},
                                   {"value", json_text(setting.value)},
                                   {"source", json_text(setting.source)}});
  }
  section["fail_on"] = to_string(context.fail_on);
  section["exit_code"] = code;
  return section;
}

Json host_section(const HostFacts& host) {
  Json section = {{"name", json_text(host.name)}};
  if (!host.node.empty()) section["node"] = json_text(host.node);
  section["kernel"] = json_text(host.kernel);
  section["os"] = json_text(host.os);
  section["machine"] = json_text(host.machine);
  section["cpus"] = host.cpus;
  section["page_size_bytes"] = host.page_size;
  return section;
}

const ProcessInfo* trainer_of(const Run& run) {
  const auto found = std::ranges::find(run.processes, Role::kTrainer, &ProcessInfo::role);
  return found == run.processes.end() ? nullptr : &*found;
}

const CgroupMemory* last_cgroup_memory(const Run& run) {
  const CgroupMemory* last = nullptr;
  for (const Sample& sample : run.samples) {
    if (sample.cgroup && *sample.cgroup) last = &**sample.cgroup;
  }
  return last;
}

Json context_section(const Recording& recording) {
  const HostFacts& host = recording.header.host;
  Json section = {{"container", json_text(host.container)}};
  if (!host.job_id.empty()) section["job_id"] = json_text(host.job_id);
  if (!host.rank.empty()) section["rank"] = json_text(host.rank);
  if (recording.runs.empty()) return section;
  const Run& run = recording.runs.back();
  if (const ProcessInfo* trainer = trainer_of(run); trainer != nullptr && trainer->cgroup) {
    section["cgroup"] = json_text(*trainer->cgroup);
  }
  if (const CgroupMemory* memory = last_cgroup_memory(run)) {
    section["cgroup_version"] = memory->version;
    if (memory->limit_bytes) section["cgroup_limit_bytes"] = *memory->limit_bytes;
    section["cgroup_used_bytes"] = memory->used_bytes;
  }
  return section;
}

Json subject_section(const Recording& recording) {
  Json section = Json::object();
  if (recording.runs.empty()) return {{"kind", "none"}};
  const RunBegin& begin = recording.runs.front().begin;
  section["kind"] = to_string(begin.subject);
  if (begin.asked_pid) section["asked_pid"] = *begin.asked_pid;
  if (!begin.command.empty()) section["command"] = json_texts(begin.command);
  if (const ProcessInfo* trainer = trainer_of(recording.runs.front())) {
    section["trainer_pid"] = trainer->key.pid;
    section["trainer_comm"] = json_text(trainer->comm);
  }
  return section;
}

Json environment_section(const Recording& recording) {
  Json section = Json::object();
  for (const Run& run : recording.runs) {
    if (!run.loader) continue;
    section["libtorch"] = json_text(run.loader->libtorch);
    section["opencv"] = json_text(run.loader->opencv);
    section["device"] = json_text(run.loader->device);
    section["device_name"] = json_text(run.loader->device_name);
  }
  return section;
}

// report[section][key], or null: a report that was read from a file may hold anything.
const Json* member_of(const Json& report, const char* section, const char* key) {
  const auto object = report.find(section);
  if (object == report.end() || !object->is_object()) return nullptr;
  const auto member = object->find(key);
  return member == object->end() ? nullptr : &*member;
}

}  // namespace

std::string_view to_string(OverallVerdict verdict) {
  return name_of(kVerdicts, verdict);
}

Json make_report(const Recording& recording, const Verdict& verdict, const ReportContext& context) {
  TreatedVerdict treated;
  const bool has_policy = !context.policy.empty();
  if (has_policy) treated = apply_policy(context.policy, recording, verdict);
  const ReportSource source = {.recording = recording,
                               .verdict = has_policy ? treated.verdict : verdict,
                               .time = TimeOfDay(recording.header),
                               .severity_sources = treated.severity_sources,
                               .suppressed = treated.suppressed};
  const RecordingHeader& header = recording.header;
  const Counts counts = count(source.verdict);
  const OverallVerdict overall = decide(source, counts);
  const int code = exit_code(overall, counts, context.fail_on);
  Json report;
  report["kind"] = kReportKind;
  report["schema_version"] = kReportSchemaVersion;
  report["report_id"] = stable_id({header.recording_id, header.invocation.probe});
  report["tool"] = {{"name", "dlprobe"}, {"version", json_text(header.invocation.version)}};
  report["invocation"] = invocation_section(source, context, code);
  report["host"] = host_section(header.host);
  report["context"] = context_section(recording);
  report["subject"] = subject_section(recording);
  report["summary"] = summary_section(source, overall, counts);
  report["checks"] = checks_section(source);
  report["findings"] = findings_section(source);
  if (!treated.suppressed.empty()) report["suppressed"] = suppressed_section(source);
  report["runs"] = runs_section(source);
  if (const auto& tune = source.verdict.tune) report["tune"] = tune_section(*tune);
  report["processes"] = processes_section(source);
  report["wait_graph"] = wait_graph_section(source);
  report["timeline"] = timeline_section(source);
  report["environment"] = environment_section(recording);
  report["redaction"] = {{"policy", "default"}, {"mask", kMasked}};
  report["limitations"] = limitations_section(source);
  return report;
}

OverallVerdict verdict_of(const Json& report) {
  const Json* name = member_of(report, "summary", "verdict");
  if (name == nullptr || !name->is_string()) return OverallVerdict::kIncomplete;
  return value_of(kVerdicts, name->get<std::string>()).value_or(OverallVerdict::kIncomplete);
}

int exit_code_of(const Json& report) {
  const Json* code = member_of(report, "invocation", "exit_code");
  return code != nullptr && code->is_number_integer() ? code->get<int>() : 3;
}

}  // namespace dlprobe
