#include "lib/session/loader_runs.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lib/base/units.h"
#include "lib/os/pipe.h"
#include "lib/session/shm_preview.h"
#include "lib/session/step_progress.h"
#include "lib/subject/reference_loader.h"

namespace dlprobe {
namespace {

// Batches that a run of the reference loader needs to fill its queues and then show the steady
// state.
int enough_batches(const LoaderPlan& plan) {
  return std::max(10, plan.workers * plan.prefetch_factor + 6);
}

// That fault's second job must not become a child of dlprobe, and so a part of the subject.
bool plays_another_job(const LoaderPlan& plan) {
  return plan.fault.starts_with(info(FindingCode::kShmHeldByAnotherJob).name);
}

Refusal::Kind impossible(const Error& /*error*/) {
  return Refusal::Kind::kImpossible;
}

}  // namespace

void LoaderRuns::run() {
  if (subject_.gate) {
    gate_deadline_ =
        context_.recorder.recording().header.boottime_ns + subject_.gate->deadline.count();
  }
  if (subject_.gate && subject_.gate->level == "quick")
    return look_without_run("--level quick starts no loader");
  const std::string named = context_.environment("DLPROBE_REFERENCE_LOADER").value_or("");
  const auto executable = find_reference_loader(named, own_executable());
  if (!executable && subject_.gate) return look_without_run(as_text(executable.error().context));
  if (!executable) {
    context_.refuse(executable.error(), Refusal::Kind::kImpossible);
    return;
  }
  const size_t count = subject_.plans.size();
  StepProgress steps(context_.notices, *context_.machine.clock,
                     {.name = context_.request.probe, .steps = count, .until = gate_deadline_});
  for (size_t i = 0; i < count && !context_.is_over(); ++i) {
    LoaderPlan plan = subject_.plans[i];
    if (plan.batches == 0) plan.batches = enough_batches(plan);
    steps.begin(fmt::format("{}, {}, {}", to_string(plan.start_method),
                            to_string(plan.sharing_strategy), counted(plan.workers, "worker")));
    run_plan(*executable, plan);
  }
}

RunBegin LoaderRuns::begin_of(const LoaderPlan& plan) const {
  return {.subject = SubjectKind::kReferenceLoader, .plan = plan, .trial = trial_of(plan)};
}

// What is known of the loader beside what contains it.
std::optional<Trial> LoaderRuns::trial_of(const LoaderPlan& plan) const {
  std::optional<Trial> trial = subject_.trial;
  if (!trial) return std::nullopt;
  trial->start_method = plan.start_method;
  trial->sharing_strategy = plan.sharing_strategy;
  trial->workers = plan.workers;
  return trial;
}

// What the gate can tell without a run of the loader.
void LoaderRuns::look_without_run(Message why) {
  context_.begin_run(begin_of(subject_.plans.front()), subject_.limits);
  look_at_shm_of(context_.control.own_pid(), context_.machine, context_.recorder);
  look_at_gate_once();
  context_.end_run(RunEndReason::kNotStarted, std::move(why));
}

void LoaderRuns::run_plan(const std::string& executable, const LoaderPlan& plan) {
  context_.begin_run(begin_of(plan), subject_.limits);
  // In a /dev/shm of its own it harms nobody.
  const bool may_harm = plan.fault.empty() && !subject_.limits.shm_bytes;
  if (!may_harm || is_worth_a_start()) start_plan(executable, plan);
}

// A loader that would not fit is not started: on a shared /dev/shm it would take the other jobs
// down. Ends the run where it is not.
bool LoaderRuns::is_worth_a_start() {
  look_at_shm_of(context_.control.own_pid(), context_.machine, context_.recorder);
  look_at_gate_once();
  if (gate_deadline_ && context_.now() >= *gate_deadline_) {
    context_.end_run(RunEndReason::kTimeUp, "the deadline had passed");
    return false;
  }
  if (context_.has_error()) {
    context_.end_run(RunEndReason::kNotStarted, "it was not started: see the findings");
    return false;
  }
  return true;
}

// In the first run.
void LoaderRuns::look_at_gate_once() {
  if (!subject_.gate || std::exchange(has_looked_at_gate_, true)) return;
  const GateRequest& gate = *subject_.gate;
  context_.notices.show("looking at the machine and its Python");
  GateFacts facts = look_at_gate(context_.machine, gate.wish);
  facts.level = gate.level;
  facts.deadline = gate_deadline_.value_or(0);
  facts.python =
      look_at_python(context_.machine, context_.environment, gate.python, facts.deadline);
  context_.recorder.add(std::move(facts));
}

void LoaderRuns::start_plan(const std::string& executable, const LoaderPlan& plan) {
  auto progress = make_pipe();
  if (!progress) {
    context_.refuse(progress.error(), Refusal::Kind::kIncomplete);
    return;
  }
  ::fcntl(progress->read_end.get(), F_SETFL, O_NONBLOCK);
  auto scope = context_.prepare_limits(subject_.limits);
  if (!scope) return;
  const auto root = context_.start({.argv = reference_loader_argv(executable, plan),
                                    .descriptors = {{progress->write_end.get(), kProgressFd}},
                                    .dies_with_us = true,
                                    .adopts_orphans = !plays_another_job(plan),
                                    .limits = subject_.limits,
                                    .cgroup_procs = scope->cgroup_procs()},
                                   impossible);
  progress->write_end.reset();
  if (!root) return;
  WatchTarget target{.root = *root,
                     .child = root->pid,
                     .progress = std::move(progress->read_end),
                     .deadline = context_.deadline(),
                     .ends_with_watch = true};
  if (gate_deadline_) target.deadline = gate_deadline_;
  if (context_.request.looks.snapshots) {
    target.standstill =
        StandstillPolicy{.quiet_after = 2 * kSecond, .judge_after = 5 * kSecond, .end_tree = true};
  }
  if (const auto trial = trial_of(plan)) {
    containment_.emplace(*trial, context_);
    Containment::put(target.collect);
  }
  const WatchResult watched = context_.watch(std::move(target), *this);
  context_.close_limits(*scope);
  containment_.reset();
  refuse_bad_options(watched);
}

void LoaderRuns::refuse_bad_options(const WatchResult& watched) {
  const auto& status = watched.child_wait_status;
  const bool refused_its_options = status && !context_.recorder.current_run().loader &&
                                   WIFEXITED(*status) && WEXITSTATUS(*status) == kExitOfBadOptions;
  // What the gate says without it is worth a report.
  if (!refused_its_options || subject_.gate) return;
  context_.refuse({.code = ErrorCode::kInvalid, .context = std::string(kRefusedOptions)},
                  Refusal::Kind::kImpossible);
}

std::optional<OwnWords> LoaderRuns::why_break_off(size_t living) {
  return containment_ ? containment_->why_break_off(living) : std::nullopt;
}

}  // namespace dlprobe
