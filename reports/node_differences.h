#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/report.h"

namespace dlprobe {

/// What should be the same on every node of a job, by name: versions, sizes, limits.
std::map<std::string, std::string> facts_of_node(const report::Report& report);

/// A fact that is not the same on all nodes: who has which value, the most common value first.
struct NodeDifference {
  struct Value {
    std::string text;
    std::vector<std::string> nodes;  ///< sorted
  };
  std::string fact;
  std::vector<Value> values;
};

/// "n7 has 1024, the other 15 have 65536"; of many values "4.0 GiB on 9 nodes; 1.0 GiB on n3, ...".
std::string describe(const NodeDifference& difference);

/// Keeps what the nodes have of each fact.
class NodeComparison {
 public:
  /// Nodes come in the order of their names; one may come again.
  void add(const std::string& node, const std::map<std::string, std::string>& facts);

  /// In the order of their names.
  std::vector<NodeDifference> differences() const;

 private:
  std::map<std::string, std::map<std::string, std::vector<std::string>>>
      nodes_;  ///< by fact, value
};

/// DLP0701, of one difference or more.
report::Finding finding_of_differences(const std::vector<NodeDifference>& differences);

/// Where what falls short is a limit that only the nodes of the finding have so, says what the
/// others have: its message and its evidence. `nodes`: those that have the finding, sorted.
void name_what_others_have(const std::vector<NodeDifference>& differences,
                           const std::vector<std::string>& nodes, report::Finding& finding);

}  // namespace dlprobe
