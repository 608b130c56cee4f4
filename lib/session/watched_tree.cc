#include "lib/session/watched_tree.h"

#include <csignal>
#include <utility>

#include "lib/collect/tree/tracked_process.h"

namespace dlprobe {

WatchedTree::WatchedTree(const WatchTools& with, WatchTarget watched, WatchGuide& guided_by)
    : tools(with),
      guide(guided_by),
      target(std::move(watched)),
      collector(tools.machine, target.root, target.collect, tools.sink) {}

bool WatchedTree::root_ended() const {
  return target.child ? result.child_wait_status.has_value() : !collector.trainer_alive();
}

void WatchedTree::note(Message text) {
  tools.sink.add(
      Event{.at = now(), .kind = "note", .text = std::move(text), .process = target.root});
}

bool take_signals(WatchedTree& tree) {
  bool something_ended = false;
  while (const auto signal = tree.tools.signals.next()) {
    if (signal->ssi_signo == SIGCHLD) {
      something_ended = reap_children(tree) || something_ended;
      continue;
    }
    if (tree.target.child && !tree.result.child_wait_status)
      forward_signal(tree.tools.control, *signal, *tree.target.child);
    if (signal->ssi_signo == SIGUSR1 || signal->ssi_signo == SIGUSR2) continue;
    tree.result.interrupted_by = static_cast<int>(signal->ssi_signo);
    something_ended = true;
  }
  return something_ended;
}

bool reap_children(WatchedTree& tree) {
  bool any = false;
  while (const auto ended = tree.tools.control.next_ended_child()) {
    // While it is a zombie its start time can still be read.
    if (const auto key = process_key(tree.tools.machine, ended->pid)) {
      tree.collector.note_exit(*key, ended->wait_status, "waitid");
    }
    tree.tools.control.reap(*ended);
    if (tree.target.child && ended->pid == *tree.target.child) {
      tree.result.child_wait_status = ended->wait_status;
    }
    any = true;
  }
  return any;
}

}  // namespace dlprobe
