#pragma once

#include <string>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// A small process beside dlprobe, of a session of its own, that waits for dlprobe's end. Should
/// dlprobe be killed while a trial runs, it kills (by SIGKILL, by pid) every process that has the
/// path of the trial's private folder in its environment (but for resource trackers, which clean up
/// and end), and takes the folder away. It is no child
/// of dlprobe's and holds no descriptor of it but one end of a pipe.
class TrialWarden {
 public:
  /// `folder`: of the trial's PythonShim, which no other process knows.
  static Expected<TrialWarden> start(const std::string& folder);

  TrialWarden(TrialWarden&&) noexcept = default;
  TrialWarden& operator=(TrialWarden&&) noexcept = default;
  TrialWarden(const TrialWarden&) = delete;
  TrialWarden& operator=(const TrialWarden&) = delete;
  /// Dismisses it: the trial is over. Takes away what its processes left (trial_leftovers.h).
  ~TrialWarden();

 private:
  TrialWarden(UniqueFd line, std::string folder)
      : line_(std::move(line)), folder_(std::move(folder)) {}
  UniqueFd line_;
  std::string folder_;
};

}  // namespace dlprobe
