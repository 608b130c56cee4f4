#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// A process of this user that sleeps, to try on it what may be done with processes. It ends when
/// it is destroyed, and when dlprobe ends however that comes.
class StandIn {
 public:
  enum class Kinship {
    kChild,     ///< as what dlprobe starts
    kStranger,  ///< no descendant of dlprobe, as what a user's shell or scheduler starts
  };
  static Expected<StandIn> start(Kinship kinship);

  StandIn(StandIn&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        is_child_(other.is_child_),
        lifeline_(std::move(other.lifeline_)) {}
  StandIn& operator=(StandIn&&) = delete;
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  ~StandIn();

  pid_t pid() const { return pid_; }

 private:
  StandIn(pid_t pid, bool is_child, UniqueFd lifeline)
      : pid_(pid), is_child_(is_child), lifeline_(std::move(lifeline)) {}

  pid_t pid_;
  bool is_child_;
  UniqueFd lifeline_;  ///< the other end sees its end of file when nobody has this one
};

/// What `work` gives in a child that then ends: for what a process can do to itself and not undo,
/// as to enter a namespace.
Status try_in_child(const std::function<Status()>& work);

}  // namespace dlprobe
