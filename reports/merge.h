#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "reports/model/report.h"

namespace dlprobe {

/// What is asked of a merged report.
struct MergeOptions {
  std::vector<std::string> expected_hosts;  ///< those that must have said something; empty: any
  Severity fail_on = Severity::kError;
  FindingPolicy policy;  ///< for findings of all nodes together; thresholds are the nodes' own
  std::vector<std::string> argv;  ///< secrets masked
  std::string version;            ///< of dlprobe
};

/// Makes one report of the reports of many nodes. Keeps of each only what the result needs, so that
/// the number of nodes is bounded by little more than their names.
///
/// The document (kind "dlprobe.cluster-report") has the sections of a report, so that every format
/// can write it, and beside them `nodes[]`, `missing[]`, `damaged[]` and `duplicates[]`. Findings
/// with the same fingerprint are one, with the nodes that it was seen on.
class ReportMerger {
 public:
  explicit ReportMerger(MergeOptions options) : options_(std::move(options)) {}

  /// `source`: the file, for people. Of two reports of one node, rank and probe the later one
  /// counts.
  void add(const std::string& source, const Json& report);

  /// A source that is no report, and why.
  void add_damaged(const std::string& source, const std::string& why);

  /// A node is damaged or missing: incomplete (3), unless a finding fails it (1).
  Json finish() &&;

 private:
  struct Node {
    std::string name;
    std::string rank;
    std::string source;
    std::string report_id;
    std::string started_at;
    std::string ended_at;
    std::string headline;
    OverallVerdict verdict = OverallVerdict::kIncomplete;
    std::vector<std::string> fingerprints;       ///< the groups of its findings
    std::map<std::string, std::string> facts;    ///< what should be the same on every node
    std::vector<std::pair<size_t, int>> checks;  ///< index into checks_, rank of the status
  };
  struct Group {
    Json finding;  ///< as the first node has it
    std::vector<std::string> nodes;
    int severity = 0;
  };
  struct Check {
    Json entry;  ///< id, code, title
    int worst = 0;
  };

  Node digest(const std::string& source, const Json& report);
  static std::map<std::string, std::string> facts_of(const Json& report);
  void note_checks(const Json& report, Node& node);
  size_t node_count() const;  ///< a node may have several reports
  std::vector<std::string> missing() const;
  void group_findings();
  std::optional<Json> nodes_differ() const;
  Json checks_json(const std::vector<std::string>& absent) const;
  Json findings_json() const;
  Json nodes_json() const;
  std::vector<std::string> unsure() const;  ///< nodes whose own verdict is incomplete
  Json limitations_json(const std::vector<std::string>& absent,
                        const std::vector<std::string>& unsure) const;
  std::string headline(const Json& findings, const std::vector<std::string>& absent,
                       const std::vector<std::string>& unsure) const;
  Json invocation_json(const Json& findings, bool has_gap) const;
  Json node_counts_json(size_t absent) const;
  std::string id_of_all() const;

  MergeOptions options_;
  /// By name, rank and probe.
  std::map<std::tuple<std::string, std::string, std::string>, Node> nodes_;
  std::map<std::string, Json> prototypes_;      ///< findings, by group
  std::map<std::string, size_t> check_places_;  ///< by id
  std::vector<Check> checks_;
  std::map<std::string, Group> groups_;
  Json damaged_ = Json::array();
  Json duplicates_ = Json::array();
};

}  // namespace dlprobe
