#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "reports/model/objects/examination.h"
#include "reports/model/objects/rank.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// How dlprobe report merge was called.
struct ClusterInvocation {
  Constant<"merge"> probe;
  std::vector<std::string> argv;
  std::optional<std::string> started_at;
  std::optional<std::string> ended_at;
  Severity fail_on{};
  OneOf<0, 1, 3> exit_code;
};
constexpr void list_fields(auto&& field, Of<ClusterInvocation> /*of*/) {
  field("probe", &ClusterInvocation::probe);
  field("argv", &ClusterInvocation::argv, Holds::kArgument);
  field("started_at", &ClusterInvocation::started_at, Holds::kWord, "of the earliest report");
  field("ended_at", &ClusterInvocation::ended_at, Holds::kWord, "of the latest report");
  field("fail_on", &ClusterInvocation::fail_on);
  field("exit_code", &ClusterInvocation::exit_code);
}

/// How many nodes there are.
struct ClusterHost {
  std::string name;
};
constexpr void list_fields(auto&& field, Of<ClusterHost> /*of*/) {
  field("name", &ClusterHost::name, Holds::kWord, "how many nodes");
}

/// What was examined: many nodes.
struct ClusterSubject {
  Constant<"cluster"> kind;
};
constexpr void list_fields(auto&& field, Of<ClusterSubject> /*of*/) {
  field("kind", &ClusterSubject::kind);
}

/// Nodes by what came of them.
struct NodeCounts {
  uint64_t pass = 0;
  uint64_t warn = 0;
  uint64_t fail = 0;
  uint64_t incomplete = 0;
  uint64_t missing = 0;
  uint64_t damaged = 0;
};
constexpr void list_fields(auto&& field, Of<NodeCounts> /*of*/) {
  field("pass", &NodeCounts::pass);
  field("warn", &NodeCounts::warn);
  field("fail", &NodeCounts::fail);
  field("incomplete", &NodeCounts::incomplete);
  field("missing", &NodeCounts::missing);
  field("damaged", &NodeCounts::damaged);
}

/// The verdict on all nodes.
struct ClusterSummary {
  OverallVerdict verdict = OverallVerdict::kIncomplete;
  std::string headline;
  Counts counts;
  NodeCounts nodes;
};
constexpr void list_fields(auto&& field, Of<ClusterSummary> /*of*/) {
  field("verdict", &ClusterSummary::verdict);
  field("headline", &ClusterSummary::headline, Holds::kSentence);
  field("counts", &ClusterSummary::counts);
  field("nodes", &ClusterSummary::nodes);
}

/// A node that has reported.
struct Node {
  std::string node;
  std::optional<std::string> rank;
  OverallVerdict verdict = OverallVerdict::kIncomplete;
  std::string headline;
  std::string report_id;
  std::string started_at;
  std::string source;
};
constexpr void list_fields(auto&& field, Of<Node> /*of*/) {
  field("node", &Node::node, Holds::kHost);
  field("rank", &Node::rank);
  field("verdict", &Node::verdict);
  field("headline", &Node::headline, Holds::kSentence);
  field("report_id", &Node::report_id, Holds::kWord);
  field("started_at", &Node::started_at, Holds::kWord);
  field("source", &Node::source, Holds::kPath);
}

/// A source that is no report.
struct Damaged {
  std::string source;
  std::string why;
};
constexpr void list_fields(auto&& field, Of<Damaged> /*of*/) {
  field("source", &Damaged::source, Holds::kPath);
  field("why", &Damaged::why);
}

/// A report that does not count, because there is a later one.
struct Duplicate {
  std::string node;
  std::string source;
  std::string kept;
  bool same = false;
};
constexpr void list_fields(auto&& field, Of<Duplicate> /*of*/) {
  field("node", &Duplicate::node, Holds::kHost);
  field("source", &Duplicate::source, Holds::kPath, "which does not count");
  field("kept", &Duplicate::kept, Holds::kPath);
  field("same", &Duplicate::same);
}

/// Many nodes' reports as one.
struct Cluster {
  Constant<"dlprobe.cluster-report"> kind;
  VersionText schema_version;
  IdText report_id;
  Tool tool;
  ClusterInvocation invocation;
  ClusterHost host;
  Nothing context;
  ClusterSubject subject;
  ClusterSummary summary;
  std::vector<Check> checks;
  std::vector<Finding> findings;
  std::optional<std::vector<Finding>> suppressed;
  std::vector<Node> nodes;
  std::vector<std::string> missing;
  std::vector<Damaged> damaged;
  std::vector<Duplicate> duplicates;
  std::optional<std::vector<Rank>> ranks;
  std::vector<Nothing> runs;
  std::vector<Nothing> processes;
  Nothing timeline;
  Redaction redaction;
  std::vector<Limitation> limitations;
  std::optional<std::vector<PastedName>> names;
};
constexpr void list_fields(auto&& field, Of<Cluster> /*of*/) {
  field("kind", &Cluster::kind);
  field("schema_version", &Cluster::schema_version);
  field("report_id", &Cluster::report_id);
  field("tool", &Cluster::tool);
  field("invocation", &Cluster::invocation);
  field("host", &Cluster::host);
  field("context", &Cluster::context);
  field("subject", &Cluster::subject);
  field("summary", &Cluster::summary);
  field("checks", &Cluster::checks);
  field("findings", &Cluster::findings, "the root cause first, its consequences after it");
  field("suppressed", &Cluster::suppressed,
        "those that a configuration has taken out of the verdict, with `suppressed`");
  field("nodes", &Cluster::nodes);
  field("missing", &Cluster::missing, Holds::kHost);
  field("damaged", &Cluster::damaged);
  field("duplicates", &Cluster::duplicates);
  field("ranks", &Cluster::ranks, "of all nodes' reports, by job and rank");
  field("runs", &Cluster::runs);
  field("processes", &Cluster::processes);
  field("timeline", &Cluster::timeline);
  field("redaction", &Cluster::redaction);
  field("limitations", &Cluster::limitations);
  field("names", &Cluster::names,
        "those of all nodes' reports, each once; absent if one of these does not say");
}

}  // namespace dlprobe::report
