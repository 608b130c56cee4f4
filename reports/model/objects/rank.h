#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/rank_state.h"
#include "reports/model/objects/stacks.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// A worker of a rank's loader.
struct RankWorker {
  int64_t pid = 0;
  Activity activity{};
  std::optional<double> lasts_s;
};
constexpr void list_fields(auto&& field, Of<RankWorker> /*of*/) {
  field("pid", &RankWorker::pid);
  field("activity", &RankWorker::activity);
  field("lasts_s", &RankWorker::lasts_s, "for how long it has stood still");
}

/// How far a rank is in a process group.
struct FlightGroup {
  std::string name;
  int64_t enqueued = 0;
  int64_t completed = 0;
  std::optional<std::string> operation;
  std::optional<std::string> tensors;
  std::optional<Frame> at;
  std::optional<double> gives_up_in_s;
};
constexpr void list_fields(auto&& field, Of<FlightGroup> /*of*/) {
  field("name", &FlightGroup::name, Holds::kName, "\"0\" is torch's default group");
  field("enqueued", &FlightGroup::enqueued, "number of the last collective that was asked for");
  field("completed", &FlightGroup::completed, "number of the last one that is complete");
  field("operation", &FlightGroup::operation, Holds::kName, "what the last one enqueued is");
  field("tensors", &FlightGroup::tensors, Holds::kName, "that went into it: \"Float [64, 32]\"");
  field("at", &FlightGroup::at, "which asked for it: the innermost frame that is of no library");
  field("gives_up_in_s", &FlightGroup::gives_up_in_s,
        "until its timeout, where it is not complete");
}

/// What a dump of PyTorch's Flight Recorder says of a rank.
struct FlightRecord {
  double age_s = 0;
  std::vector<FlightGroup> groups;
};
constexpr void list_fields(auto&& field, Of<FlightRecord> /*of*/) {
  field("age_s", &FlightRecord::age_s, "for how long it had been written at the last look");
  field("groups", &FlightRecord::groups, "by name");
}

/// What the looks at a rank show, all but the first.
struct RankLooks {
  int64_t all = 0;
  int64_t waiting = 0;
  int64_t in_loader = 0;
};
constexpr void list_fields(auto&& field, Of<RankLooks> /*of*/) {
  field("all", &RankLooks::all);
  field("waiting", &RankLooks::waiting,
        "at how many it waited for ranks, having run since the look before");
  field("in_loader", &RankLooks::in_loader, "at how many it was in its DataLoader");
}

/// A rank of a distributed job at the last look.
struct Rank {
  std::string job;
  int32_t rank = 0;
  std::optional<int32_t> world_size;
  std::optional<int32_t> local_world_size;
  std::optional<std::string> node;
  int64_t pid = 0;
  uint64_t start_ticks = 0;
  RankDoing doing{};
  double lasts_s = 0;
  std::optional<MeetingKind> meeting;
  std::optional<std::string> operation;
  std::optional<std::string> waits_for;
  std::optional<bool> has_no_end;
  std::optional<Frame> at;
  std::optional<std::string> library;
  RankMotion motion{};
  bool stands = false;
  bool overdue = false;
  std::optional<int64_t> signal;
  std::optional<int64_t> exit_code;
  std::optional<CodeText> explained_by;
  std::vector<RankWorker> workers;
  std::optional<RankLooks> looks;
  std::optional<FlightRecord> flight_record;
};
constexpr void list_fields(auto&& field, Of<Rank> /*of*/) {
  field("job", &Rank::job, Holds::kText,
        "tells jobs apart: where its ranks meet, or the launcher's name for it; may be empty");
  field("rank", &Rank::rank);
  field("world_size", &Rank::world_size, "ranks of the job");
  field("local_world_size", &Rank::local_world_size, "ranks of the job on its node");
  field("node", &Rank::node, Holds::kHost, "of a merged report: where it runs");
  field("pid", &Rank::pid);
  field("start_ticks", &Rank::start_ticks);
  field("doing", &Rank::doing, "of its main thread");
  field("lasts_s", &Rank::lasts_s,
        "for how long it has been so; of one that ended: for how long it is gone");
  field("meeting", &Rank::meeting, "of one that waits for ranks: in which kind of operation");
  field("operation", &Rank::operation, Holds::kName, "\"all_reduce\"");
  field("waits_for", &Rank::waits_for, Holds::kSentence, "of one that waits for something else");
  field("has_no_end", &Rank::has_no_end, "likewise: nobody is left to end the wait");
  field("at", &Rank::at, "the innermost Python frame, of the user's own code if there is any");
  field("library", &Rank::library, Holds::kPath, "in which it waits");
  field("motion", &Rank::motion,
        "still: it never ran; seldom: it woke as seldom as a timeout lets it; again: it was met in "
        "the same wait each time; comes and goes: it waited for ranks at an earlier look");
  field("stands", &Rank::stands,
        "of one that waits for ranks: in one and the same operation all the time");
  field("overdue", &Rank::overdue, "for longer than anybody expects");
  field("signal", &Rank::signal, "that ended it");
  field("exit_code", &Rank::exit_code, "with which it ended");
  field("explained_by", &Rank::explained_by, "a finding about one of its own processes");
  field("workers", &Rank::workers, "of its loader");
  field("looks", &Rank::looks, "how often dlprobe looked at it, where it did more than once");
  field("flight_record", &Rank::flight_record,
        "a dump of PyTorch's Flight Recorder, if there is one");
}

}  // namespace dlprobe::report
