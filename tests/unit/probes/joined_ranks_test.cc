#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/units.h"
#include "probes/deadlock/judge_ranks.h"

namespace dlprobe {
namespace {

using probes::deadlock::judge_ranks;
using testing::HasSubstr;

// Ranks 0 to 3 are on n1, ranks 4 to 7 on n2. All wait in all_reduce at train.py:41 for 40 s.
class Nodes {
 public:
  Nodes() {
    for (int32_t rank = 0; rank < 8; ++rank) {
      RankState& state = ranks.emplace_back();
      state.id =
          JobRank{.job = "10.0.0.1:29500", .rank = rank, .world_size = 8, .local_world_size = 4};
      state.node = rank < 4 ? "n1" : "n2";
      // Pids are the node's own: those of two nodes may be equal.
      state.process = {.pid = 4711 + rank % 4, .start_ticks = 1};
      state.looks.motion = RankMotion::kStill;
      state.lasts = 40 * kSecond;
      state.is_overdue = true;
      state.workers = {{.pid = 5000 + rank}};
      waits(rank, "all_reduce", 41);
    }
  }

  void waits(int32_t rank, const std::string& operation, int32_t line) {
    RankState& state = at(rank);
    state.doing = RankDoing::kMeets;
    state.meeting = Meeting{.operation = operation, .stands = true};
    state.at = StackFrame{.python = true, .function = "main", .file = "train.py", .line = line};
  }

  void sleeps(int32_t rank) {
    RankState& state = at(rank);
    state.doing = RankDoing::kSleeps;
    state.meeting.reset();
    state.at = StackFrame{.python = true, .function = "upload", .file = "train.py", .line = 17};
  }

  void works(int32_t rank) {
    sleeps(rank);
    at(rank).doing = RankDoing::kWorks;
    at(rank).looks.motion = RankMotion::kRuns;
  }

  void ends(int32_t rank, int32_t wait_status) {
    sleeps(rank);
    at(rank).doing = RankDoing::kEnded;
    at(rank).wait_status = wait_status;
  }

  void erase(int32_t first, int32_t last) {
    std::erase_if(ranks, [&](const RankState& each) {
      return each.id->rank >= first && each.id->rank <= last;
    });
  }

  RankState& at(int32_t rank) { return ranks.at(static_cast<size_t>(rank)); }

  std::vector<RankState> ranks;
};

// The one finding of these ranks.
Finding only(const Nodes& nodes) {
  const std::vector<RankFinding> found = judge_ranks(nodes.ranks);
  EXPECT_EQ(found.size(), 1U);
  return found.empty() ? Finding{} : found.front().finding;
}

TEST(JoinedRanks, TheOneOfAnotherNodeThatHasNotComeIsNamed) {
  Nodes nodes;
  nodes.sleeps(5);
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_EQ(finding.message.plain(),
            "rank 5 (n2, pid 4712) sleeps (upload, train.py:17), and ranks 0-4, 6, 7 wait in "
            "all_reduce (main, train.py:41), for 40.0 s so far");
}

TEST(JoinedRanks, OneThatWorksIsAWord) {
  Nodes nodes;
  nodes.works(5);
  EXPECT_EQ(only(nodes).severity, Severity::kInfo);
  for (RankState& each : nodes.ranks)
    each.lasts = 61 * kSecond;
  EXPECT_EQ(only(nodes).severity, Severity::kWarning) << "a checkpoint takes no minute";
}

TEST(JoinedRanks, OneThatWaitsForItsCompilerIsAWord) {
  Nodes nodes;
  nodes.sleeps(5);
  nodes.at(5).doing = RankDoing::kWaitsForChild;
  nodes.at(5).other.words = "process 4800 to end";
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding.message.plain(), HasSubstr("waits for process 4800 to end"));
}

TEST(JoinedRanks, TheRemediesFollowWhatTheRankDoes) {
  const auto first_remedy = [](RankDoing doing, std::optional<RankCause> cause = std::nullopt) {
    Nodes nodes;
    nodes.sleeps(5);
    nodes.at(5).doing = doing;
    nodes.at(5).cause = cause;
    const Finding finding = only(nodes);
    EXPECT_LE(finding.remedies.size(), 2U);
    return finding.remedies.empty() ? "" : finding.remedies.front().title.plain();
  };
  EXPECT_THAT(first_remedy(RankDoing::kSleeps), HasSubstr("on every rank"));
  EXPECT_THAT(first_remedy(RankDoing::kWorks), HasSubstr("on every rank"));
  EXPECT_THAT(first_remedy(RankDoing::kWaitsForBatch), HasSubstr("its loader"));
  EXPECT_THAT(first_remedy(RankDoing::kWaitsForChild), HasSubstr("that process"));
  EXPECT_THAT(first_remedy(RankDoing::kWaits),
              HasSubstr("Look at what that rank does there, on n2"));
  EXPECT_THAT(first_remedy(RankDoing::kWaitsForBatch, RankCause{.code = FindingCode::kSlowSample,
                                                                .severity = Severity::kWarning}),
              HasSubstr("DLP0313"));
}

TEST(JoinedRanks, AJobThatMovesIsNoFinding) {
  Nodes nodes;
  for (RankState& each : nodes.ranks) {
    each.looks.motion = RankMotion::kAgain;
    each.meeting->stands = false;
  }
  EXPECT_TRUE(judge_ranks(nodes.ranks).empty());
  nodes.works(5);
  EXPECT_TRUE(judge_ranks(nodes.ranks).empty()) << "the others wait for no one rank";
}

TEST(JoinedRanks, AJobThatMovesHasItsSlowestRank) {
  Nodes nodes;
  for (RankState& each : nodes.ranks) {
    each.looks = {.motion = RankMotion::kRuns, .all = 10, .waiting = 9};
    each.meeting->stands = false;
  }
  EXPECT_TRUE(judge_ranks(nodes.ranks).empty()) << "all wait alike";
  nodes.works(5);
  nodes.at(5).looks = {.motion = RankMotion::kRuns, .all = 12, .waiting = 1, .in_loader = 11};
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kSlowestRank);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding.message.plain(),
              HasSubstr("each of the others waited for ranks at 9 of 10 looks, this one at 1; it "
                        "was in its DataLoader at 11"));
  EXPECT_THAT(finding.remedies.front().title.plain(), HasSubstr("its loader is late"));
  nodes.at(5).looks.in_loader = 0;
  EXPECT_THAT(only(nodes).remedies.front().title.plain(), HasSubstr("what that rank does"));
  nodes.at(2).looks.waiting = 5;
  EXPECT_TRUE(judge_ranks(nodes.ranks).empty()) << "two are slow by turns";
}

TEST(JoinedRanks, WhoWaitsForAMessageIsNamedBeforeThoseInACollective) {
  Nodes nodes;
  nodes.erase(3, 7);
  for (RankState& each : nodes.ranks)
    each.id->world_size = 3, each.id->local_world_size = 3;
  for (const int32_t rank : {0, 1}) {
    nodes.waits(rank, "recv", 7 + rank);
    nodes.at(rank).meeting->kind = MeetingKind::kMessage;
  }
  const std::vector<RankFinding> found = judge_ranks(nodes.ranks);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().finding.code, FindingCode::kCollectiveMismatch);
  EXPECT_EQ(found.front().ranks, (std::vector<size_t>{1, 0})) << "rank 2 is not the reason";
  EXPECT_THAT(found.front().finding.message.plain(),
              HasSubstr("recv (main, train.py:8); rank 2 (n1, pid 4713) waits in all_reduce"));
  EXPECT_THAT(found.front().finding.remedies.front().commands.front().plain(),
              HasSubstr("batch_isend_irecv"));
}

TEST(JoinedRanks, AWaitThatNobodyCanEndIsAnError) {
  Nodes nodes;
  nodes.sleeps(5);
  RankState& rank = nodes.at(5);
  rank.doing = RankDoing::kWaits;
  rank.other.words = "a lock of a file held by rank 0";
  EXPECT_EQ(only(nodes).severity, Severity::kWarning);
  rank.other.has_no_end = true;
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.message.plain(), HasSubstr("nobody is left to end what it waits for"));
}

TEST(JoinedRanks, ThoseOfAnotherLauncherMayBeOnTheSameMachine) {
  Nodes nodes;
  nodes.erase(0, 3);
  for (RankState& each : nodes.ranks)
    each.node.clear(), each.id->job = "127.0.0.1:29500";
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kRankBehind);
  EXPECT_THAT(finding.message.plain(), HasSubstr("ranks 0-3, which dlprobe did not look at,"));
  for (RankState& each : nodes.ranks)
    each.id->local_world_size = 8;
  EXPECT_EQ(only(nodes).code, FindingCode::kRankDead) << "one launcher has started all of them";
}

TEST(JoinedRanks, ThoseThatStandAreNamedBeforeThoseAtWork) {
  Nodes nodes;
  for (const int32_t rank : {4, 5, 6})
    nodes.works(rank);
  nodes.sleeps(7);
  const std::vector<RankFinding> found = judge_ranks(nodes.ranks);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].finding.message.plain(), HasSubstr("rank 7 (n2, pid 4714) sleeps"));
  EXPECT_THAT(found[0].finding.message.plain(), HasSubstr("; ranks 4-6 are at work"));
  EXPECT_EQ(found[0].finding.severity, Severity::kWarning);
}

TEST(JoinedRanks, WhatIsWrongWithTheRankComesFirst) {
  Nodes nodes;
  nodes.sleeps(5);
  nodes.at(5).doing = RankDoing::kWaitsForBatch;
  nodes.at(5).cause = RankCause{FindingCode::kForkInheritedLock, Severity::kError};
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.consequence_of, FindingCode::kForkInheritedLock);
  EXPECT_THAT(finding.message.plain(), HasSubstr("waits for a batch of its loader"));
}

TEST(JoinedRanks, OperationsOfTwoNodesThatDoNotFitTogether) {
  Nodes nodes;
  nodes.waits(5, "broadcast", 44);
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kCollectiveMismatch);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.message.plain(),
              HasSubstr("ranks 0-4, 6, 7 wait in all_reduce (main, train.py:41); rank 5 (n2, pid "
                        "4712) waits in broadcast (main, train.py:44)"));
}

TEST(JoinedRanks, OneWithoutWorkersIsThroughWithItsData) {
  Nodes nodes;
  nodes.waits(5, "barrier", 60);
  nodes.at(5).workers.clear();
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kUnevenData);
  EXPECT_THAT(finding.message.plain(), HasSubstr("rank 5 (n2, pid 4712) is through with the data"));
  for (RankState& each : nodes.ranks)
    each.data.started = 2;
  EXPECT_EQ(only(nodes).code, FindingCode::kUnevenData);
  nodes.at(5).data.started = 1;
  EXPECT_EQ(only(nodes).code, FindingCode::kCollectiveMismatch) << "it never began that loader";
}

TEST(JoinedRanks, OneInTheMiddleOfItsDataIsToldWithItsBatch) {
  Nodes nodes;
  nodes.waits(5, "barrier", 60);
  nodes.at(5).workers.clear();
  nodes.at(2).data.batches = 12;
  EXPECT_THAT(only(nodes).message.plain(), HasSubstr("the middle of it (rank 2 (n1, pid "));
  EXPECT_THAT(only(nodes).message.plain(), HasSubstr(") at batch 12 of its loop)"));
}

// As where only one rank gathers its metrics, and the others are done.
TEST(JoinedRanks, WhoHasNoWorkersAnyMoreIsNotInTheMiddleOfItsData) {
  Nodes nodes;
  for (RankState& each : nodes.ranks) {
    each.workers.clear();
    each.data.started = 2;
    if (each.id->rank != 0) each.meeting->kind = MeetingKind::kEnd;
  }
  EXPECT_EQ(only(nodes).code, FindingCode::kCollectiveMismatch);
  nodes.at(0).data.batches = 12;
  EXPECT_EQ(only(nodes).code, FindingCode::kUnevenData) << "it is, and its workers are threads";
  nodes.at(0).data.batches.reset();
  for (RankState& each : nodes.ranks)
    each.data.started = 0;
  EXPECT_EQ(only(nodes).code, FindingCode::kUnevenData) << "nothing is known of its data";
}

TEST(JoinedRanks, OneThatEndedOnItsNodeIsDead) {
  Nodes nodes;
  nodes.ends(5, 3 << 8);
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kRankDead);
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_THAT(finding.processes, testing::Contains(nodes.at(5).process));
  EXPECT_THAT(finding.message.plain(),
              HasSubstr("rank 5 (n2, pid 4712) has exited with code 3, and ranks 0-4, 6, 7 wait"));
  nodes.ends(5, 0);
  EXPECT_EQ(only(nodes).code, FindingCode::kUnevenData);
}

TEST(JoinedRanks, OneThatEndedBeforeTheyMetHasNoFewerBatches) {
  Nodes nodes;
  for (RankState& each : nodes.ranks) {
    each.meeting->kind = MeetingKind::kRendezvous;
    each.meeting->operation = "init_process_group";
  }
  nodes.ends(5, 0);
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kRankDead);
  EXPECT_THAT(finding.message.plain(),
              HasSubstr("rank 5 (n2, pid 4712) has exited with code 0 before it had met the "
                        "others, and ranks 0-4, 6, 7 wait in init_process_group"));
  EXPECT_THAT(finding.remedies.front().title.plain(), HasSubstr("come to where they meet"));
}

// Whoever is gone longest made the others wait; clocks of nodes say nothing of it.
TEST(JoinedRanks, OfSeveralThatEndedTheFirstCounts) {
  Nodes nodes;
  nodes.ends(2, 9);
  nodes.at(2).lasts = 10 * kSecond;
  nodes.ends(5, 3 << 8);
  nodes.at(5).lasts = 12 * kSecond;
  EXPECT_THAT(only(nodes).message.plain(), HasSubstr("rank 5 (n2, pid 4712) has exited"));
}

TEST(JoinedRanks, OneThatIsOnNoneOfItsNodesIsGone) {
  Nodes nodes;
  nodes.erase(5, 5);
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kRankDead);
  EXPECT_THAT(finding.message.plain(), HasSubstr("rank 5 of this job is on none of its nodes"));
}

TEST(JoinedRanks, RanksOfANodeThatIsNotThereMayBeWaitedFor) {
  Nodes nodes;
  nodes.erase(4, 7);
  const Finding finding = only(nodes);
  EXPECT_EQ(finding.code, FindingCode::kRankBehind);
  EXPECT_THAT(finding.message.plain(), HasSubstr("ranks 4-7 are in no report"));
}

// dlprobe may have looked at one rank of the node alone.
TEST(JoinedRanks, WhereOneOfSeveralIsSeenTheOthersMayBeThere) {
  Nodes nodes;
  nodes.erase(5, 7);
  EXPECT_EQ(only(nodes).code, FindingCode::kRankBehind);
}

// All but rank 5 wait in their twelfth all_reduce, and each has a dump that is 20 s old.
class DumpedNodes : public Nodes {
 public:
  DumpedNodes() {
    for (int32_t rank = 0; rank < 8; ++rank)
      enqueues(rank, 12, "all_reduce");
    sleeps(5);
    group(5) = {.name = "0", .enqueued = 11, .completed = 11, .operation = "all_reduce"};
  }

  void enqueues(int32_t rank, int64_t number, const std::string& operation) {
    at(rank).flight = FlightRecord{
        .age_ns = 20 * kSecond,
        .groups = {{.name = "0",
                    .enqueued = number,
                    .completed = 11,
                    .operation = operation,
                    .tensors = "Float [8]",
                    .at = StackFrame{.python = true, .file = "train.py", .line = 41}}}};
  }
  FlightGroup& group(int32_t rank) {
    auto& flight = at(rank).flight;
    return flight ? flight->groups.front() : nothing_;
  }

 private:
  FlightGroup nothing_;
};

// What the dumps say in the one finding; empty: nothing.
std::string said_by_dumps(const Nodes& nodes) {
  for (const Evidence& piece : only(nodes).evidence) {
    const auto* words = std::get_if<Message>(&piece.value);
    if (piece.name == "flight_recorder" && words != nullptr) return words->plain();
  }
  return "";
}

TEST(FlightProof, SaysWhatTheOneThatIsBehindHasNotEnqueued) {
  DumpedNodes nodes;
  EXPECT_EQ(said_by_dumps(nodes),
            "ranks 0-4, 6, 7 enqueued all_reduce number 12 (train.py:41); rank 5 (n2, pid 4712) "
            "completed 11 and enqueued none after it (oldest dump written 20.0 s ago)");
  nodes.group(5).completed = 10;
  EXPECT_THAT(said_by_dumps(nodes), HasSubstr("enqueued 11 and completed 10"));
  nodes.at(5).flight->groups.clear();
  EXPECT_THAT(said_by_dumps(nodes), HasSubstr("rank 5 (n2, pid 4712) enqueued none (oldest"));
  nodes.at(0).flight.reset();
  EXPECT_THAT(said_by_dumps(nodes), HasSubstr("ranks 1-4, 6, 7 enqueued"));
}

TEST(FlightProof, IsNoneWhereDumpsAreOlderThanTheHang) {
  DumpedNodes nodes;
  nodes.at(5).flight->age_ns = 41 * kSecond;
  EXPECT_EQ(said_by_dumps(nodes), "");
  nodes.at(5).flight->age_ns = 20 * kSecond;
  for (int32_t rank = 0; rank < 8; ++rank)
    nodes.at(rank).flight->age_ns = 41 * kSecond;
  EXPECT_EQ(said_by_dumps(nodes), "");
}

TEST(FlightProof, IsNoneWhereDumpsContradictOneAnotherOrTheStacks) {
  DumpedNodes nodes;
  nodes.group(5).enqueued = 12;
  EXPECT_EQ(said_by_dumps(nodes), "") << "it has come to it";
  nodes.group(5).enqueued = 11;
  nodes.group(3).enqueued = 13;
  EXPECT_EQ(said_by_dumps(nodes), "");
  nodes.group(3).enqueued = 12;
  nodes.group(5).name = "1";
  EXPECT_EQ(said_by_dumps(nodes), "") << "it may be no member of that group";
  nodes.group(5).name = "0";
  nodes.group(3).completed = 12;
  EXPECT_EQ(said_by_dumps(nodes), "") << "it waits for nothing";
  nodes.at(5).flight.reset();
  EXPECT_EQ(said_by_dumps(nodes), "");
}

TEST(FlightProof, SaysInWhatRanksDiffer) {
  DumpedNodes nodes;
  for (int32_t rank = 0; rank < 8; ++rank) {
    nodes.waits(rank, "all_reduce", 41);
    nodes.enqueues(rank, 12, "all_reduce");
  }
  EXPECT_EQ(said_by_dumps(nodes), "") << "they do not";
  nodes.group(5).tensors = "Float [9]";
  EXPECT_EQ(said_by_dumps(nodes),
            "ranks 0-4, 6, 7 are in all_reduce number 12, Float [8] (train.py:41), rank 5 (n2, pid "
            "4712) is in all_reduce number 12, Float [9] (train.py:41) (oldest dump written 20.0 s "
            "ago)");
  nodes.at(5).flight.reset();
  EXPECT_EQ(said_by_dumps(nodes), "");
}

TEST(FlightProof, TheTimeoutIsKnown) {
  DumpedNodes nodes;
  EXPECT_THAT(only(nodes).message.plain(), testing::Not(HasSubstr("give up")));
  nodes.group(0).gives_up_in_ns = 1400 * kSecond;
  nodes.group(1).gives_up_in_ns = 1380 * kSecond;
  EXPECT_THAT(only(nodes).message.plain(), HasSubstr("so far; they give up in about 23 min"));
}

// A size that no job has costs nothing.
TEST(JoinedRanks, AWorldOfTwoBillionIsARange) {
  Nodes nodes;
  for (RankState& each : nodes.ranks)
    each.id->world_size = 2'147'483'647;
  EXPECT_THAT(only(nodes).message.plain(), HasSubstr("ranks 8-2147483646 are in no report"));
}

}  // namespace
}  // namespace dlprobe
