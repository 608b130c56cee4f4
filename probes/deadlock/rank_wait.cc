#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "probes/deadlock/ranks.h"
#include "probes/deadlock/rules.h"

namespace dlprobe::probes::deadlock {
namespace {

// Only a member of a group of NCCL has these threads: the watchdog and the heartbeat of torch's
// (not where TORCH_NCCL_BLOCKING_WAIT is set), NCCL's own proxies.
bool is_in_nccl_group(const ProcessSnapshot& process) {
  return std::ranges::any_of(process.threads, [](const ThreadSnapshot& thread) {
    return calls(thread, "c10d::ProcessGroupNCCL::") || calls(thread, "ncclProxy");
  });
}

// Whether the main thread has left its work to others: the backward pass to autograd's threads (of
// each GPU one, of nested passes further ones), or something to a thread that its program started.
bool may_wait_for(const Facts& facts, const ThreadFacts& main, const ThreadFacts& other) {
  if (calls(*main.thread, "torch::autograd::Engine::execute"))
    return calls(*other.thread, "torch::autograd::Engine::thread_");
  constexpr auto kOfOwnThreads = std::to_array(
      {NeedKind::kNotification, NeedKind::kLock, NeedKind::kOwnedLock, NeedKind::kJoin});
  return std::ranges::count(kOfOwnThreads, main.need.kind) > 0 && !waits_for_batch(facts, main) &&
         user_frame(*other.thread) != nullptr;
}

// Another thread of the process, which the main thread waits for, stands in a collective.
std::optional<RankWait> wait_of_other_thread(const Facts& facts, size_t trainer) {
  const ThreadFacts& main = facts.threads[trainer];
  std::optional<RankWait> found;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& each = facts.threads[i];
    if (each.process != main.process || i == trainer || !may_wait_for(facts, main, each)) continue;
    auto in = collective_of(*each.thread);
    if (!in || (found && in->is_on_gpu)) continue;
    const size_t place = user_frame(*each.thread) == nullptr ? trainer : i;
    found = RankWait{.in = std::move(*in), .thread = i, .place = place};
  }
  return found;
}

// The threads that carry out calls of other ranks. Who stands is more likely the one that they wait
// for.
std::vector<size_t> threads_in_calls(const Facts& facts, const Rank& rank) {
  std::vector<size_t> found;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& each = facts.threads[i];
    if (each.process == facts.threads[rank.trainer].process &&
        calls(*each.thread, "torch::distributed::rpc::RequestCallback"))
      found.push_back(i);
  }
  std::ranges::stable_sort(found, {}, [&](size_t each) {
    const ThreadFacts& thread = facts.threads[each];
    return std::pair(!thread.still, thread.since);
  });
  return found;
}

// The thread of a call that waits for no other rank in turn.
std::optional<size_t> call_in_progress(const Facts& facts, const std::vector<size_t>& in_calls) {
  const auto found = std::ranges::find_if(
      in_calls, [&](size_t each) { return !collective_of(*facts.threads[each].thread); });
  return found == in_calls.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::optional<RankWait> wait_of(const Facts& facts, const Rank& rank) {
  const std::vector<size_t> in_calls = threads_in_calls(facts, rank);
  if (call_in_progress(facts, in_calls)) return std::nullopt;
  const size_t thread = in_calls.empty() ? rank.trainer : in_calls.front();
  std::optional<RankWait> found;
  if (auto in = collective_of(*facts.threads[thread].thread))
    found = RankWait{.in = std::move(*in), .thread = thread, .place = thread};
  else
    found = wait_of_other_thread(facts, rank.trainer);
  const ProcessSnapshot& process = *facts.threads[rank.trainer].process;
  if (found && found->in.is_on_gpu && !is_in_nccl_group(process)) return std::nullopt;
  if (found && found->in.is_call && !has_rpc_agent(process)) return std::nullopt;
  return found;
}

size_t thread_of(const Facts& facts, const Rank& rank) {
  if (const auto wait = wait_of(facts, rank)) return wait->thread;
  return call_in_progress(facts, threads_in_calls(facts, rank)).value_or(rank.trainer);
}

}  // namespace dlprobe::probes::deadlock
