#include "lib/collect/snapshot/snapshot.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "lib/collect/snapshot/access_gap.h"
#include "lib/collect/snapshot/channel_ends.h"
#include "lib/collect/snapshot/frame_places.h"
#include "lib/collect/snapshot/freezer_look.h"
#include "lib/collect/snapshot/kept_looks.h"
#include "lib/collect/snapshot/lock_look.h"
#include "lib/collect/snapshot/process_look.h"
#include "lib/collect/snapshot/shared_files.h"
#include "lib/collect/snapshot/socket_peers.h"
#include "lib/foreign/syscalls.h"
#include "lib/proc/processes.h"

namespace dlprobe {
namespace {

/// Reading a tree's memory takes milliseconds. A slow disk under a library, a starved machine, may
/// take much longer.
constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(20);

/// Owners of locks of processes in a pid namespace of their own: from the number that stands in the
/// lock's word to the one that dlprobe sees.
void translate_owners(TreeSnapshot& tree, std::span<const uint64_t> namespaces) {
  std::map<std::pair<uint64_t, int32_t>, int32_t> tids;
  std::set<int32_t> seen;
  for (size_t i = 0; i < tree.processes.size(); ++i) {
    for (const ThreadSnapshot& thread : tree.processes[i].threads) {
      seen.insert(thread.tid);
      if (namespaces[i] != 0) tids.emplace(std::pair(namespaces[i], thread.own_tid), thread.tid);
    }
  }
  for (size_t i = 0; i < tree.processes.size() && !tids.empty(); ++i) {
    if (namespaces[i] == 0) continue;
    for (ThreadSnapshot& thread : tree.processes[i].threads) {
      if (!thread.futex || !thread.futex->owner_tid) continue;
      const auto found = tids.find({namespaces[i], *thread.futex->owner_tid});
      if (found != tids.end()) {
        thread.futex->owner_tid = found->second;
      } else if (seen.contains(*thread.futex->owner_tid)) {
        // It would name a thread that has nothing to do with it.
        thread.futex->owner_tid.reset();
        thread.futex->owner_gone = true;
      }
    }
  }
}

/// Whether a wait ends by itself so soon that a further look would meet the thread awake as well:
/// a sleep, or an event loop such as Gloo's, which wakes every 10 ms.
bool ends_soon(const ThreadWait& wait) {
  constexpr int32_t kSoonMs = 1000;
  const auto within = [&](size_t argument) {
    const auto timeout_ms = static_cast<int32_t>(wait.args.at(argument));
    return timeout_ms >= 0 && timeout_ms < kSoonMs;
  };
  const Syscall* call = find_syscall(wait.syscall, own_syscall_machine());
  if (call == nullptr) return false;
  if (call->name == "poll") return within(2);
  if (call->name == "epoll_wait" || call->name == "epoll_pwait") return within(3);
  return call->wait == WaitKind::kSleep;
}

}  // namespace

struct SnapshotTaker::State {
  State(Machine looked_at, const SnapshotOptions& chosen)
      : machine(std::move(looked_at)), options(chosen), kept(machine) {}

  Machine machine;
  SnapshotOptions options;
  KeptLooks kept;
  SharedFileWatch shared_files;

  /// A look at a tree.
  struct Look {
    TreeSnapshot tree;
    std::vector<Gap> gaps;
    std::map<ProcessKey, JobRank> ranks;
  };

  Look take(const std::vector<SnapshotTarget>& targets) {
    Look all;
    TreeSnapshot& tree = all.tree;
    std::vector<Gap>& gaps = all.gaps;
    tree.at = machine.clock->now();
    std::vector<std::unique_ptr<ProcessLook>> looks;
    for (const SnapshotTarget& target : targets) {
      auto look = std::make_unique<ProcessLook>(machine, target, kept);
      auto snapshot = look->look(options.max_pause);
      if (snapshot) {
        std::ranges::move(look->gaps(), std::back_inserter(gaps));
        if (look->rank()) all.ranks.emplace(target.key, *look->rank());
        snapshot->frozen_by = frozen_by(machine, *target.directory);
        tree.processes.push_back(std::move(*snapshot));
        looks.push_back(std::move(look));
      } else if (snapshot.error().code != ErrorCode::kVanished &&
                 snapshot.error().code != ErrorCode::kNotFound) {
        gaps.push_back(
            access_gap(*machine.root, *target.directory, target.key.pid, snapshot.error()));
      }
    }
    FunctionNames names;
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->want_names(tree.processes[i], names);
    names.resolve();
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->refine(tree.processes[i]);
    std::vector<uint64_t> namespaces;
    namespaces.reserve(looks.size());
    for (const auto& look : looks)
      namespaces.push_back(look->nested_namespace());
    translate_owners(tree, namespaces);
    find_locks(looks, tree);
    mark_dead_owners(*machine.root, tree);
    find_socket_peers(machine, tree, gaps);
    find_channel_ends(machine, tree);
    // On a busy machine that takes a while, and a peer that has done its part may be gone by then.
    for (size_t i = 0; i < looks.size(); ++i)
      looks[i]->mark_those_who_moved_on(tree.processes[i]);
    std::vector<ProcessKey> keys;
    std::ranges::transform(tree.processes, std::back_inserter(keys), &ProcessSnapshot::key);
    SharedFileLook files = shared_files.look(machine, keys);
    for (size_t i = 0; i < keys.size(); ++i)
      tree.processes[i].shared_files = std::move(files.processes[i].files);
    return all;
  }

 private:
  /// Semaphores in shared memory are looked at in every process as soon as one thread waits on one:
  /// who has acquired it is known to the holder alone.
  void find_locks(const std::vector<std::unique_ptr<ProcessLook>>& looks,
                  TreeSnapshot& tree) const {
    const auto waits_on_shared = [](const ProcessSnapshot& process) {
      return std::ranges::any_of(process.threads, [](const ThreadSnapshot& thread) {
        return thread.futex && thread.futex->kind == LockKind::kSharedSemaphore;
      });
    };
    const bool any_shared = std::ranges::any_of(tree.processes, waits_on_shared);
    PythonLockPlaces places;
    for (size_t i = 0; i < looks.size(); ++i) {
      const auto stat = read_pid_stat(*machine.root, tree.processes[i].key.pid);
      const auto parent = std::ranges::find(tree.processes, stat ? stat->ppid : 0,
                                            [](const auto& each) { return each.key.pid; });
      const bool has_parent = parent != tree.processes.end();
      looks[i]->find_locks(
          tree.processes[i], any_shared, places,
          has_parent ? looks[static_cast<size_t>(parent - tree.processes.begin())].get() : nullptr);
    }
  }
};

SnapshotTaker::SnapshotTaker(Machine machine, const SnapshotOptions& options, RecordSink& sink)
    : machine_(std::move(machine)),
      sink_(&sink),
      state_(std::make_shared<State>(machine_, options)) {}

SnapshotTaker::~SnapshotTaker() = default;

TreeSnapshot SnapshotTaker::take(const std::vector<SnapshotTarget>& targets) {
  auto answer = reader_.run<State::Look>(
      "look at the stacks of the tree",
      [state = state_, targets] -> Expected<State::Look> { return state->take(targets); },
      kPatience);
  if (!answer) {
    sink_->add(Gap{.what = "stacks of the tree",
                   .why = as_text(to_string(answer.error())),
                   .effect = "dlprobe cannot tell who waits for what"});
    return {.at = machine_.clock->now()};
  }
  for (Gap& gap : answer->gaps)
    sink_->add(std::move(gap));
  ranks_ = std::move(answer->ranks);
  note_who_waits(answer->tree);
  return std::move(answer->tree);
}

void SnapshotTaker::note_who_waits(const TreeSnapshot& tree) {
  went_on_ = false;
  std::set<int32_t> waiting;
  for (const ProcessSnapshot& process : tree.processes) {
    for (const ThreadSnapshot& thread : process.threads) {
      if (ends_soon(thread.wait)) continue;
      const bool runs = thread.wait.running;
      if (!runs) waiting.insert(thread.tid);
      went_on_ = went_on_ || (runs ? waiting_.contains(thread.tid) : !thread.consistent);
    }
  }
  waiting_ = std::move(waiting);
}

}  // namespace dlprobe
