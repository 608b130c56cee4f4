// Several processes that ended alike, in words.

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/vain_starts.h"

namespace dlprobe::probes::exits {

bool is_root(const ExitFacts& facts, const ProcessInfo& process) {
  return facts.run->begin.root == process.key;
}

bool is_of_loader(const ExitFacts& facts, const ProcessInfo& process) {
  constexpr std::array kRoles = {Role::kTrainer, Role::kWorker, Role::kLauncher};
  return is_root(facts, process) || std::ranges::find(kRoles, process.role) != kRoles.end();
}

bool is_above(const ExitFacts& facts, const ProcessInfo& sender, const ProcessInfo& process) {
  constexpr std::array kAbove = {Role::kTrainer, Role::kLauncher, Role::kForkserver};
  if (sender.key == process.key) return false;
  return is_root(facts, sender) || sender.key.pid == process.ppid ||
         (process.role == Role::kWorker && std::ranges::find(kAbove, sender.role) != kAbove.end());
}

namespace {

/// How many processes of the loader lived just before.
size_t living_before(const ExitFacts& facts, BootNs at) {
  return static_cast<size_t>(
      std::ranges::count_if(facts.run->processes, [&](const ProcessInfo& process) {
        return is_of_loader(facts, process) && lives_at(facts, process, at - 1);
      }));
}

OwnWords names_of(const ExitFacts& facts, const std::vector<const Judged*>& group) {
  constexpr size_t kShown = 4;
  OwnWords names;
  for (size_t i = 0; i < std::min(group.size(), kShown); ++i) {
    if (i > 0) names += i + 1 == group.size() ? " and " : ", ";
    names += describe(*facts.run, group[i]->death->process->key);
  }
  if (group.size() > kShown) names += " and " + own(group.size() - kShown) + " more";
  return names;
}

/// Of the workers of one trainer, which starts new ones for those that end; nothing where it does
/// not, or a worker lives on.
std::optional<Message> again_and_again(const ExitFacts& facts,
                                       const std::vector<const Judged*>& group) {
  const ProcessInfo* trainer = trainer_of(facts, *group.back()->death->process);
  if (trainer == nullptr || group.back()->death->process->role != Role::kWorker)
    return std::nullopt;
  const auto failing = failing_workers(*facts.run, trainer->key);
  if (!failing || 2 * group.size() < failing->count) return std::nullopt;
  const BootNs span = failing->last - failing->first;
  return "each worker that " + describe(*facts.run, trainer->key) +
         " starts ends with an error, again and again: " + counted(failing->count, "worker") +
         " in " + format_duration(std::chrono::nanoseconds(span)) + "; the first, " +
         describe(*facts.run, group.front()->death->process->key) + ", " +
         group.front()->cause.clause;
}

/// "was killed ..." of several.
Message in_plural(const Message& clause) {
  constexpr std::string_view kWas = "was ";
  Message plural;
  for (const MessagePart& part : clause.parts()) {
    const bool is_verb = plural.empty() && part.text.starts_with(kWas);
    plural +=
        is_verb ? "were " + own(part.text.substr(kWas.size())) : Message(part.kind, part.text);
  }
  return plural;
}

}  // namespace

Message message_of(const ExitFacts& facts, const std::vector<const Judged*>& group) {
  const Judged& first = *group.front();
  if (group.size() == 1) {
    return describe(*facts.run, first.death->process->key) + " " + first.cause.clause;
  }
  const BootNs span = group.back()->death->at() - first.death->at();
  const bool whole = span <= kTogether && group.size() >= living_before(facts, first.death->at());
  if (auto again = again_and_again(facts, group)) return std::move(*again);
  if (!whole) return names_of(facts, group) + " " + in_plural(first.cause.clause);
  Message message = all_of(group.size(), "process") + " of the job " +
                    in_plural(first.cause.clause) + ", within " +
                    format_duration(std::chrono::nanoseconds(span));
  const SignalSent* sent = first.death->sent;
  const bool from_outside = first.cause.code == FindingCode::kKilledBySignal &&
                            (sent == nullptr || sender_in_tree(facts, *sent) == nullptr);
  if (from_outside) {
    message += ": as when a scheduler, a container runtime or systemd stops a job";
  }
  return message;
}

}  // namespace dlprobe::probes::exits
