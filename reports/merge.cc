#include "reports/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "lib/base/host_list.h"
#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "reports/document/text_layout.h"
#include "reports/model/sections.h"
#include "reports/model/stable_id.h"
#include "reports/node_differences.h"

namespace dlprobe {
namespace {

constexpr size_t kMostGroupsNamed = 3;  ///< in the headline

// Worse ones are greater.
constexpr std::array<CheckStatus, 5> kStatuses = {CheckStatus::kSkipped, CheckStatus::kPass,
                                                  CheckStatus::kWarn, CheckStatus::kIncomplete,
                                                  CheckStatus::kFail};

OwnWords counted_nodes(size_t count) {
  return counted(count, "node");
}

// With the name of its group: a finding that a node has suppressed is another one.
template <class Visit>
void for_each_finding(const report::Report& report, Visit&& visit) {
  for (const report::Finding& finding : report.findings)
    visit(finding.fingerprint, finding);
  for (const report::Finding& finding : report::items_of(report.suppressed))
    visit("suppressed " + finding.fingerprint, finding);
}

// Whose waiting ranks it is about; empty: none.
std::string job_of(const report::Finding& finding, const std::vector<RankState>& ranks) {
  if (!is_about_waiting_ranks(finding)) return "";
  for (const report::FindingProcess& process : finding.subject.processes) {
    const auto rank = std::ranges::find_if(
        ranks, [&](const RankState& each) { return each.process.pid == process.pid; });
    if (rank == ranks.end()) continue;
    if (const auto& id = rank->id) return id->job;
  }
  return "";
}

// Empty: it is of no job whose name is known.
std::string first_job(const std::vector<RankState>& ranks) {
  for (const RankState& each : ranks)
    if (const auto& id = each.id; id && !id->job.empty()) return id->job;
  return "";
}

// What the configuration says of the finding of many nodes; rules about single nodes were theirs.
void apply_policy(const FindingPolicy& policy, std::string_view day, report::Finding& finding) {
  for (const auto& rule : policy.severities) {
    if (finding.code != info(rule.code).code) continue;
    finding.severity = rule.severity;
    finding.severity_source = rule.source;
  }
  if (finding.suppressed) return;
  for (const auto& rule : policy.suppressions) {
    const bool is_of_others = !rule.fingerprint.empty() && rule.fingerprint != finding.fingerprint;
    const bool has_ended = !rule.until.empty() && day > rule.until;
    if (finding.code != info(rule.code).code || is_of_others || has_ended || !rule.node.empty())
      continue;
    finding.suppressed = {.reason = rule.reason, .source = rule.source};
    if (!rule.until.empty()) finding.suppressed->until = report::DayText(rule.until);
    return;
  }
}

}  // namespace

void ReportMerger::add(const std::string& source, const AnyReport& any) {
  if (any.cluster)
    return add_damaged(source, "it is itself a merged report: name the nodes' reports");
  const report::Report& report = any.report;
  Node node = digest(source, report);
  // A gate's pass does not answer what a look at a job has found, nor that of another job.
  const std::string looked_at = report.invocation.probe == "attach" ? first_job(node.ranks) : "";
  const auto key =
      std::tuple(node.entry.node, node.entry.rank, report.invocation.probe + " " + looked_at);
  const auto [place, is_new] = nodes_.try_emplace(key, node);
  if (!is_new) {
    Node& kept = place->second;
    if (node.entry.started_at > kept.entry.started_at) std::swap(kept, node);
    duplicates_.push_back({.node = node.entry.node,
                           .source = node.entry.source,
                           .kept = kept.entry.source,
                           .same = node.entry.report_id == kept.entry.report_id});
  }
  for_each_finding(report, [this](const std::string& group, const report::Finding& finding) {
    const auto [known, is_first] = prototypes_.try_emplace(group, finding);
    if (!is_first && finding.severity > known->second.severity) known->second = finding;
  });
}

void ReportMerger::add_damaged(const std::string& source, const std::string& why) {
  damaged_.push_back({.source = source, .why = why});
}

ReportMerger::Node ReportMerger::digest(const std::string& source, const report::Report& report) {
  Node node;
  node.entry = {.node = report.host.node.value_or(""),
                .rank = report.context.rank,
                .verdict = report.summary.verdict,
                .headline = report.summary.headline,
                .report_id = report.report_id,
                .started_at = report.invocation.started.at.value_or(report::UtcText()),
                .source = source};
  if (node.entry.node.empty()) node.entry.node = report.host.name;
  node.ended_at = report.invocation.ended.at.value_or(report::UtcText());
  node.facts = facts_of_node(report);
  node.names = report.names;
  node.ranks = ranks_of_node(report, node.entry.node);
  for_each_finding(report, [&](const std::string& key, const report::Finding& finding) {
    node.findings.push_back({.group = key,
                             .job = job_of(finding, node.ranks),
                             .says_less = waits_for_other_nodes(finding)});
  });
  note_checks(report, node);
  return node;
}

void ReportMerger::note_checks(const report::Report& report, Node& node) {
  for (const report::Check& check : report.checks) {
    const auto [place, is_new] = check_places_.try_emplace(check.id, checks_.size());
    if (is_new) {
      checks_.emplace_back();
      checks_.back().entry.id = check.id;
      checks_.back().entry.code = check.code;
      checks_.back().entry.title = check.title;
    }
    const auto rank = std::ranges::find(kStatuses, check.status) - kStatuses.begin();
    node.checks.emplace_back(place->second, static_cast<int>(rank));
  }
}

size_t ReportMerger::node_count() const {
  std::set<std::string_view> names;
  for (const auto& [key, node] : nodes_)
    names.insert(node.entry.node);
  return names.size();
}

std::vector<std::string> ReportMerger::missing() const {
  std::set<std::string> there;
  for (const auto& [key, node] : nodes_)
    there.insert(node.entry.node);
  std::vector<std::string> absent;
  for (const std::string& host : options_.expected_hosts) {
    // "n1" and "n1.cluster.example" are the same node.
    const bool is_there = there.contains(host) || std::ranges::any_of(there, [&](const auto& name) {
                            return name.substr(0, name.find('.')) == host.substr(0, host.find('.'));
                          });
    if (!is_there) absent.push_back(host);
  }
  return absent;
}

JoinedRanks ReportMerger::joined_ranks(Sentences& sentences) const {
  std::vector<RankState> ranks;
  for (const auto& [key, node] : nodes_)
    ranks.insert(ranks.end(), node.ranks.begin(), node.ranks.end());
  return join_ranks(std::move(ranks), options_.judge_ranks, sentences);
}

void ReportMerger::group_findings(const JoinedRanks& ranks) {
  for (const auto& [key, node] : nodes_) {
    for (const auto& [place, rank] : node.checks)
      checks_[place].worst = std::max(checks_[place].worst, rank);
    for (const Seen& seen : node.findings) {
      // The look at all nodes knows better what ranks wait for.
      if (ranks.judged.contains(seen.job) || (seen.says_less && ranks.joined.contains(seen.job)))
        continue;
      Group& group = groups_[seen.group];
      if (group.nodes.empty()) group.finding = prototypes_.at(seen.group);
      if (group.nodes.empty() || group.nodes.back() != node.entry.node)
        group.nodes.push_back(node.entry.node);
    }
  }
}

std::vector<NodeDifference> ReportMerger::differences() const {
  NodeComparison comparison;
  for (const auto& [key, node] : nodes_)
    comparison.add(node.entry.node, node.facts);
  return comparison.differences();
}

std::vector<report::Check> ReportMerger::checks(const std::vector<std::string>& absent) const {
  std::vector<report::Check> result;
  for (const Check& check : checks_) {
    result.push_back(check.entry);
    result.back().status = kStatuses.at(static_cast<size_t>(check.worst));
  }
  const auto add = [&result](std::string id, std::string_view title, CheckStatus status) {
    report::Check& check = result.emplace_back();
    check.id = "cluster." + std::move(id);
    check.title = title;
    check.status = status;
  };
  const auto status_if = [](bool is_whole) {
    return is_whole ? CheckStatus::kPass : CheckStatus::kIncomplete;
  };
  const FindingInfo& differ = info(FindingCode::kNodesDiffer);
  add(std::string(differ.name), differ.title,
      node_count() < 2 ? CheckStatus::kSkipped : CheckStatus::kPass);
  result.back().code = report::CodeText(differ.code);
  if (!options_.expected_hosts.empty()) {
    add("every-node-reported", "Every expected node sent a report", status_if(absent.empty()));
  }
  add("reports-readable", "Every report can be read", status_if(damaged_.empty()));
  return result;
}

std::vector<report::Finding> ReportMerger::findings(const Findings& of_ranks) const {
  Findings result = of_ranks;
  const std::vector<NodeDifference> differing = differences();
  for (const auto& [fingerprint, group] : groups_) {
    report::Finding& finding = result.emplace_back(group.finding);
    finding.nodes = fold_hosts(group.nodes);
    finding.occurrences = group.nodes.size();
    name_what_others_have(differing, group.nodes, finding);
  }
  // What explains why a job stands comes first, and then that it does.
  const auto place_of = [&](const report::Finding& finding) {
    const auto is_its_cause = [&](const auto& each) { return each.consequence_of == finding.code; };
    if (std::ranges::any_of(of_ranks, is_its_cause)) return 2;
    return std::ranges::count(of_ranks, finding.fingerprint, &report::Finding::fingerprint) > 0 ? 1
                                                                                                : 0;
  };
  std::ranges::stable_sort(result, std::ranges::greater{}, [&](const report::Finding& finding) {
    // What others have left on a machine is behind all that a job does.
    const bool is_of_job = !finding.subject.processes.empty();
    return std::tuple(finding.severity, place_of(finding), is_of_job, finding.occurrences);
  });
  if (!differing.empty()) result.push_back(finding_of_differences(differing));
  std::string day;
  for (const auto& [key, node] : nodes_)
    day = std::max(day, node.entry.started_at.substr(0, 10));
  for (report::Finding& finding : result)
    apply_policy(options_.policy, day, finding);
  return result;
}

namespace {

// "38 nodes: DLP0101 shm-too-small; 1 node: DLP0103 shm-stale-files". What stands first of a job's
// ranks is said in full.
std::string groups_text(const std::vector<report::Finding>& findings, const std::string& of_ranks) {
  std::string text;
  size_t named = 0;
  size_t more = 0;
  for (const report::Finding& finding : findings) {
    const uint64_t nodes = finding.occurrences.value_or(0);
    if (nodes == 0 || finding.severity == Severity::kInfo) continue;
    if (named == kMostGroupsNamed) {
      ++more;
      continue;
    }
    ++named;
    if (!text.empty()) text += "; ";
    if (finding.fingerprint == of_ranks) {
      text += fmt::format("{} {}: {}", finding.code, finding.name, finding.message);
    } else {
      text += fmt::format("{}: {} {}", counted_nodes(nodes), finding.code, finding.name);
    }
  }
  if (more > 0) text += fmt::format("; and {} more findings", more);
  return text;
}

void link_checks(std::vector<report::Check>& checks, const std::vector<report::Finding>& findings) {
  for (report::Check& check : checks) {
    for (const report::Finding& finding : findings) {
      if (check.code != finding.code) continue;
      check.findings.push_back(finding.id);
      if (finding.code != info(FindingCode::kNodesDiffer).code) continue;
      constexpr std::array kBySeverity = {CheckStatus::kPass, CheckStatus::kWarn,
                                          CheckStatus::kFail};
      check.status = kBySeverity.at(static_cast<size_t>(finding.severity));
    }
  }
}

report::Counts severity_counts(const std::vector<report::Finding>& findings) {
  const auto count = [&findings](Severity severity) {
    return static_cast<uint64_t>(
        std::ranges::count(findings, severity, &report::Finding::severity));
  };
  return {.error = count(Severity::kError),
          .warning = count(Severity::kWarning),
          .info = count(Severity::kInfo)};
}

OverallVerdict verdict_of_cluster(const report::Counts& counts, bool has_gap) {
  if (counts.error > 0) return OverallVerdict::kFail;
  if (has_gap) return OverallVerdict::kIncomplete;
  return counts.warning > 0 ? OverallVerdict::kWarn : OverallVerdict::kPass;
}

}  // namespace

std::vector<std::string> ReportMerger::unsure() const {
  std::vector<std::string> names;
  for (const auto& [key, node] : nodes_) {
    if (node.entry.verdict == OverallVerdict::kIncomplete) names.push_back(node.entry.node);
  }
  return names;
}

std::vector<report::Limitation> ReportMerger::limitations(const std::vector<std::string>& absent,
                                                          const std::vector<std::string>& unsure,
                                                          const std::vector<Gap>& of_ranks,
                                                          Sentences& sentences) const {
  std::vector<report::Limitation> limitations;
  const auto add = [&](const Gap& gap) {
    limitations.push_back({.gap = sentences.texts_of(gap), .required = true});
  };
  if (!absent.empty()) {
    add({.what = as_host(fold_hosts(absent)),
         .why = "no report of " + counted_nodes(absent.size()),
         .effect = "dlprobe cannot judge them"});
  }
  for (const report::Damaged& each : damaged_)
    add({.what = as_path(each.source),
         .why = as_text(each.why),
         .effect = "its node sent no report"});
  if (!unsure.empty()) {
    add({.what = as_host(fold_hosts(unsure)),
         .why = "their own reports are incomplete",
         .effect = "dlprobe cannot judge what they could not check"});
  }
  std::ranges::for_each(of_ranks, add);
  return limitations;
}

std::string ReportMerger::headline(const Findings& findings, const std::vector<std::string>& absent,
                                   const std::vector<std::string>& unsure,
                                   const Findings& of_ranks) const {
  const std::string first = of_ranks.empty() ? "" : std::string(of_ranks.front().fingerprint);
  std::string text = groups_text(findings, first);
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (!absent.empty())
    add(fmt::format("no report of {}: {}", counted_nodes(absent.size()), fold_hosts(absent)));
  if (!damaged_.empty()) add(counted(damaged_.size(), "damaged report"));
  if (!unsure.empty()) add(counted_nodes(unsure.size()) + " could not tell");
  return text.empty() ? "nothing wrong on " + counted_nodes(node_count()) : text;
}

report::ClusterInvocation ReportMerger::invocation(const Findings& findings, bool has_gap) const {
  std::string started;
  std::string ended;
  for (const auto& [key, node] : nodes_) {
    if (started.empty() || node.entry.started_at < started) started = node.entry.started_at;
    ended = std::max(ended, node.ended_at);
  }
  const bool fails = std::ranges::any_of(findings, [this](const report::Finding& finding) {
    return finding.severity >= options_.fail_on;
  });
  const int without_failure = has_gap ? 3 : 0;
  report::ClusterInvocation invocation;
  invocation.argv = options_.argv;
  invocation.started_at = started;
  invocation.ended_at = ended;
  invocation.fail_on = options_.fail_on;
  invocation.exit_code = {fails ? 1 : without_failure};
  return invocation;
}

report::NodeCounts ReportMerger::node_counts(size_t absent) const {
  std::map<OverallVerdict, uint64_t> verdicts;
  for (const auto& [key, node] : nodes_)
    ++verdicts[node.entry.verdict];
  return {.pass = verdicts[OverallVerdict::kPass],
          .warn = verdicts[OverallVerdict::kWarn],
          .fail = verdicts[OverallVerdict::kFail],
          .incomplete = verdicts[OverallVerdict::kIncomplete],
          .missing = absent,
          .damaged = damaged_.size()};
}

std::string ReportMerger::id_of_all() const {
  std::string ids;
  for (const auto& [key, node] : nodes_)
    ids += node.entry.report_id + " ";
  return stable_id({"cluster", ids});
}

std::optional<std::vector<report::PastedName>> ReportMerger::names_of_all(
    Sentences sentences) const {
  for (const auto& [key, node] : nodes_) {
    if (!node.names) return std::nullopt;
    for (const report::PastedName& name : *node.names)
      sentences.add(name.kind, name.text);
  }
  return sentences.names();
}

report::Cluster ReportMerger::finish() && {
  Sentences sentences;
  JoinedRanks ranks = joined_ranks(sentences);
  group_findings(ranks);
  const std::vector<std::string> absent = missing();
  const std::vector<std::string> doubtful = unsure();
  report::Cluster report;
  Findings suppressed;
  for (report::Finding& finding : findings(ranks.findings)) {
    Findings& list = finding.suppressed ? suppressed : report.findings;
    const char letter = finding.suppressed ? 's' : 'f';
    finding.id = report::FindingIdText(fmt::format("{}{}", letter, list.size() + 1));
    list.push_back(std::move(finding));
  }
  report.suppressed = report::if_any(std::move(suppressed));
  report.checks = checks(absent);
  link_checks(report.checks, report.findings);
  report.limitations = limitations(absent, doubtful, ranks.gaps, sentences);
  report.names = names_of_all(std::move(sentences));
  const bool has_gap = !report.limitations.empty() || nodes_.empty();
  const report::Counts counts = severity_counts(report.findings);

  report.schema_version = report::VersionText(kReportSchemaVersion);
  report.report_id = report::IdText(id_of_all());
  report.tool.version = options_.version;
  report.invocation = invocation(report.findings, has_gap);
  report.host.name = counted_nodes(node_count());
  report.summary = {.verdict = verdict_of_cluster(counts, has_gap),
                    .headline = headline(report.findings, absent, doubtful, ranks.findings),
                    .counts = counts,
                    .nodes = node_counts(absent.size())};
  for (const auto& [key, node] : nodes_)
    report.nodes.push_back(node.entry);
  report.ranks = report::if_any(std::move(ranks.ranks));
  report.missing = absent;
  report.damaged = std::move(damaged_);
  report.duplicates = std::move(duplicates_);
  report.redaction = {.policy = "default", .mask = std::string(kMasked)};
  return report;
}

}  // namespace dlprobe
