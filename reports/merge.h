#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "reports/join_ranks.h"
#include "reports/model/report.h"
#include "reports/node_differences.h"

namespace dlprobe {

class Sentences;

/// What is asked of a merged report.
struct MergeOptions {
  std::vector<std::string> expected_hosts;  ///< those that must have said something; empty: any
  Severity fail_on = Severity::kError;
  FindingPolicy policy;  ///< for findings of all nodes together; thresholds are the nodes' own
  std::vector<std::string> argv;  ///< secrets masked
  std::string version;            ///< of dlprobe
  JudgeRanks judge_ranks;         ///< of jobs that are on several nodes; none: each by itself
};

/// Makes one report of the reports of many nodes. Keeps of each only what the result needs, so that
/// the number of nodes is bounded by little more than their names.
///
/// The document (kind "dlprobe.cluster-report") has the sections of a report, so that every format
/// can write it, and beside them `nodes[]`, `missing[]`, `damaged[]` and `duplicates[]`. Findings
/// with the same fingerprint are one, with the nodes that it was seen on. Ranks of a job that is on
/// several nodes are judged together, instead of what each node says of those that wait.
class ReportMerger {
 public:
  explicit ReportMerger(MergeOptions options) : options_(std::move(options)) {}

  /// `source`: the file, for people. Of two reports of one node, rank and probe the later one
  /// counts.
  void add(const std::string& source, const AnyReport& any);

  /// A source that is no report, and why.
  void add_damaged(const std::string& source, const std::string& why);

  /// A node is damaged or missing: incomplete (3), unless a finding fails it (1).
  report::Cluster finish() &&;

 private:
  /// A finding of a node.
  struct Seen {
    std::string group;
    std::string job;         ///< whose ranks it is about; empty: none
    bool says_less = false;  ///< no more than that a rank of another node is waited for
  };
  struct Node {
    report::Node entry;
    std::string ended_at;
    std::vector<Seen> findings;
    std::vector<RankState> ranks;
    std::map<std::string, std::string> facts;    ///< what should be the same on every node
    std::vector<std::pair<size_t, int>> checks;  ///< index into checks_, rank of the status
    std::optional<std::vector<report::PastedName>> names;
  };
  struct Group {
    report::Finding finding;  ///< as the first node has it
    std::vector<std::string> nodes;
  };
  struct Check {
    report::Check entry;  ///< id, code, title
    int worst = 0;
  };
  using Findings = std::vector<report::Finding>;

  Node digest(const std::string& source, const report::Report& report);
  void note_checks(const report::Report& report, Node& node);
  /// What all nodes' sentences paste in; nothing where one of them does not say.
  std::optional<std::vector<report::PastedName>> names_of_all(Sentences sentences) const;
  size_t node_count() const;  ///< a node may have several reports
  std::vector<std::string> missing() const;
  JoinedRanks joined_ranks(Sentences& sentences) const;
  void group_findings(const JoinedRanks& ranks);
  std::vector<NodeDifference> differences() const;
  std::vector<report::Check> checks(const std::vector<std::string>& absent) const;
  Findings findings(const Findings& of_ranks) const;
  std::vector<std::string> unsure() const;  ///< nodes whose own verdict is incomplete
  std::vector<report::Limitation> limitations(const std::vector<std::string>& absent,
                                              const std::vector<std::string>& unsure,
                                              const std::vector<Gap>& of_ranks,
                                              Sentences& sentences) const;
  std::string headline(const Findings& findings, const std::vector<std::string>& absent,
                       const std::vector<std::string>& unsure, const Findings& of_ranks) const;
  report::ClusterInvocation invocation(const Findings& findings, bool has_gap) const;
  report::NodeCounts node_counts(size_t absent) const;
  std::string id_of_all() const;

  MergeOptions options_;
  /// By name, rank, and probe; of a look at a job's ranks also by job.
  std::map<std::tuple<std::string, std::optional<std::string>, std::string>, Node> nodes_;
  std::map<std::string, report::Finding> prototypes_;  ///< by group
  std::map<std::string, size_t> check_places_;         ///< by id
  std::vector<Check> checks_;
  std::map<std::string, Group> groups_;
  std::vector<report::Damaged> damaged_;
  std::vector<report::Duplicate> duplicates_;
};

}  // namespace dlprobe
