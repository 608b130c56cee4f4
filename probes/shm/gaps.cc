// What about shared memory could not be seen: never "healthy" by omission.

#include <algorithm>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

constexpr const char* kNeedsReading =
    "run dlprobe as the user of the job, in its container, or with CAP_SYS_PTRACE";

// Why there is no look at the mount, in the words of the sampling loop.
Message why_no_use(const Facts& facts) {
  for (const Sample& sample : facts.run->samples) {
    for (const Observed<ShmUse>& use : sample.shm) {
      if (!use) return as_text(to_string(use.error()));
    }
  }
  return "dlprobe never read its size";
}

Message why_no_mount(const Run& run) {
  for (const Gap& gap : run.gaps) {
    if (gap.what.plain().contains("/dev/shm")) return gap.why;
  }
  return "the subject has no such mount";
}

// The mount is dlprobe's own while the subject lives in another mount namespace.
bool is_foreign_mount(const Facts& facts) {
  return facts.mount->seen_through.pid == 0 && facts.mount->mount_namespace != 0 &&
         facts.trainer != nullptr && facts.trainer->mount_namespace &&
         *facts.trainer->mount_namespace != facts.mount->mount_namespace;
}

std::optional<Gap> gap_of_mount(const Facts& facts) {
  const Message effect = "dlprobe cannot tell whether shared memory suffices";
  if (facts.mount == nullptr) {
    return Gap{.what = "/dev/shm of the subject",
               .why = why_no_mount(*facts.run),
               .effect = effect,
               .remedy = "if it is not mounted: mount -t tmpfs tmpfs /dev/shm"};
  }
  if (facts.mount->fs_type.empty()) {
    return Gap{.what = as_path(facts.mount->mount_point) + " of the subject",
               .why = "its file system type could not be read",
               .effect = effect,
               .remedy = kNeedsReading};
  }
  if (facts.mount->fs_type != "tmpfs") {
    return Gap{.what = as_path(facts.mount->mount_point) + " of the subject",
               .why = "it is of type " + as_name(facts.mount->fs_type) + ", not tmpfs",
               .effect = effect,
               .remedy = "mount a tmpfs on " + as_path(facts.mount->mount_point)};
  }
  if (is_foreign_mount(facts)) {
    return Gap{.what = as_path(facts.mount->mount_point) + " of the subject",
               .why = "the subject has its own mount namespace; dlprobe could read only its own",
               .effect = effect,
               .remedy = kNeedsReading};
  }
  if (facts.use.empty()) {
    return Gap{.what = "size and use of " + as_path(facts.mount->mount_point),
               .why = why_no_use(facts),
               .effect = effect,
               .remedy = kNeedsReading};
  }
  return std::nullopt;
}

// A worker whose end nobody could read, while shared memory was tight.
std::optional<Gap> gap_of_exit(const Facts& facts) {
  for (const ProcessExit& exit : facts.run->exits) {
    const ProcessInfo* process = facts.run->find_process(exit.key);
    if (exit.wait_status || process == nullptr || process->role != Role::kWorker) continue;
    const ShmUse* use = tightest_use(facts, exit.at - 1'000'000'000, exit.at);
    if (use == nullptr || free_bytes(*use) >= facts.segment_bytes()) continue;
    return Gap{
        .what = "how " + describe(*facts.run, exit.key) + " ended",
        .why = as_text(to_string(exit.wait_status.error())),
        .effect = "dlprobe cannot tell whether it died of SIGBUS because shared memory was full",
        .remedy = "let dlprobe start the job (dlprobe shm -- COMMAND), or use Linux 6.15 or newer"};
  }
  return std::nullopt;
}

// A part of the use that no process explains, where some processes could not be looked at. The last
// look counts: in an earlier one a process may have been too busy to answer in time.
std::optional<Gap> gap_of_holders(const Facts& facts) {
  if (facts.ledgers.empty() || facts.size_bytes() == 0) return std::nullopt;
  const ShmLedger& ledger = *facts.ledgers.back();
  const bool matters = ledger.processes_unreadable > 0 && ledger.unexplained_bytes > 0 &&
                       static_cast<uint64_t>(ledger.unexplained_bytes) * 10 > facts.size_bytes();
  if (!matters) return std::nullopt;
  return Gap{.what = "who holds a part of " + as_path(facts.mount->mount_point),
             .why = counted(ledger.processes_unreadable, "process") + " may not be read",
             .effect = "dlprobe cannot tell whether another job holds it",
             .remedy = kNeedsReading};
}

// Shared memory was tight and a job lives, but nobody could see what its threads wait for.
std::optional<Gap> gap_of_waits(const Facts& facts) {
  const auto has = [&](auto&& wanted) {
    return std::ranges::any_of(facts.run->samples, [&](const Sample& sample) {
      return std::ranges::any_of(sample.processes, wanted);
    });
  };
  const bool refused = has([](const ProcessSample& each) { return each.waits && !*each.waits; });
  const bool seen = has([](const ProcessSample& each) { return each.waits && *each.waits; });
  if (!refused || seen || !observed_shortage(facts)) return std::nullopt;
  return Gap{.what = "what the subject's threads wait for",
             .why = "/proc/PID/task/TID/syscall may not be read",
             .effect = "dlprobe cannot tell whether the loader waits for a lost batch",
             .remedy = kNeedsReading};
}

}  // namespace

std::vector<Gap> gaps_of(const Facts& facts) {
  if (facts.run->end && facts.run->end->reason == RunEndReason::kNotStarted &&
      facts.mount == nullptr && !facts.run->begin.preflight) {
    return {};
  }
  if (std::optional<Gap> gap = gap_of_mount(facts)) return {std::move(*gap)};
  std::vector<Gap> gaps;
  for (const std::optional<Gap>& gap :
       {gap_of_exit(facts), gap_of_holders(facts), gap_of_waits(facts)}) {
    if (gap) gaps.push_back(*gap);
  }
  return gaps;
}

}  // namespace dlprobe::probes::shm
