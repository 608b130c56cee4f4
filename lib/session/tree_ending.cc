#include "lib/session/tree_ending.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "lib/base/units.h"
#include "lib/session/kill_descendants.h"

namespace dlprobe {
namespace {

// After a process was asked to end, or helpers had their time.
constexpr BootNs kKillAfter = 3 * kSecond;

}  // namespace

void TreeEnding::ask(const OwnWords& because) {
  if (!tree_.target.child) return;
  begin(because);
  tree_.tools.control.signal(*tree_.target.child, SIGTERM);
}

void TreeEnding::begin(const OwnWords& because) {
  began_ = tree_.now();
  tree_.tools.sink.add(Event{.at = *began_,
                             .kind = std::string(kEndingBegan),
                             .text = "dlprobe began to end it",
                             .process = tree_.target.root});
  if (because.empty()) return;
  const bool is_ours = tree_.target.ends_with_watch;
  because_ = (is_ours ? "the reference loader " : "the command ") + because + "; dlprobe ended it";
  tree_.note(because_);
}

void TreeEnding::insist() {
  if (!began_ || !tree_.target.child || tree_.root_ended()) return;
  const auto& policy = tree_.target.standstill;
  const BootNs patience = policy ? policy->kill_after : kKillAfter;
  if (tree_.now() - *began_ > patience) tree_.tools.control.signal(*tree_.target.child, SIGKILL);
}

void TreeEnding::kill_at_once(const OwnWords& because) {
  // Those that are known, at once: looking for the others takes a few milliseconds.
  for (const ProcessKey& key : tree_.collector.living())
    if (!tree_.collector.is_helper(key))
      signal_process(tree_.tools.control, tree_.tools.machine, key, SIGSTOP);
  begin(because);
  kill_descendants(tree_.tools.control, tree_.tools.machine);
  reap_the_killed();
}

// Before anything is looked at again: a child whose parent has died first would be seen as
// dlprobe's own.
void TreeEnding::reap_the_killed() {
  ProcessControl& control = tree_.tools.control;
  const BootNs until = tree_.now() + kKillAfter;
  while (control.has_children() && tree_.now() < until) {
    control.wait(std::array{tree_.tools.signals.descriptor()}, 10 * kMillisecond);
    take_signals(tree_);
    reap_children(tree_);
  }
}

bool TreeEnding::waits_for_helpers() {
  const BootNs now = tree_.now();
  if (!linger_until_) {
    const BootNs linger = tree_.target.linger;
    linger_until_ = now + (began_ ? std::max(linger, kKillAfter) : linger);
  }
  if (!tree_.collector.alive() || tree_.interrupted_pid()) return false;
  if (now < *linger_until_) return true;
  if (tree_.target.ends_at_deadline && !began_) {
    kill_at_once("left processes behind");
    return false;
  }
  if (!began_ || kill_rounds_ == 2) return false;
  kill_what_is_left();
  linger_until_ = tree_.now() + kKillAfter;
  return true;
}

// Helpers clean up after the others (a resource tracker removes their semaphores), and end.
void TreeEnding::kill_what_is_left() {
  const bool spares_helpers = ++kill_rounds_ == 1;
  for (const ProcessKey& key : tree_.collector.living()) {
    if (spares_helpers && tree_.collector.is_helper(key)) continue;
    signal_process(tree_.tools.control, tree_.tools.machine, key, SIGKILL);
  }
}

}  // namespace dlprobe
