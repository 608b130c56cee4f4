#include "reports/document/alike_waits.h"

#include <fmt/format.h>

#include "lib/base/number_ranges.h"
#include "reports/document/frame_text.h"

namespace dlprobe {
namespace {

/// Files with a name, which several may lock or open; a pipe or a socket is an end of one's own.
bool is_named(const report::WaitedFile& file) {
  return file.kind == "file" || file.kind == "fifo";
}

/// The object in shared memory, or the named files: the same in every process.
std::string shared_key(const report::Thread& thread) {
  std::string key;
  const uint64_t inode = thread.futex ? thread.futex->inode.value_or(0) : 0;
  if (thread.futex && inode != 0) {
    key = fmt::format("{} {}+{}", thread.futex->file.value_or(""), inode,
                      thread.futex->offset.value_or(0));
  }
  for (const report::WaitedFile& file : report::items_of(thread.files)) {
    if (is_named(file)) key += fmt::format(" {} {}", file.path.value_or(""), file.inode);
  }
  return key;
}

/// What kind of object it is; a wait on none: the words.
std::string kind_key(const report::Thread& thread) {
  const auto& futex = thread.futex;
  if (!futex) return without_numbers(thread.waits_for);
  return fmt::format("{} {} {}", futex->kind, futex->python_type.value_or(""), futex->timed);
}

std::optional<int64_t> owner_of(const report::Thread& thread) {
  return thread.futex ? thread.futex->owner_tid : std::nullopt;
}

using Needs = std::map<int64_t, std::set<int64_t>>;  // whom each waits for

Needs reversed(const Needs& needs) {
  Needs result;
  for (const auto& [pid, others] : needs) {
    for (const int64_t other : others)
      result[other].insert(pid);
  }
  return result;
}

/// Without those who wait for nobody, and then those who wait for nobody any more.
Needs without_ends(Needs needs) {
  const Needs waiters = reversed(needs);
  std::vector<int64_t> ends;
  for (const auto& [pid, unused] : waiters) {
    if (!needs.contains(pid)) ends.push_back(pid);
  }
  while (!ends.empty()) {
    const int64_t end = ends.back();
    ends.pop_back();
    const auto of_end = waiters.find(end);
    if (of_end == waiters.end()) continue;
    for (const int64_t waiter : of_end->second) {
      const auto place = needs.find(waiter);
      if (place == needs.end() || place->second.erase(end) == 0 || !place->second.empty()) continue;
      needs.erase(place);
      ends.push_back(waiter);
    }
  }
  return needs;
}

}  // namespace

std::string same_as_text(const FoldedProcesses& group) {
  std::vector<int64_t> pids;
  std::vector<int64_t> ranks;
  for (const LookedAt* each : group.others) {
    pids.push_back(each->pid);
    if (each->rank && each->role == Role::kTrainer) ranks.push_back(*each->rank);
  }
  const bool are_many = pids.size() > 1;
  const std::string first = process_name(group.first->role, group.first->rank, group.first->pid);
  if (ranks.size() == pids.size()) {
    return fmt::format("rank{} {} ({}): same as {}", are_many ? "s" : "", ranges_text(ranks),
                       ranges_text(pids), first);
  }
  std::string roles = process_kind(group.first->role);
  if (are_many) roles += roles == "process" ? "es" : "s";
  return fmt::format("{} {}: same as {}", roles, ranges_text(pids), first);
}

AlikeWaits::AlikeWaits(const std::vector<LookedAt>& processes,
                       const std::vector<report::ChannelEnd>& channel_ends,
                       const report::WaitGraph& wait_graph) {
  for (const LookedAt& process : processes) {
    size_t index = 0;
    for (const report::Thread& thread : process.look->threads)
      threads_[thread.tid] = {.pid = process.pid, .index = index++};
  }
  add_channels(processes, channel_ends);
  add_graph(wait_graph);
}

void AlikeWaits::add_channels(const std::vector<LookedAt>& processes,
                              const std::vector<report::ChannelEnd>& channel_ends) {
  std::map<uint64_t, std::string> names;  // of the objects, by the inode of the end that is needed
  for (const LookedAt& process : processes) {
    for (const report::Thread& thread : process.look->threads) {
      for (const report::WaitedFile& file : report::items_of(thread.files)) {
        const std::string name = fmt::format("file {}", file.inode);
        const uint64_t peer = file.peer.value_or(0);
        names[peer == 0 ? file.inode : peer] = name;
        objects_[name].waiters.insert(process.pid);
      }
    }
  }
  for (const report::ChannelEnd& end : channel_ends) {
    const auto name = names.find(end.inode);
    if (name != names.end()) objects_[name->second].holders.insert(end.pid);
  }
}

void AlikeWaits::add_graph(const report::WaitGraph& graph) {
  std::map<std::string, int64_t> pids;  // of the threads, by id
  for (const report::WaitNode& node : graph.nodes) {
    if (node.pid) pids[node.id] = *node.pid;
  }
  for (const auto& [from, to, relation] : graph.edges) {
    const auto waiter = pids.find(from);
    const auto holder = pids.find(to);
    // From one thread to the other there is nothing in between.
    const bool is_direct = waiter != pids.end() && holder != pids.end();
    std::string between = waiter == pids.end() ? from : to;
    if (is_direct) between = fmt::format("{} to {}", from, to);
    if (waiter != pids.end()) objects_[between].waiters.insert(waiter->second);
    if (holder != pids.end()) objects_[between].holders.insert(holder->second);
  }
}

std::string AlikeWaits::key_in_process(const report::Thread& thread) const {
  const auto owner = owner_of(thread);
  std::string key = kind_key(thread) + "|" + shared_key(thread);
  if (owner && thread.futex && threads_.contains(*owner))
    key += fmt::format("|{} of {}", thread.futex->address, *owner);
  return key;
}

std::string AlikeWaits::key_among_processes(const LookedAt& process,
                                            const report::Thread& thread) const {
  const auto owner = owner_of(thread);
  std::string key = kind_key(thread) + "|" + shared_key(thread);
  if (!owner) return key;
  const auto place = threads_.find(*owner);
  if (place == threads_.end()) return key;
  // Of a thread of its own the place in the process: in its copies others stand there.
  const bool is_own = place->second.pid == process.pid;
  return key +
         (is_own ? fmt::format("|its thread {}", place->second.index) : fmt::format("|{}", *owner));
}

AlikeWaits::Needs AlikeWaits::needs_among(const std::set<int64_t>& pids) const {
  Needs needs;
  for (const auto& [name, object] : objects_) {
    for (const int64_t waiter : object.waiters) {
      if (!pids.contains(waiter)) continue;
      for (const int64_t holder : object.holders) {
        // Those that wait for the same object do not wait for one another.
        if (pids.contains(holder) && !object.waiters.contains(holder)) needs[waiter].insert(holder);
      }
    }
  }
  return needs;
}

std::set<int64_t> AlikeWaits::in_circle(const std::set<int64_t>& pids) const {
  // Who waits for nobody is in no circle, nor is then who waits for these alone; and likewise who
  // is waited for by nobody.
  const Needs needs = without_ends(needs_among(pids));
  std::set<int64_t> result;
  for (const auto& [pid, others] : without_ends(reversed(needs)))
    result.insert(pid);
  return result;
}

std::vector<FoldedProcesses> AlikeWaits::fold(std::span<const AlikeProcess> processes) const {
  std::map<std::string, std::set<int64_t>> alike;  // pids by key
  for (const auto& [process, key] : processes)
    alike[key].insert(process->pid);
  std::set<int64_t> apart;
  for (const auto& [key, pids] : alike)
    apart.merge(in_circle(pids));
  std::vector<FoldedProcesses> folded;
  std::map<std::string, size_t> places;
  for (const auto& [process, key] : processes) {
    const int64_t pid = process->pid;
    if (apart.contains(pid) || places.try_emplace(key, folded.size()).second) {
      folded.push_back({.first = process});
    } else {
      folded[places.at(key)].others.push_back(process);
    }
  }
  return folded;
}

}  // namespace dlprobe
