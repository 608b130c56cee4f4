#include "lib/collect/deaths/exit_watch.h"

#include <chrono>
#include <vector>

namespace dlprobe {
namespace {

/// A parent that has not reaped for so long may never do so.
constexpr std::chrono::nanoseconds kReapPatience = std::chrono::seconds(2);

bool is_dead(char state) {
  return state == 'Z' || state == 'X';
}

}  // namespace

bool ExitWatch::check(ProcessTree& tree) {
  const BootNs now = machine_.clock->now();
  std::vector<TrackedProcess*> open;
  std::vector<int> pidfds;
  for (auto& [key, process] : tree.members()) {
    if (process.exit_recorded) continue;
    open.push_back(&process);
    pidfds.push_back(process.pidfd.get());
  }
  bool any = false;
  const std::vector<bool> ended = machine_.processes->ended(pidfds);
  for (size_t i = 0; i < open.size(); ++i) {
    TrackedProcess& process = *open[i];
    // Without a pidfd: a zombie whose other threads still run has not ended.
    const bool looks_ended = !process.pidfd && has_ended(process.last_stat);
    if (!ended[i] && !process.vanished && !looks_ended && !process.ended_at) continue;
    any = any || !process.ended_at;
    if (!process.ended_at) process.ended_at = now;
    resolve(process, now);
  }
  return any;
}

void ExitWatch::resolve(TrackedProcess& process, BootNs now) {
  if (!process.vanished) {
    const auto status = read_stat(process);
    process.vanished = !status && status.error().code == ErrorCode::kVanished;
    const PidStat& stat = process.last_stat;
    // An exit code of 0 is also what somebody without the right is shown; with it, io can be read.
    if (status && is_dead(stat.state) &&
        (stat.exit_code != 0 || process.may_see_memory || process.directory->read("io"))) {
      emit(process, stat.exit_code, "zombie stat");
      return;
    }
  }
  if (!process.pidfd) {
    if (!process.vanished) return;
    emit(process,
         std::unexpected(process.pidfd_error.value_or(
             Error{.code = ErrorCode::kUnsupported, .context = "no pidfd"})),
         "");
    return;
  }
  const auto answer = machine_.processes->exit_status(process.pidfd.get());
  const std::optional<int32_t> exit_status = answer.value_or(std::nullopt);
  if (exit_status) {
    emit(process, *exit_status, "pidfd info");
  } else if (!answer && process.vanished) {
    emit(process, std::unexpected(answer.error()), "");
  } else if (now - process.ended_at.value_or(now) > kReapPatience.count()) {
    emit(process,
         failure(ErrorCode::kForbidden, "exit code of a zombie that its parent has not reaped: " +
                                            join_path(*process.directory, "stat") + " hides it"),
         "");
  }
}

void ExitWatch::emit(TrackedProcess& process, Observed<int32_t> wait_status, std::string source) {
  process.exit_recorded = true;
  failed_ = failed_ || wait_status.value_or(0) != 0;
  sink_->add(ProcessExit{.key = process.key,
                         .at = process.ended_at.value_or(machine_.clock->now()),
                         .wait_status = std::move(wait_status),
                         .source = std::move(source)});
}

void ExitWatch::note(ProcessTree& tree, const ProcessKey& key, int wait_status,
                     std::string source) {
  const auto found = tree.members().find(key);
  if (found == tree.members().end()) {
    // A helper of dlprobe itself, or what is left of a trial before.
    if (key.start_ticks < tree.root().start_ticks) return;
    // It lived and died between two looks: its end is all that is known of it.
    failed_ = failed_ || wait_status != 0;
    sink_->add(ProcessExit{.key = key,
                           .at = machine_.clock->now(),
                           .wait_status = wait_status,
                           .source = std::move(source)});
    return;
  }
  TrackedProcess& process = found->second;
  if (process.exit_recorded) return;
  if (!process.ended_at) process.ended_at = machine_.clock->now();
  emit(process, wait_status, std::move(source));
}

}  // namespace dlprobe
