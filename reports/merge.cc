#include "reports/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/host_list.h"
#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "reports/document/text_layout.h"
#include "reports/model/stable_id.h"
#include "reports/model/write_json.h"

namespace dlprobe {
namespace {

constexpr size_t kMostValues = 6;       ///< of a fact that differs
constexpr size_t kMostGroupsNamed = 3;  ///< in the headline

// Worse ones are greater.
constexpr std::array<std::string_view, 5> kStatuses = {"skipped", "pass", "warn", "incomplete",
                                                       "fail"};

int rank_of_status(std::string_view status) {
  const auto found = std::ranges::find(kStatuses, status);
  return found == kStatuses.end() ? 3 : static_cast<int>(found - kStatuses.begin());
}

int rank_of_severity(std::string_view severity) {
  return static_cast<int>(from_string<Severity>(severity).value_or(Severity::kInfo));
}

std::string node_name(const Json& report) {
  const Json& host = object_at(report, "host");
  const std::string name = raw_at(host, "node");
  return name.empty() ? raw_at(host, "name") : name;
}

void put_fact(std::map<std::string, std::string>& facts, const char* name, std::string value) {
  if (!value.empty() && value != "-") facts.emplace(name, std::move(value));
}

std::string counted_nodes(size_t count) {
  return counted(count, "node");
}

// With the name of its group: a finding that a node has suppressed is another one.
template <class Visit>
void for_each_finding(const Json& report, Visit&& visit) {
  for (const Json& finding : items_at(report, "findings"))
    visit(raw_at(finding, "fingerprint"), finding);
  for (const Json& finding : items_at(report, "suppressed"))
    visit("suppressed " + raw_at(finding, "fingerprint"), finding);
}

// What the configuration says of the finding of many nodes; rules about single nodes were theirs.
void apply_policy(const FindingPolicy& policy, std::string_view day, Json& finding) {
  const auto is_about = [&finding](FindingCode code) {
    return raw_at(finding, "code") == info(code).code;
  };
  for (const auto& rule : policy.severities) {
    if (!is_about(rule.code)) continue;
    finding["severity"] = to_string(rule.severity);
    finding["severity_source"] = json_text(rule.source);
  }
  if (finding.contains("suppressed")) return;
  for (const auto& rule : policy.suppressions) {
    const bool is_of_others =
        !rule.fingerprint.empty() && rule.fingerprint != raw_at(finding, "fingerprint");
    const bool has_ended = !rule.until.empty() && day > rule.until;
    if (!is_about(rule.code) || is_of_others || has_ended || !rule.node.empty()) continue;
    finding["suppressed"] = {{"reason", json_text(rule.reason)},
                             {"source", json_text(rule.source)}};
    if (!rule.until.empty()) finding["suppressed"]["until"] = json_text(rule.until);
    return;
  }
}

}  // namespace

void ReportMerger::add(const std::string& source, const Json& report) {
  if (raw_at(report, "kind") == kClusterReportKind)
    return add_damaged(source, "it is a merged report itself: name those of the nodes");
  Node node = digest(source, report);
  // A gate's pass does not answer what a look at a job has found.
  const auto key =
      std::tuple(node.name, node.rank, raw_at(object_at(report, "invocation"), "probe"));
  const auto [place, is_new] = nodes_.try_emplace(key, node);
  if (!is_new) {
    Node& kept = place->second;
    const bool is_later = node.started_at > kept.started_at;
    const Node& dropped = is_later ? kept : node;
    duplicates_.push_back({{"node", json_text(node.name)},
                           {"source", json_text(dropped.source)},
                           {"kept", json_text(is_later ? node.source : kept.source)},
                           {"same", node.report_id == kept.report_id}});
    if (is_later) kept = std::move(node);
  }
  for_each_finding(report, [this](const std::string& group, const Json& finding) {
    const auto known = prototypes_.find(group);
    if (known == prototypes_.end()) {
      prototypes_.emplace(group, finding);
    } else if (rank_of_severity(raw_at(finding, "severity")) >
               rank_of_severity(raw_at(known->second, "severity"))) {
      known->second = finding;
    }
  });
}

void ReportMerger::add_damaged(const std::string& source, const std::string& why) {
  damaged_.push_back({{"source", json_text(source)}, {"why", json_text(why)}});
}

ReportMerger::Node ReportMerger::digest(const std::string& source, const Json& report) {
  Node node{.name = node_name(report),
            .rank = raw_at(object_at(report, "context"), "rank"),
            .source = source,
            .report_id = raw_at(report, "report_id"),
            .started_at = raw_at(object_at(report, "invocation"), "started_at"),
            .ended_at = raw_at(object_at(report, "invocation"), "ended_at"),
            .headline = raw_at(object_at(report, "summary"), "headline"),
            .verdict = verdict_of(report),
            .fingerprints = {},
            .facts = facts_of(report),
            .checks = {}};
  for_each_finding(report, [&node](const std::string& key, const Json& /*finding*/) {
    node.fingerprints.push_back(key);
  });
  note_checks(report, node);
  return node;
}

std::map<std::string, std::string> ReportMerger::facts_of(const Json& report) {
  std::map<std::string, std::string> facts;
  const Json& host = object_at(report, "host");
  put_fact(facts, "dlprobe version", raw_at(object_at(report, "tool"), "version"));
  put_fact(facts, "kernel", raw_at(host, "kernel"));
  put_fact(facts, "operating system", raw_at(host, "os"));
  put_fact(facts, "machine", raw_at(host, "machine"));
  const int64_t cpus = integer_at(host, "cpus");
  if (cpus > 0) put_fact(facts, "usable CPUs", std::to_string(cpus));
  const Json& context = object_at(report, "context");
  put_fact(facts, "container", raw_at(context, "container"));
  put_fact(facts, "memory limit of the cgroup", bytes_at(context, "cgroup_limit_bytes"));
  for (const auto& [key, value] : object_at(report, "environment").items()) {
    if (value.is_string()) put_fact(facts, key.c_str(), value.get<std::string>());
  }
  const Json& runs = items_at(report, "runs");
  if (runs.empty()) return facts;
  for (const Json& mount : items_at(runs.back(), "shm_mounts")) {
    if (raw_at(mount, "mount_point") != "/dev/shm") continue;
    put_fact(facts, "size of /dev/shm", bytes_at(mount, "size_bytes"));
    put_fact(facts, "file system of /dev/shm", raw_at(mount, "fs_type"));
  }
  return facts;
}

void ReportMerger::note_checks(const Json& report, Node& node) {
  for (const Json& check : items_at(report, "checks")) {
    const std::string id = raw_at(check, "id");
    const auto [place, is_new] = check_places_.try_emplace(id, checks_.size());
    if (is_new) {
      Json entry = {{"id", id}};
      if (check.contains("code")) entry["code"] = check["code"];
      entry["title"] = raw_at(check, "title");
      checks_.push_back({.entry = std::move(entry), .worst = 0});
    }
    node.checks.emplace_back(place->second, rank_of_status(raw_at(check, "status")));
  }
}

size_t ReportMerger::node_count() const {
  std::set<std::string_view> names;
  for (const auto& [key, node] : nodes_)
    names.insert(node.name);
  return names.size();
}

std::vector<std::string> ReportMerger::missing() const {
  std::set<std::string> there;
  for (const auto& [key, node] : nodes_)
    there.insert(node.name);
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

void ReportMerger::group_findings() {
  for (const auto& [key, node] : nodes_) {
    for (const auto& [place, rank] : node.checks)
      checks_[place].worst = std::max(checks_[place].worst, rank);
    for (const std::string& fingerprint : node.fingerprints) {
      Group& group = groups_[fingerprint];
      if (group.nodes.empty()) {
        group.finding = prototypes_.at(fingerprint);
        group.severity = rank_of_severity(raw_at(group.finding, "severity"));
      }
      if (group.nodes.empty() || group.nodes.back() != node.name) group.nodes.push_back(node.name);
    }
  }
}

namespace {

using NodesByValue = std::map<std::string, std::vector<std::string>>;

// "4.0 GiB on 38 nodes; 64.0 MiB on n7": the most common value first, its nodes counted.
std::string differing_values(const NodesByValue& by_value) {
  std::vector<const NodesByValue::value_type*> sorted;
  sorted.reserve(by_value.size());
  for (const auto& each : by_value)
    sorted.push_back(&each);
  std::ranges::stable_sort(
      sorted, [](const auto* a, const auto* b) { return a->second.size() > b->second.size(); });
  std::string text;
  for (size_t i = 0; i < sorted.size() && i < kMostValues; ++i) {
    const auto& [value, nodes] = *sorted[i];
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", value,
                        i == 0 ? counted_nodes(nodes.size()) : fold_hosts(nodes));
  }
  if (sorted.size() > kMostValues)
    text += fmt::format("; and {} other values", sorted.size() - kMostValues);
  return text;
}

}  // namespace

std::optional<Json> ReportMerger::nodes_differ() const {
  std::map<std::string, NodesByValue> values;
  for (const auto& [key, node] : nodes_) {
    for (const auto& [fact, value] : node.facts)
      values[fact][value].push_back(node.name);
  }
  Json evidence = Json::array();
  std::string differing;
  for (const auto& [fact, by_value] : values) {
    if (by_value.size() < 2) continue;
    differing += (differing.empty() ? "" : ", ") + fact;
    evidence.push_back({{"name", json_text(fact)},
                        {"value", json_text(differing_values(by_value))},
                        {"unit", ""},
                        {"source", "the nodes' reports"}});
  }
  if (evidence.empty()) return std::nullopt;
  const FindingInfo& registered = info(FindingCode::kNodesDiffer);
  return Json{{"id", ""},
              {"code", registered.code},
              {"name", registered.name},
              {"title", registered.title},
              {"severity", to_string(registered.severity)},
              {"confidence", "certain"},
              {"message", json_text("the nodes differ in: " + differing)},
              {"fingerprint", "v1:" + stable_id({registered.code, "cluster", ""})},
              {"runs", Json::array()},
              {"subject", {{"processes", Json::array()}}},
              {"evidence", std::move(evidence)},
              {"alternatives", Json::array()},
              {"remediation",
               Json::array({{{"title",
                              "Give every node of a job the same limits, mounts and versions, "
                              "or keep those that differ out of one job"},
                             {"commands", Json::array()},
                             {"applies_to", Json::array()},
                             {"verify", "srun dlprobe gate -f json=out/%h.json"}}})},
              {"references", {{{"title", fmt::format("dlprobe explain {}", registered.code)}}}}};
}

Json ReportMerger::checks_json(const std::vector<std::string>& absent) const {
  Json result = Json::array();
  for (const Check& check : checks_) {
    Json entry = check.entry;
    entry["status"] = kStatuses.at(static_cast<size_t>(check.worst));
    entry["findings"] = Json::array();
    result.push_back(std::move(entry));
  }
  const FindingInfo& differ = info(FindingCode::kNodesDiffer);
  result.push_back({{"id", fmt::format("cluster.{}", differ.name)},
                    {"code", differ.code},
                    {"title", differ.title},
                    {"status", node_count() < 2 ? "skipped" : "pass"},
                    {"findings", Json::array()}});
  if (!options_.expected_hosts.empty()) {
    result.push_back({{"id", "cluster.every-node-reported"},
                      {"title", "Every node that was expected has said something"},
                      {"status", absent.empty() ? "pass" : "incomplete"},
                      {"findings", Json::array()}});
  }
  result.push_back({{"id", "cluster.reports-readable"},
                    {"title", "Every report can be read"},
                    {"status", damaged_.empty() ? "pass" : "incomplete"},
                    {"findings", Json::array()}});
  return result;
}

Json ReportMerger::findings_json() const {
  std::vector<const Group*> order;
  order.reserve(groups_.size());
  for (const auto& [fingerprint, group] : groups_)
    order.push_back(&group);
  std::ranges::stable_sort(order, [](const Group* a, const Group* b) {
    return std::pair(a->severity, a->nodes.size()) > std::pair(b->severity, b->nodes.size());
  });
  Json result = Json::array();
  for (const Group* group : order) {
    Json finding = group->finding;
    finding["nodes"] = json_text(fold_hosts(group->nodes));
    finding["occurrences"] = group->nodes.size();
    result.push_back(std::move(finding));
  }
  if (auto differ = nodes_differ()) result.push_back(std::move(*differ));
  std::string day;
  for (const auto& [key, node] : nodes_)
    day = std::max(day, node.started_at.substr(0, 10));
  for (Json& finding : result)
    apply_policy(options_.policy, day, finding);
  return result;
}

Json ReportMerger::nodes_json() const {
  Json result = Json::array();
  for (const auto& [key, node] : nodes_) {
    Json entry = {{"node", json_text(node.name)}};
    if (!node.rank.empty()) entry["rank"] = json_text(node.rank);
    entry["verdict"] = to_string(node.verdict);
    entry["headline"] = json_text(node.headline);
    entry["report_id"] = json_text(node.report_id);
    entry["started_at"] = json_text(node.started_at);
    entry["source"] = json_text(node.source);
    result.push_back(std::move(entry));
  }
  return result;
}

namespace {

// "38 nodes: DLP0101 shm-too-small; 1 node: DLP0103 shm-stale-files".
std::string groups_text(const Json& findings) {
  std::string text;
  size_t named = 0;
  size_t more = 0;
  for (const Json& finding : findings) {
    const int64_t count = integer_at(finding, "occurrences");
    if (count == 0 || raw_at(finding, "severity") == "info") continue;
    if (named == kMostGroupsNamed) {
      ++more;
      continue;
    }
    ++named;
    text += fmt::format("{}{}: {} {}", text.empty() ? "" : "; ",
                        counted_nodes(static_cast<size_t>(count)), raw_at(finding, "code"),
                        raw_at(finding, "name"));
  }
  if (more > 0) text += fmt::format("; and {} more findings", more);
  return text;
}

Json gap(const std::string& what, const std::string& why, const std::string& effect) {
  return {{"what", json_text(what)},
          {"why", json_text(why)},
          {"effect", json_text(effect)},
          {"remedy", ""},
          {"required", true}};
}

void link_checks(Json& checks, const Json& findings) {
  for (Json& check : checks) {
    const std::string code = raw_at(check, "code");
    for (const Json& finding : findings) {
      if (code.empty() || raw_at(finding, "code") != code) continue;
      check["findings"].push_back(finding["id"]);
      if (code != info(FindingCode::kNodesDiffer).code) continue;
      constexpr std::array<std::string_view, 3> kBySeverity = {"pass", "warn", "fail"};
      check["status"] =
          kBySeverity.at(static_cast<size_t>(rank_of_severity(raw_at(finding, "severity"))));
    }
  }
}

std::map<std::string, size_t> severity_counts(const Json& findings) {
  std::map<std::string, size_t> counts = {{"error", 0}, {"warning", 0}, {"info", 0}};
  for (const Json& finding : findings)
    ++counts[raw_at(finding, "severity")];
  return counts;
}

OverallVerdict verdict_of_cluster(const std::map<std::string, size_t>& counts, bool has_gap) {
  if (counts.at("error") > 0) return OverallVerdict::kFail;
  if (has_gap) return OverallVerdict::kIncomplete;
  return counts.at("warning") > 0 ? OverallVerdict::kWarn : OverallVerdict::kPass;
}

}  // namespace

std::vector<std::string> ReportMerger::unsure() const {
  std::vector<std::string> names;
  for (const auto& [key, node] : nodes_) {
    if (node.verdict == OverallVerdict::kIncomplete) names.push_back(node.name);
  }
  return names;
}

Json ReportMerger::limitations_json(const std::vector<std::string>& absent,
                                    const std::vector<std::string>& unsure) const {
  Json limitations = Json::array();
  if (!absent.empty()) {
    limitations.push_back(gap(fold_hosts(absent), "no report of " + counted_nodes(absent.size()),
                              "nothing can be said of them"));
  }
  for (const Json& each : damaged_)
    limitations.push_back(
        gap(raw_at(each, "source"), raw_at(each, "why"), "its node has said nothing"));
  if (!unsure.empty()) {
    limitations.push_back(gap(fold_hosts(unsure), "their own reports are incomplete",
                              "nothing is sure of what they could not check"));
  }
  return limitations;
}

std::string ReportMerger::headline(const Json& findings, const std::vector<std::string>& absent,
                                   const std::vector<std::string>& unsure) const {
  std::string text = groups_text(findings);
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (!absent.empty())
    add(fmt::format("no report of {}: {}", counted_nodes(absent.size()), fold_hosts(absent)));
  if (!damaged_.empty()) add(counted(damaged_.size(), "damaged report"));
  if (!unsure.empty()) add(counted_nodes(unsure.size()) + " could not tell");
  return text.empty() ? "nothing wrong on " + counted_nodes(node_count()) : text;
}

Json ReportMerger::invocation_json(const Json& findings, bool has_gap) const {
  std::string started;
  std::string ended;
  for (const auto& [key, node] : nodes_) {
    if (started.empty() || node.started_at < started) started = node.started_at;
    ended = std::max(ended, node.ended_at);
  }
  const bool fails = std::ranges::any_of(findings, [this](const Json& finding) {
    return rank_of_severity(raw_at(finding, "severity")) >= static_cast<int>(options_.fail_on);
  });
  const int without_failure = has_gap ? 3 : 0;
  return {{"probe", "merge"},
          {"argv", json_texts(options_.argv)},
          {"started_at", json_text(started)},
          {"ended_at", json_text(ended)},
          {"fail_on", to_string(options_.fail_on)},
          {"exit_code", fails ? 1 : without_failure}};
}

Json ReportMerger::node_counts_json(size_t absent) const {
  std::map<OverallVerdict, size_t> verdicts;
  for (const auto& [key, node] : nodes_)
    ++verdicts[node.verdict];
  return {{"pass", verdicts[OverallVerdict::kPass]},
          {"warn", verdicts[OverallVerdict::kWarn]},
          {"fail", verdicts[OverallVerdict::kFail]},
          {"incomplete", verdicts[OverallVerdict::kIncomplete]},
          {"missing", absent},
          {"damaged", damaged_.size()}};
}

std::string ReportMerger::id_of_all() const {
  std::string ids;
  for (const auto& [key, node] : nodes_)
    ids += node.report_id + " ";
  return stable_id({"cluster", ids});
}

Json ReportMerger::finish() && {
  group_findings();
  const std::vector<std::string> absent = missing();
  const std::vector<std::string> doubtful = unsure();
  Json suppressed = Json::array();
  Json findings = Json::array();
  Json all = findings_json();
  for (Json& finding : all) {
    Json& list = finding.contains("suppressed") ? suppressed : findings;
    finding["id"] = fmt::format("{}{}", &list == &findings ? 'f' : 's', list.size() + 1);
    list.push_back(std::move(finding));
  }
  Json checks = checks_json(absent);
  link_checks(checks, findings);
  Json limitations = limitations_json(absent, doubtful);
  const bool has_gap = !limitations.empty() || nodes_.empty();
  const std::map<std::string, size_t> counts = severity_counts(findings);

  Json report;
  report["kind"] = kClusterReportKind;
  report["schema_version"] = kReportSchemaVersion;
  report["report_id"] = id_of_all();
  report["tool"] = {{"name", "dlprobe"}, {"version", json_text(options_.version)}};
  report["invocation"] = invocation_json(findings, has_gap);
  report["host"] = {{"name", counted_nodes(node_count())}};
  report["context"] = Json::object();
  report["subject"] = {{"kind", "cluster"}};
  report["summary"] = {{"verdict", to_string(verdict_of_cluster(counts, has_gap))},
                       {"headline", json_text(headline(findings, absent, doubtful))},
                       {"counts",
                        {{"error", counts.at("error")},
                         {"warning", counts.at("warning")},
                         {"info", counts.at("info")}}},
                       {"nodes", node_counts_json(absent.size())}};
  report["checks"] = std::move(checks);
  report["findings"] = std::move(findings);
  if (!suppressed.empty()) report["suppressed"] = std::move(suppressed);
  report["nodes"] = nodes_json();
  report["missing"] = json_texts(absent);
  report["damaged"] = std::move(damaged_);
  report["duplicates"] = std::move(duplicates_);
  report["runs"] = Json::array();
  report["processes"] = Json::array();
  report["timeline"] = Json::object();
  report["redaction"] = {{"policy", "default"}, {"mask", kMasked}};
  report["limitations"] = std::move(limitations);
  return report;
}

}  // namespace dlprobe
