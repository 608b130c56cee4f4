#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/message.h"
#include "lib/base/names.h"
#include "lib/model/ids.h"
#include "lib/model/process.h"
#include "lib/model/snapshot.h"
#include "lib/model/wait_graph.h"

namespace dlprobe {

enum class FindingCode;
enum class Severity;

/// What the main thread of a rank did at the last look.
enum class RankDoing {
  kMeets,          ///< waits in an operation in which ranks meet
  kWorks,          ///< it ran
  kSleeps,         ///< in a timed sleep
  kWaitsForBatch,  ///< of its loader
  kWaitsForChild,  ///< for the end of a process that it has started: a compiler, an upload
  kWaits,          ///< for something else
  kEnded,          ///< it is gone
  kPolls,          ///< sleeps for a moment, at one and the same place again and again
};
template <>
struct Names<RankDoing> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"waits for ranks", "works", "sleeps", "waits for a batch",
                                       "waits for a child", "waits", "ended", "polls"});
};

/// What kind of an operation it is in which ranks meet.
enum class MeetingKind {
  kCollective,
  kRendezvous,  ///< ranks find one another; its members may not be there yet
  kMessage,     ///< from one rank to another, or a key that one sets: the others have no part in it
  kEnd,         ///< the program is over, and its library takes leave of the others
  kGpu,         ///< what the GPU is at: a collective that is in a stream, or the rank's own work
  kCall,        ///< the result of a function that another rank carries out (torch.distributed.rpc)
};
template <>
struct Names<MeetingKind> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"collective", "rendezvous", "message", "end", "gpu", "call"});
};

/// How the main thread of a rank moved while it was watched.
enum class RankMotion {
  kStill,   ///< it never ran
  kSeldom,  ///< it woke as seldom as a timeout lets it
  kAgain,   ///< it woke more often, and was met in the same wait each time
  kRuns,
  kComesAndGoes,  ///< it ran, and an earlier look met it where it waits for ranks
};
template <>
struct Names<RankMotion> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"still", "seldom", "again", "runs", "comes and goes"});
};

/// An operation in which ranks of a job wait for one another.
struct Meeting {
  MeetingKind kind = MeetingKind::kCollective;
  std::string operation;  ///< "all_reduce"
  bool stands = false;    ///< the rank was in one and the same all the time
  /// It waits on a connection to an address that each machine is itself (127.0.0.1).
  bool is_local = false;
  bool operator==(const Meeting&) const = default;
};

/// What is wrong with a rank itself: why the others wait for it.
struct RankCause {
  FindingCode code{};
  Severity severity{};
  bool operator==(const RankCause&) const = default;
};

/// A worker of a rank's loader.
struct RankWorker {
  int32_t pid = 0;
  Activity activity = Activity::kUnknown;
  std::optional<BootNs> lasts;  ///< for how long it has stood still
  bool operator==(const RankWorker&) const = default;
};

/// What the looks at a rank show of it.
struct RankLooks {
  RankMotion motion = RankMotion::kRuns;
  int64_t all = 0;        ///< after the first
  int64_t waiting = 0;    ///< at how many of them it waited for other ranks, having run before
  int64_t in_loader = 0;  ///< at how many of them it was in its DataLoader
  bool operator==(const RankLooks&) const = default;
};

/// What a rank waits for that is no rank.
struct OtherWait {
  Message words;        ///< empty: for ranks, or not at all
  std::string library;  ///< in whose code it stands
  /// Nobody is left to end the wait: who could waits in turn, or is in an operation in which the
  /// ranks meet.
  bool has_no_end = false;
  bool operator==(const OtherWait&) const = default;
};

/// How far it is in its data, as its interpreter told, or its memory tells.
struct RankData {
  int64_t started = 0;             ///< processes; 0: none is known
  std::optional<int64_t> batches;  ///< taken in the loop over a DataLoader that it is in
  bool operator==(const RankData&) const = default;
};

/// A rank of a distributed job at the last look at it. Times are durations: clocks of nodes differ.
struct RankState {
  std::optional<JobRank> id;  ///< nothing: its launcher has not told it
  std::string node;           ///< of several nodes' reports: whose; empty: this machine
  ProcessKey process;
  Role role = Role::kTrainer;
  RankDoing doing = RankDoing::kWorks;
  std::optional<Meeting> meeting;  ///< where it waits for ranks
  OtherWait other;                 ///< where it waits for something else
  std::optional<StackFrame> at;    ///< the innermost Python frame, of the user's own code if any
  BootNs lasts = 0;  ///< for how long it has been so; of one that ended: for how long it is gone
  RankLooks looks;
  bool is_overdue = false;         ///< for longer than anybody expects
  std::optional<RankCause> cause;  ///< found in one of its processes
  std::vector<RankWorker> workers;
  RankData data;
  std::optional<int32_t> wait_status;  ///< of one that ended, as wait(2) has it
  std::optional<FlightRecord> flight;  ///< what a dump of its Flight Recorder says
  bool operator==(const RankState&) const = default;

  /// It waits for the GPU: that others wait for it, or it for them, is not proved.
  bool is_on_gpu() const { return meeting && meeting->kind == MeetingKind::kGpu; }
  /// It goes from one operation in which ranks meet to the next.
  bool goes_on_meeting() const {
    return meeting && !is_on_gpu() && !meeting->stands && looks.motion == RankMotion::kRuns;
  }
  /// It woke as seldom as a timeout lets it, or never.
  bool sleeps() const {
    return looks.motion == RankMotion::kStill || looks.motion == RankMotion::kSeldom;
  }
};

}  // namespace dlprobe
