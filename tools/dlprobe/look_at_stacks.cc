#include "tools/dlprobe/look_at_stacks.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/collect/snapshot/climb.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/os/deadline.h"
#include "lib/os/host_facts.h"
#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

// Keeps what could not be seen.
class GapSink : public RecordSink {
 public:
  explicit GapSink(std::vector<Gap>& gaps) : gaps_(gaps) {}
  void add(Record record) override {
    if (auto* gap = std::get_if<Gap>(&record)) gaps_.push_back(std::move(*gap));
  }

 private:
  std::vector<Gap>& gaps_;
};

// A process has its role by the tree of its trainer.
ProcessKey root_of_roles(const Machine& machine, const ProcessKey& root, StacksOf whose) {
  if (whose == StacksOf::kTree) return root;
  const auto climbed = climb_to_trainer(machine, root.pid);
  return climbed ? climbed->key : root;
}

}  // namespace

StacksLook look_at_stacks(const Machine& machine, const ProcessKey& root, StacksOf whose,
                          const SnapshotOptions& options) {
  StacksLook look{.version = std::string(kVersion),
                  .host = read_host_facts(machine, own_environment),
                  .realtime_ns = machine.clock->realtime_ns()};
  DeadlineReader reader;
  ProcessTree tree(machine, root_of_roles(machine, root, whose), /*adopter=*/0);
  tree.discover(reader);
  tree.update_roles();
  std::vector<SnapshotTarget> targets;
  for (const auto& [key, process] : tree.members()) {
    if (whose == StacksOf::kProcess && key != root) continue;
    targets.push_back({.key = key, .directory = process.directory});
  }
  GapSink sink(look.gaps);
  SnapshotTaker taker(machine, options, sink);
  look.snapshot = taker.take(targets);
  for (const auto& [key, rank] : taker.ranks())
    tree.note_rank(key, rank);
  tree.update_roles();
  for (const SnapshotTarget& target : targets)
    look.processes.push_back(tree.members().at(target.key).info);
  return look;
}

}  // namespace dlprobe
