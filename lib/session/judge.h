#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/planned_attempt.h"
#include "lib/model/recording_view.h"
#include "lib/model/setting.h"

namespace dlprobe {

/// Knows the rules that a session does not, and is asked about its records while it goes on. Its
/// answers depend on what it is given alone, and it keeps no reference to that.
class Judge {
 public:
  virtual ~Judge() = default;
  Judge() = default;
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  /// The causes that the examination was made to find.
  virtual Verdict examine(const RecordingView& recording) const = 0;
  /// Whether the loader of the only run in `last_run` waits for what never comes.
  virtual bool is_stuck(const RecordingView& last_run) const = 0;
  /// Who of the only run in `last_run` waits for a person's input, as a sentence; empty: nobody.
  virtual std::string what_is_asked(const RecordingView& last_run) const = 0;
  /// Since when the run starts processes that fail, again and again without end; nothing: it does
  /// not.
  virtual std::optional<BootNs> in_vain_since(const Run& run) const = 0;
  /// What of the only run in `last_run` a longer watch would tell: "something rises", too steep to
  /// say that it does not grow; "something stands still", for too short a time to blame it. Empty:
  /// nothing.
  virtual std::string_view why_watch_longer(const RecordingView& last_run) const = 0;

  /// Of a trial: how many processes may live at once.
  virtual size_t allowed_processes(const Run& run) const = 0;
  /// The length of the longest row of processes that each run the same as their parent.
  virtual size_t generations(const Run& run) const = 0;
  /// Whether the command failed before it started a process, as it will under any start method.
  virtual bool failed_by_itself(const Run& run) const = 0;
  /// Whether a trial under fork could tell why the others failed.
  virtual bool wants_control(const RecordingView& recording) const = 0;
  /// What the program did otherwise than `setting` asks for, as a sentence; empty: nothing.
  virtual std::string what_won_over(const Run& run, const Setting& setting) const = 0;

  /// Whether a remedy of the finding may be tried by running the command again.
  virtual bool is_worth_a_try(const Finding& finding) const = 0;
  virtual std::vector<PlannedAttempt> plan_attempts(const Verdict& verdict) const = 0;
  /// Whether `planned`, whose run was `attempt`, seems to end one of the findings that it is for.
  virtual bool seems_to_help(const PlannedAttempt& planned, const Run& attempt,
                             const Verdict& verdict, const Recording& recording) const = 0;
};

}  // namespace dlprobe
