#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/unique_fd.h"
#include "lib/session/containment.h"
#include "lib/session/examination.h"
#include "lib/session/run_context.h"
#include "lib/session/watch.h"
#include "lib/subject/child_process.h"
#include "lib/subject/python_shim.h"

namespace dlprobe {

/// Runs a command: once as it is, or once under each trial, contained.
class CommandRuns final : private WatchGuide {
 public:
  /// Both must outlive it.
  CommandRuns(RunContext& context, const CommandSubject& subject)
      : context_(context), subject_(subject) {}

  /// Carries them all out; what comes of it is in the context.
  void run();

 private:
  void run_once(const std::optional<Trial>& trial);
  std::optional<ProcessKey> start(ChildSpec spec, const std::optional<Trial>& trial);
  void do_without_witness(Message why, const char* remedy);
  bool prepare_shim(ChildSpec& spec, const std::optional<Trial>& trial);
  bool set_apart(ChildSpec& spec, UniqueFd& null);
  WatchTarget target_of(const ProcessKey& root, const std::optional<Trial>& trial);
  void end_what_goes_on(const WatchResult& watched, pid_t child);
  void tell_which_overrides_failed() const;
  void tell_what_is_asked();
  void take_crashes();
  void tell_own_limit();
  void learn_timeout(const StartEvent& event);
  void learn_rank(const StartEvent& event);
  void look_at_tasks(const std::optional<ProcessKey>& refused);
  bool ends_its_command() const { return subject_.confirm || subject_.attempt; }

  void take_news() override;
  std::map<ProcessKey, JobRank> take_ranks() override { return std::exchange(ranks_, {}); }
  void look_now_and_then() override;
  std::optional<OwnWords> why_break_off(size_t living) override;
  BootNs gives_up_after() override { return shortest_timeout_; }
  std::optional<BootNs> in_vain_since() override;
  bool is_stuck() override;
  void tell_stuck() override;
  void tell_moves_again(BootNs stood) override;

  RunContext& context_;
  const CommandSubject& subject_;
  // Of the run that goes on:
  std::optional<PythonShim> shim_;
  std::shared_ptr<void> guard_;  ///< ends the trial should dlprobe be killed
  std::optional<Containment> containment_;
  std::map<ProcessKey, JobRank> ranks_;  ///< told since the last call
  size_t ended_ = 0;                     ///< processes, when it was last asked who crashed
  bool was_told_early_ = false;
  bool was_told_of_question_ = false;
  BootNs shortest_timeout_ = 0;  ///< of its loaders and process groups; 0: none has one
};

}  // namespace dlprobe
