#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/base/function_name.h"
#include "probes/deadlock/ranks.h"

namespace dlprobe::probes::deadlock {
namespace {

bool calls(const ThreadSnapshot& thread, std::string_view function) {
  return std::ranges::any_of(thread.stack, [&](const StackFrame& frame) {
    return !frame.python && short_function_name(frame.function).starts_with(function);
  });
}

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
  constexpr auto kOfOwnThreads =
      std::to_array({NeedKind::kNotification, NeedKind::kLock, NeedKind::kJoin});
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

}  // namespace

std::optional<RankWait> wait_of(const Facts& facts, const Rank& rank) {
  const ThreadFacts& main = facts.threads[rank.trainer];
  std::optional<RankWait> found;
  if (auto in = collective_of(*main.thread))
    found = RankWait{.in = std::move(*in), .thread = rank.trainer, .place = rank.trainer};
  else
    found = wait_of_other_thread(facts, rank.trainer);
  if (found && found->in.is_on_gpu && !is_in_nccl_group(*main.process)) return std::nullopt;
  return found;
}

}  // namespace dlprobe::probes::deadlock
