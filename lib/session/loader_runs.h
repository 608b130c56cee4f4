#pragma once

#include <optional>
#include <string>

#include "lib/model/ids.h"
#include "lib/session/containment.h"
#include "lib/session/examination.h"
#include "lib/session/run_context.h"
#include "lib/session/watch.h"

namespace dlprobe {

/// Runs the reference loader, once for each plan, and looks at the machine for a gate.
class LoaderRuns final : private WatchGuide {
 public:
  /// Both must outlive it.
  LoaderRuns(RunContext& context, const LoaderSubject& subject)
      : context_(context), subject_(subject) {}

  /// Carries them all out; what comes of it is in the context.
  void run();

 private:
  void look_without_run(Message why);
  void run_plan(const std::string& executable, const LoaderPlan& plan);
  bool is_worth_a_start();
  void look_at_gate_once();
  void start_plan(const std::string& executable, const LoaderPlan& plan);
  void refuse_bad_options(const WatchResult& watched);
  RunBegin begin_of(const LoaderPlan& plan) const;
  std::optional<Trial> trial_of(const LoaderPlan& plan) const;

  bool is_stuck() override { return context_.is_stuck(); }
  std::optional<OwnWords> why_break_off(size_t living) override;

  RunContext& context_;
  const LoaderSubject& subject_;
  std::optional<Containment> containment_;  ///< of the run that goes on
  bool has_looked_at_gate_ = false;
  std::optional<BootNs> gate_deadline_;
};

}  // namespace dlprobe
