#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

constexpr BootNs kWithoutATask = 15 * kSecond;
constexpr double kMostOfACore = 0.9;
constexpr size_t kFewestLooks = 4;  ///< by which a slow job is judged

// Where the loader of a trainer with workers calls code of the user's: it asks the sampler for the
// next indices, unpickles a batch, pins one.
constexpr std::string_view kAsksSampler = "_try_put_index";
constexpr std::array<std::string_view, 3> kSteps = {kAsksSampler, "_try_get_data",
                                                    "_pin_memory_loop"};

bool is_in_step(const StackFrame& frame, std::string_view step) {
  return frame.python && is_of_torch(frame.file) && frame.function.ends_with(step);
}

// The step of the loader that has called the user's code in which the thread is; empty: none has.
std::string_view calling_step(const ThreadSnapshot& thread) {
  const auto users = std::ranges::find_if(thread.stack, is_of_user);
  const auto calls = [&](std::string_view step) {
    const auto caller = std::ranges::find_if(
        thread.stack, [&](const StackFrame& frame) { return is_in_step(frame, step); });
    return users < caller && caller != thread.stack.end();
  };
  const auto found = std::ranges::find_if(kSteps, calls);
  return found == kSteps.end() ? "" : *found;
}

// The newest looks at which the thread was in such a step.
size_t looks_in_step(const ThreadFacts& thread, std::string_view step) {
  const auto other = std::ranges::find_if(thread.looks, [&](const Look& look) {
    return !look.thread->stack.empty() && calling_step(*look.thread) != step;
  });
  return static_cast<size_t>(other - thread.looks.begin());
}

// No worker has anything to do, or got a task meanwhile.
bool workers_are_idle(const Facts& facts, const Rank& rank) {
  return !rank.workers.empty() && std::ranges::all_of(rank.workers, [&](size_t each) {
    const ThreadFacts& worker = facts.threads[each];
    return waits_for_task(facts, worker) && !hands_on(facts, worker);
  });
}

RootCause busy_in_step(const Facts& facts, const Rank& rank, size_t index, size_t looks) {
  const ThreadFacts& thread = facts.threads[index];
  const BootNs lasts = thread.looks.front().at - thread.looks[looks - 1].at;
  const bool computes = core_share(thread, looks).busy >= kMostOfACore;
  Finding finding =
      finding_about(facts, FindingCode::kTrainerBusyInLoader, Confidence::kLikely, thread);
  if (lasts < kWithoutATask) finding.severity = Severity::kInfo;
  finding.message = name_of(facts, thread) + (computes ? " computes" : " is at work") +
                    " inside its loader" + place_of(thread) + ", for " +
                    format_duration(std::chrono::nanoseconds(lasts)) +
                    " at least: " + all_of(rank.workers.size(), "worker") +
                    (rank.workers.size() == 1 ? " waits" : " wait") + " for a task, and got none";
  finding.prove(count_fact("idle_workers", rank.workers.size(),
                           "/proc/PID/task/TID/syscall, /proc/PID/io", facts.last->at));
  Remedy remedy{.title = "Look at that line: does its loop end?",
                .verify = "dlprobe stacks " + own(thread.process->key.pid)};
  if (calling_step(*thread.thread) == kAsksSampler) {
    remedy.title += " Run the sampler alone";
    remedy.commands.emplace_back("for index in loader.batch_sampler: print(index)");
  }
  finding.remedies.push_back(std::move(remedy));
  return {std::move(finding), index};
}

size_t looks_in_a_task(const ThreadFacts& worker) {
  return static_cast<size_t>(std::ranges::count_if(
      worker.looks, [](const Look& look) { return is_in_a_task(*look.thread); }));
}

// Whether a worker in the middle of a batch is met at least at every third look where it waits for
// a lock that processes share (multiprocessing.Lock).
bool wait_for_one_another(const Facts& facts, const Rank& rank) {
  size_t in_task = 0;
  size_t at_lock = 0;
  for (const size_t each : rank.workers) {
    for (const Look& look : facts.threads[each].looks) {
      if (!is_in_a_task(*look.thread)) continue;
      ++in_task;
      if (const auto& futex = look.thread->futex; futex && futex->shared) ++at_lock;
    }
  }
  return rank.workers.size() > 1 && 3 * at_lock >= in_task;
}

// A trainer that is nearly always met where it waits for a batch, while workers make some.
std::optional<RootCause> slow_loader(const Facts& facts, const Rank& rank) {
  constexpr double kNearlyAll = 0.8;
  const ThreadFacts& trainer = facts.threads[rank.trainer];
  const auto waits = static_cast<size_t>(std::ranges::count_if(trainer.looks, [](const Look& look) {
    return is_in_loader(*look.thread) && !look.thread->wait.running;
  }));
  const size_t all = trainer.looks.size();
  if (all < kFewestLooks || static_cast<double>(waits) < kNearlyAll * static_cast<double>(all) ||
      rank.workers.empty())
    return std::nullopt;
  const size_t busiest = *std::ranges::max_element(
      rank.workers, {}, [&](size_t each) { return looks_in_a_task(facts.threads[each]); });
  ThreadFacts worker = facts.threads[busiest];
  const size_t in_task = looks_in_a_task(worker);
  if (2 * in_task < worker.looks.size() || in_task == 0) return std::nullopt;
  worker.thread = std::ranges::find_if(worker.looks, [](const Look& look) {
                    return is_in_a_task(*look.thread);
                  })->thread;
  Finding finding = finding_about(facts, FindingCode::kSlowSample, Confidence::kLikely, worker);
  finding.severity = Severity::kInfo;
  finding.discriminator = "slower-loader";
  finding.message = say("the loader is slower than the training: {} waited for a batch at {} of {} "
                        "looks, and {} was in the middle of one at {} of {}",
                        name_of(facts, trainer), waits, all, name_of(facts, worker), in_task,
                        worker.looks.size()) +
                    place_of(worker);
  if (wait_for_one_another(facts, rank)) {
    finding.message += "; often they wait for a lock that they share";
    finding.advise(
        "Hold that lock for less, or give each worker a file or connection of its own: more "
        "workers would wait for it, too",
        {"DataLoader(..., worker_init_fn=open_its_own)"}, "dlprobe deadlock --pid PID");
  } else {
    finding.advise(
        "Make that line faster, or let more workers do it: measure "
        "how many the job needs",
        {"dlprobe tune -- COMMAND"});
  }
  return RootCause{std::move(finding), busiest};
}

// A trainer that is mostly met where it makes tasks for workers that have none, or takes batches
// apart: that time is lost to the training.
std::optional<RootCause> slow_step(const Facts& facts, const Rank& rank) {
  constexpr double kMostly = 0.6;
  ThreadFacts trainer = facts.threads[rank.trainer];
  const auto is_in_any = [](const Look& look) { return !calling_step(*look.thread).empty(); };
  const auto in_step = static_cast<size_t>(std::ranges::count_if(trainer.looks, is_in_any));
  const size_t all = trainer.looks.size();
  const auto has_work = [&](size_t each) {
    const std::vector<Look>& looks = facts.threads[each].looks;
    const auto at_work = std::ranges::count_if(looks, [](const Look& look) {
      return look.thread->wait.running || is_in_a_task(*look.thread);
    });
    return 2 * static_cast<size_t>(at_work) > looks.size();
  };
  if (all < kFewestLooks || static_cast<double>(in_step) < kMostly * static_cast<double>(all) ||
      rank.workers.empty() || std::ranges::any_of(rank.workers, has_work))
    return std::nullopt;
  trainer.thread = std::ranges::find_if(trainer.looks, is_in_any)->thread;
  Finding finding =
      finding_about(facts, FindingCode::kTrainerBusyInLoader, Confidence::kLikely, trainer);
  finding.severity = Severity::kInfo;
  finding.discriminator = "slower-step";
  finding.message = say("{} is slower than its workers: it was at work inside its loader at {} of "
                        "{} looks",
                        name_of(facts, trainer), in_step, all) +
                    place_of(trainer) + "; " + all_of(rank.workers.size(), "worker") +
                    " mostly waited for a task";
  finding.advise(
      "Make that line faster: compute once what stays the same from batch to batch. More "
      "workers do not help",
      {}, "dlprobe stacks " + own(trainer.process->key.pid));
  return RootCause{std::move(finding), rank.trainer};
}

bool is_written_by_workers(const Facts& facts, const Need& need) {
  return need.kind == NeedKind::kChannel && need.relation == "written by" &&
         std::ranges::any_of(need.providers, [&](size_t each) {
           return facts.threads[each].role() == Role::kWorker;
         });
}

// A task of multiprocessing.Pool or an executor.
bool is_in_a_pool(const ThreadFacts& worker) {
  return std::ranges::any_of(worker.thread->stack, [](const StackFrame& frame) {
    return frame.python && (is_of_multiprocessing(frame.file, "pool.py") ||
                            is_of_standard_library(frame.file, "concurrent/futures/process.py") ||
                            frame.file.ends_with("loky/process_executor.py"));
  });
}

}  // namespace

bool is_in_loader(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return frame.python && is_of_torch(frame.file) &&
           frame.file.ends_with("torch/utils/data/dataloader.py");
  });
}

std::optional<RootCause> lock_behind_gpu(const Facts& facts, size_t waiter) {
  const ThreadFacts& trainer = facts.threads[waiter];
  const auto is_called_by_gpu = [&](const ThreadFacts& thread) {
    const auto users = std::ranges::find_if(thread.thread->stack, is_of_user);
    return std::any_of(users, thread.thread->stack.end(), [](const StackFrame& frame) {
      return !frame.python && base_name(frame.file).starts_with("libcuda.so");
    });
  };
  const auto called = std::ranges::find_if(facts.threads, [&](const ThreadFacts& thread) {
    const auto& futex = thread.thread->futex;
    return thread.process == trainer.process && futex && futex->owner_tid == trainer.thread->tid &&
           is_called_by_gpu(thread);
  });
  if (called == facts.threads.end()) return std::nullopt;
  Finding finding = finding_about(facts, FindingCode::kLockCycle, Confidence::kCertain, trainer);
  finding.message = name_of(facts, trainer) + " waits for the GPU" + place_of(trainer) +
                    ", which runs a function of the program in " + name_of(facts, *called) +
                    ", and that waits for " + called->need.words + place_of(*called);
  finding.advise(
      "Release the lock before you wait for the GPU, or take none in a function that the "
      "GPU's stream calls (cudaLaunchHostFunc)",
      {}, "dlprobe deadlock --pid " + own(trainer.process->key.pid));
  return RootCause{std::move(finding), waiter};
}

BootNs long_work(const ThreadFacts& worker) {
  return (is_in_a_pool(worker) ? 60 : 15) * kSecond;
}

Remedy remedy_for_long_work(const Facts& facts, const ThreadFacts& worker) {
  const OwnWords pid = own(worker.process->key.pid);
  // More workers hide a sample that is slow, not one that does not end.
  Remedy remedy{
      .title =
          "Look at that line: should it take so long, and does its loop end? Watch longer to "
          "see whether it moves. ",
      .commands = {"dlprobe deadlock --for 30s --pid " + pid},
      .verify = "dlprobe stacks " + pid};
  if (is_in_a_pool(worker)) {
    remedy.title += "A timeout where its result is waited for names it";
    remedy.commands.emplace_back("result.get(timeout=SECONDS)");
  } else {
    remedy.title += "A timeout names it";
    remedy.commands.emplace_back(has_data_loader(*facts.run) ? "DataLoader(..., timeout=SECONDS)"
                                                             : "queue.get(timeout=SECONDS)");
  }
  return remedy;
}

std::vector<RootCause> find_slow_loaders(const Facts& facts) {
  std::vector<RootCause> causes;
  for (const Rank& rank : ranks_of(facts))
    for (auto& cause : {slow_loader(facts, rank), slow_step(facts, rank)})
      if (cause) causes.push_back(*cause);
  return causes;
}

bool waits_for_ends(const ThreadSnapshot& thread) {
  const auto end = std::ranges::find_if(thread.stack, is_of_user);
  return std::any_of(thread.stack.begin(), end, [](const StackFrame& frame) {
    return frame.python && is_of_torch(frame.file) &&
           frame.file.ends_with("torch/multiprocessing/spawn.py");
  });
}

bool waits_for_batch(const Facts& facts, const ThreadFacts& trainer) {
  if (!waits_in_a_library(*trainer.thread) || waits_for_ends(*trainer.thread)) return false;
  const auto stands = [&](const ThreadFacts& thread) {
    return thread.still || (thread.polls_again && !goes_on(facts, thread));
  };
  if (trainer.need.kind == NeedKind::kChannel) {
    return stands(trainer) && is_written_by_workers(facts, trainer.need);
  }
  const bool parked = trainer.thread->futex.has_value() && trainer.same_stack;
  return parked && std::ranges::any_of(facts.threads, [&](const ThreadFacts& each) {
           return each.process == trainer.process && stands(each) &&
                  is_written_by_workers(facts, each.need);
         });
}

std::optional<RootCause> busy_in_loader(const Facts& facts, const Rank& rank) {
  if (!workers_are_idle(facts, rank)) return std::nullopt;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (thread.process != facts.threads[rank.trainer].process || thread.still) continue;
    const std::string_view step = calling_step(*thread.thread);
    const size_t looks = step.empty() ? 0 : looks_in_step(thread, step);
    if (looks > 1 && lasts_long(thread, looks)) return busy_in_step(facts, rank, i, looks);
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::deadlock
