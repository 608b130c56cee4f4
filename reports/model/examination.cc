#include "reports/model/examination.h"

#include <algorithm>
#include <chrono>

#include "lib/base/path_name.h"
#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/model/run_words.h"
#include "reports/model/node_limits.h"
#include "reports/model/sections.h"
#include "reports/model/stable_id.h"

namespace dlprobe {
namespace {

report::Counts count(const Verdict& verdict) {
  report::Counts counts;
  for (const Finding& finding : verdict.findings) {
    counts.error += finding.severity == Severity::kError ? 1 : 0;
    counts.warning += finding.severity == Severity::kWarning ? 1 : 0;
    counts.info += finding.severity == Severity::kInfo ? 1 : 0;
  }
  return counts;
}

bool has_seen_anything(const Recording& recording) {
  return std::ranges::any_of(recording.runs, [](const Run& run) {
    return !run.samples.empty() || !run.shm_use.empty() || !run.ledgers.empty() ||
           std::ranges::count(run.start_events, StartEventKind::kRead, &StartEvent::kind) > 0;
  });
}

// What was not made is named, those with one reason together.
Message headline_of_checks(const std::vector<NamedCheck>& checks) {
  std::vector<std::pair<const NamedCheck*, size_t>> skipped;  // the first of a reason, how many
  size_t passed = 0;
  for (const NamedCheck& check : checks) {
    if (check.status != CheckStatus::kSkipped) {
      ++passed;
      continue;
    }
    const auto alike = std::ranges::find_if(
        skipped, [&](const auto& each) { return each.first->text == check.text; });
    if (alike == skipped.end()) {
      skipped.emplace_back(&check, 1);
    } else {
      ++alike->second;
    }
  }
  Message text = counted(passed, "check") + " passed";
  for (const auto& [check, count] : skipped) {
    text += (check == skipped.front().first ? "; not checked: " : ", ") + own(check->id);
    if (count > 1) text += " and " + own(count - 1) + " more";
  }
  return text;
}

// "Healthy" is never said of what could not be seen: a gap of the probe outweighs a warning.
OverallVerdict decide(const ReportSource& source, const report::Counts& counts) {
  if (counts.error > 0) return OverallVerdict::kFail;
  const bool all_seen = has_seen_anything(source.recording) && !source.recording.truncated;
  if (!source.verdict.gaps.empty() || !all_seen) return OverallVerdict::kIncomplete;
  return counts.warning > 0 ? OverallVerdict::kWarn : OverallVerdict::kPass;
}

// What was looked at did not live until the watch was over: what is said is of the time until then.
Message words_of_early_end(const Recording& recording) {
  if (recording.runs.size() != 1) return {};
  const Run& run = recording.runs.front();
  if (!ended_during_watch(run)) return {};
  const ProcessExit* exit = run.begin.root ? run.find_exit(*run.begin.root) : nullptr;
  const BootNs ended_at = exit != nullptr ? exit->at : span_of(run).end;
  const Message how =
      exit != nullptr && exit->wait_status ? " (" + describe_exit(exit->wait_status) + ")" : "";
  const BootNs into = std::max<BootNs>(ended_at - run.begin.at, 0);
  return "the job ended " + format_duration(std::chrono::nanoseconds(into)) + " into the watch" +
         how + "; ";
}

// What was looked at, where nothing was found in it.
Message nothing_found(const ReportSource& source, OverallVerdict verdict) {
  if (verdict == OverallVerdict::kIncomplete) {
    if (source.recording.truncated && source.verdict.gaps.empty()) {
      return "the recording was cut off; until then " + source.verdict.all_well;
    }
    if (source.verdict.gaps.empty()) return "cannot tell: dlprobe could not see anything";
    const Gap& gap = source.verdict.gaps.front();
    return say("cannot tell: {} could not be checked ({})", gap.what, gap.why);
  }
  if (!source.verdict.checks.empty()) return headline_of_checks(source.verdict.checks);
  return source.verdict.tune ? Message(source.verdict.tune->headline) : source.verdict.all_well;
}

// The line of the user's program, where the message does not name it.
Message words_of_place(const Finding& finding) {
  if (finding.places.empty()) return {};
  const SourcePlace& place = finding.places.front();
  const std::string line = place.line > 0 ? ":" + std::to_string(place.line) : "";
  if (finding.message.plain().contains(std::string(base_name(place.file)) + line)) return {};
  const Message what = place.what.empty() ? Message() : " (" + place.what + ")";
  return "; at " + as_path(place.file) + own(line) + what;
}

// What is no fault, and all the same what a reader looks for, before "nothing is stuck".
Message words_of_information(const ReportSource& source) {
  if (source.verdict.findings.empty()) return {};
  const Finding& first = source.verdict.findings.front();
  if (first.severity != Severity::kInfo ||
      source.verdict.all_well.plain().contains(first.message.plain()))
    return {};
  return "but look: " + own(info(first.code).code) + " " + own(info(first.code).name) + ": " +
         first.message + words_of_place(first) + "; otherwise ";
}

Message headline(const ReportSource& source, OverallVerdict verdict) {
  const std::vector<Finding>& findings = source.verdict.findings;
  const auto worst = std::ranges::max_element(findings, {}, &Finding::severity);
  const bool is_worth_a_headline = worst != findings.end() && worst->severity != Severity::kInfo;
  if (!is_worth_a_headline)
    return words_of_early_end(source.recording) + words_of_information(source) +
           nothing_found(source, verdict);
  const bool is_incomplete = verdict == OverallVerdict::kIncomplete;
  // The wait in which a job stands is in front of what others left on the machine.
  const bool is_of_others = worst->severity == Severity::kWarning && worst->processes.empty();
  const Finding& told = is_of_others ? findings.front() : *worst;
  return (is_incomplete ? words_of_early_end(source.recording) : Message()) +
         own(info(told.code).code) + " " + own(info(told.code).name) + ": " + told.message +
         words_of_place(told);
}

int exit_code(OverallVerdict verdict, const report::Counts& counts, Severity fail_on) {
  size_t failing = counts.error;
  if (fail_on <= Severity::kWarning) failing += counts.warning;
  if (fail_on <= Severity::kInfo) failing += counts.info;
  if (failing > 0) return 1;
  return verdict == OverallVerdict::kIncomplete ? 3 : 0;
}

report::Invocation invocation_section(const ReportSource& source, const ReportContext& context,
                                      int code) {
  const RecordingHeader& header = source.recording.header;
  BootNs end = header.boottime_ns;
  for (const Run& run : source.recording.runs)
    end = std::max(end, span_of(run).end);
  return {.probe = header.invocation.probe,
          .argv = header.invocation.argv,
          .euid = header.invocation.euid,
          .working_folder = report::if_any(header.invocation.working_folder),
          .interval_s = static_cast<double>(header.invocation.interval_ns) / 1e9,
          .started = source.time.moment(header.boottime_ns),
          .ended = source.time.moment(end),
          .duration_s = seconds_between(header.boottime_ns, end),
          .settings = report::if_any(context.settings),
          .fail_on = context.fail_on,
          .exit_code = {code}};
}

report::Host host_section(const Recording& recording) {
  const HostFacts& host = recording.header.host;
  return {.name = host.name,
          .node = report::if_any(host.node),
          .kernel = host.kernel,
          .os = host.os,
          .machine = host.machine,
          .cpus = as_count(host.cpus),
          .page_size_bytes = host.page_size,
          .limits = report::if_any(node_limits(recording))};
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

report::Context context_section(const Recording& recording) {
  const HostFacts& host = recording.header.host;
  report::Context section;
  section.container = host.container;
  section.job_id = report::if_any(host.job_id);
  section.rank = report::if_any(host.rank);
  if (recording.runs.empty()) return section;
  const Run& run = recording.runs.back();
  if (const ProcessInfo* trainer = trainer_of(run); trainer != nullptr && trainer->cgroup) {
    section.cgroup = *trainer->cgroup;
  }
  if (const CgroupMemory* memory = last_cgroup_memory(run)) {
    section.cgroup_version = {memory->version};
    section.cgroup_limit_bytes = memory->limit_bytes;
    section.cgroup_used_bytes = memory->used_bytes;
  }
  return section;
}

report::Subject subject_section(const Recording& recording) {
  report::Subject section;
  section.kind = report::SubjectOfReport::kNone;
  if (recording.runs.empty()) return section;
  const RunBegin& begin = recording.runs.front().begin;
  section.kind = static_cast<report::SubjectOfReport>(begin.subject);
  section.asked_pid = begin.asked_pid;
  section.command = report::if_any(begin.command);
  if (const ProcessInfo* trainer = trainer_of(recording.runs.front())) {
    section.trainer_pid = trainer->key.pid;
    section.trainer_comm = trainer->comm;
  }
  return section;
}

report::Environment environment_section(const Recording& recording) {
  report::Environment section;
  for (const Run& run : recording.runs) {
    if (!run.loader) continue;
    section.libtorch = run.loader->libtorch;
    section.opencv = run.loader->opencv;
    section.device = run.loader->device;
    section.device_name = run.loader->device_name;
  }
  return section;
}

}  // namespace

report::Report examination_report(const Recording& recording, const Verdict& verdict,
                                  const ReportContext& context) {
  TreatedVerdict treated;
  const bool has_policy = !context.policy.empty();
  if (has_policy) treated = apply_policy(context.policy, recording, verdict);
  Sentences sentences;
  const ReportSource source = {.recording = recording,
                               .verdict = has_policy ? treated.verdict : verdict,
                               .time = TimeOfDay(recording.header),
                               .severity_sources = treated.severity_sources,
                               .suppressed = treated.suppressed,
                               .sentences = sentences};
  const RecordingHeader& header = recording.header;
  const report::Counts counts = count(source.verdict);
  const OverallVerdict overall = decide(source, counts);
  const int code = exit_code(overall, counts, context.fail_on);
  report::Report report;
  report.schema_version = report::VersionText(kReportSchemaVersion);
  report.report_id = report::IdText(stable_id({header.recording_id, header.invocation.probe}));
  report.tool.version = header.invocation.version;
  report.invocation = invocation_section(source, context, code);
  report.host = host_section(recording);
  report.context = context_section(recording);
  report.subject = subject_section(recording);
  report.summary = {.verdict = overall,
                    .headline = sentences.text_of(headline(source, overall)),
                    .counts = counts};
  report.checks = checks_section(source);
  report.findings = findings_section(source);
  report.suppressed = report::if_any(suppressed_section(source));
  report.tables = source.verdict.tables;
  report.runs = runs_section(source);
  if (const auto& tune = source.verdict.tune) report.tune = tune_section(*tune);
  report.ranks = report::if_any(ranks_section(source));
  report.processes = processes_section(source);
  report.wait_graph = wait_graph_section(source);
  report.timeline = timeline_section(source);
  report.environment = environment_section(recording);
  report.redaction = {.policy = "default", .mask = std::string(kMasked)};
  report.limitations = limitations_section(source);
  report.names = sentences.names();
  return report;
}

}  // namespace dlprobe
