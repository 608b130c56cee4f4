#include <gtest/gtest.h>

#include "lib/base/units.h"
#include "lib/model/log_text.h"
#include "probes/facts/facts.h"
#include "probes/facts/printed.h"
#include "probes/merge.h"
#include "probes/probe.h"

namespace dlprobe {
namespace {

std::vector<FindingCode> codes_of(const Verdict& verdict) {
  std::vector<FindingCode> codes;
  for (const Finding& finding : verdict.findings)
    codes.push_back(finding.code);
  return codes;
}

TEST(MergeVerdicts, ErrorsFirstTheSurerOnesBeforeTheOthersCausesBeforeConsequences) {
  Finding warning = new_finding(FindingCode::kShmStaleFiles, Confidence::kCertain);
  Finding likely = new_finding(FindingCode::kShmExhausted, Confidence::kLikely);
  Finding certain = new_finding(FindingCode::kForkInheritedLock, Confidence::kCertain);
  Finding consequence = new_finding(FindingCode::kWorkerStopped, Confidence::kCertain);
  consequence.consequence_of = FindingCode::kForkInheritedLock;
  const Verdict all =
      merge_verdicts({{.findings = {warning, likely}}, {.findings = {consequence, certain}}});
  EXPECT_EQ(codes_of(all), (std::vector{FindingCode::kForkInheritedLock, FindingCode::kShmExhausted,
                                        FindingCode::kWorkerStopped, FindingCode::kShmStaleFiles}));
}

TEST(MergeVerdicts, RisksThatOthersLeftComeAfterWhatIsSaidOfTheJob) {
  const Finding left = new_finding(FindingCode::kLeakedSemaphores, Confidence::kCertain);
  Finding own = new_finding(FindingCode::kSlowSample, Confidence::kLikely);
  own.processes = {{101, 1}};
  const Verdict all = merge_verdicts({{.findings = {left}}, {.findings = {own}}});
  EXPECT_EQ(codes_of(all), (std::vector{FindingCode::kSlowSample, FindingCode::kLeakedSemaphores}));
}

TEST(MergeVerdicts, RisksThatOthersLeftComeAfterTheWaitInWhichTheJobStands) {
  const Finding left = new_finding(FindingCode::kShmStaleFiles, Confidence::kCertain);
  Finding wait = new_finding(FindingCode::kConsumerStuck, Confidence::kLikely);
  wait.severity = Severity::kInfo;
  wait.processes = {{101, 1}};
  Finding risk = new_finding(FindingCode::kSlowSample, Confidence::kLikely);
  risk.processes = {{102, 1}};
  const Verdict all = merge_verdicts({{.findings = {left}}, {.findings = {wait, risk}}});
  EXPECT_EQ(codes_of(all), (std::vector{FindingCode::kSlowSample, FindingCode::kConsumerStuck,
                                        FindingCode::kShmStaleFiles}));
}

TEST(MarkHangsAfterDeaths, AHangAfterADeathIsItsConsequence) {
  Finding death = new_finding(FindingCode::kOomKilledByCgroup, Confidence::kCertain);
  death.severity = Severity::kError;
  death.runs = {0};
  death.first_seen = 10;
  Finding hang = new_finding(FindingCode::kBatchLostInWorker, Confidence::kCertain);
  hang.runs = {0};
  hang.last_seen = 20;
  std::vector hangs = {hang, hang, hang, new_finding(FindingCode::kShmLeak, Confidence::kCertain)};
  hangs[1].last_seen = 5;
  hangs[2].runs = {1};
  std::vector deaths = {death};
  mark_hangs_after_deaths(hangs, deaths);
  EXPECT_EQ(hangs[0].consequence_of, FindingCode::kOomKilledByCgroup);
  EXPECT_FALSE(hangs[1].consequence_of);  // it was over before
  EXPECT_FALSE(hangs[2].consequence_of);
  EXPECT_FALSE(hangs[3].consequence_of);
}

TEST(MarkHangsAfterDeaths, ARankIsDeadByWhatEndedIt) {
  Finding death = new_finding(FindingCode::kUncaughtException, Confidence::kLikely);
  death.severity = Severity::kWarning;  // the launcher goes on
  death.first_seen = 10;
  death.processes = {{101, 1}};
  Finding dead = new_finding(FindingCode::kRankDead, Confidence::kCertain);
  dead.last_seen = 20;
  dead.processes = {{100, 1}, {101, 1}};
  std::vector hangs = {dead, dead};
  hangs[1].processes.pop_back();  // another one ended
  std::vector deaths = {death};
  mark_hangs_after_deaths(hangs, deaths);
  EXPECT_EQ(hangs[0].consequence_of, FindingCode::kUncaughtException);
  EXPECT_FALSE(hangs[1].consequence_of);
  const Verdict all = merge_verdicts({{.findings = {hangs[0]}}, {.findings = deaths}});
  EXPECT_EQ(codes_of(all), (std::vector{FindingCode::kUncaughtException, FindingCode::kRankDead}));
}

TEST(MarkHangsAfterDeaths, ABusErrorIsNeverOrdinary) {
  Finding death = new_finding(FindingCode::kBusErrorOnFileMapping, Confidence::kLikely);
  death.severity = Severity::kWarning;
  death.first_seen = 10;
  std::vector hangs = {new_finding(FindingCode::kBatchLostInWorker, Confidence::kCertain)};
  hangs[0].last_seen = 20;
  std::vector deaths = {death};
  mark_hangs_after_deaths(hangs, deaths);
  EXPECT_EQ(hangs[0].consequence_of, FindingCode::kBusErrorOnFileMapping);
}

TEST(MarkHangsAfterDeaths, AnEndThatMayHaveBeenOrdinaryExplainsNoHang) {
  Finding death = new_finding(FindingCode::kWorkerExited, Confidence::kLikely);
  death.severity = Severity::kError;
  death.first_seen = 10;
  std::vector hangs = {new_finding(FindingCode::kLockCycle, Confidence::kLikely)};
  hangs[0].last_seen = 20;
  std::vector deaths = {death};
  mark_hangs_after_deaths(hangs, deaths);
  EXPECT_FALSE(hangs[0].consequence_of);
}

// A finding that was seen from the one second to the other, and who then ended the job by a signal.
struct EndedJob {
  std::vector<Finding> causes;
  std::vector<Finding> deaths;
};
EndedJob ended_after(FindingCode code, int64_t first_s, int64_t last_s, int64_t death_s) {
  Finding cause = new_finding(code, Confidence::kLikely);
  cause.message = "trainer 100 stands";
  cause.first_seen = first_s * kSecond;
  cause.last_seen = last_s * kSecond;
  Finding death = new_finding(FindingCode::kKilledBySignal, Confidence::kCertain);
  death.message = "killed";
  death.first_seen = death_s * kSecond;
  return {.causes = {cause}, .deaths = {death}};
}

TEST(MarkHangsAfterDeaths, WhoeverEndsAHungJobIsNotWhyItHung) {
  EndedJob job = ended_after(FindingCode::kForkLostThreadPool, 5, 35, 40);
  mark_hangs_after_deaths(job.causes, job.deaths);
  EXPECT_EQ(job.deaths[0].consequence_of, FindingCode::kForkLostThreadPool);
  EXPECT_FALSE(job.causes[0].consequence_of);
  job = ended_after(FindingCode::kForkLostThreadPool, 33, 35, 40);  // it had hardly begun
  mark_hangs_after_deaths(job.causes, job.deaths);
  EXPECT_FALSE(job.deaths[0].consequence_of);
}

TEST(MarkHangsAfterDeaths, AWaitThatMightHaveEndedIsToldWithTheEnd) {
  EndedJob job = ended_after(FindingCode::kConsumerStuck, 5, 35, 40);
  job.causes[0].severity = Severity::kInfo;
  job.causes[0].advise("Find out who was to make it");
  mark_hangs_after_deaths(job.causes, job.deaths);
  EXPECT_EQ(job.deaths[0].message.plain(), "killed; until then trainer 100 stands");
  EXPECT_EQ(job.deaths[0].remedies.size(), 1U);
  EXPECT_FALSE(job.deaths[0].consequence_of);
}

TEST(MarkHangsAfterDeaths, WhoeverEndsAFailedJobIsNotWhyItFailed) {
  EndedJob job = ended_after(FindingCode::kFdExhausted, 5, 59, 60);
  mark_hangs_after_deaths(job.causes, job.deaths);
  EXPECT_EQ(job.deaths[0].consequence_of, FindingCode::kFdExhausted);
  job = ended_after(FindingCode::kFdExhausted, 5, 59, 60);
  job.causes[0].severity = Severity::kWarning;  // it went on
  mark_hangs_after_deaths(job.causes, job.deaths);
  EXPECT_FALSE(job.deaths[0].consequence_of);
}

TEST(MarkHangsAfterDeaths, NobodyCrashesOnPurpose) {
  Finding death = new_finding(FindingCode::kWorkerCrashed, Confidence::kLikely);
  death.severity = Severity::kWarning;
  Finding hang = new_finding(FindingCode::kConsumerStuck, Confidence::kLikely);
  hang.last_seen = 35 * kSecond;
  std::vector hangs = {hang};
  std::vector deaths = {death};
  mark_hangs_after_deaths(hangs, deaths);
  EXPECT_EQ(hangs[0].consequence_of, FindingCode::kWorkerCrashed);
  hangs = {hang};
  deaths[0].code = FindingCode::kWorkerExited;  // it may have been through
  mark_hangs_after_deaths(hangs, deaths);
  EXPECT_FALSE(hangs[0].consequence_of);
}

TEST(MarkWhatComesWithTasks, PipesWhereProcessesGrow) {
  Finding tasks = new_finding(FindingCode::kProcessLimitReached, Confidence::kPossible);
  tasks.severity = Severity::kWarning;
  Finding pipes = new_finding(FindingCode::kFdLeakInWorker, Confidence::kPossible);
  pipes.severity = Severity::kWarning;
  pipes.discriminator = "pipe";
  std::vector all = {pipes};
  mark_what_comes_with_tasks(all, std::vector{tasks});
  EXPECT_FALSE(all[0].consequence_of) << "threads have no pipes";
  tasks.discriminator = "growing-processes";
  mark_what_comes_with_tasks(all, std::vector{tasks});
  EXPECT_EQ(all[0].consequence_of, FindingCode::kProcessLimitReached);
}

TEST(MarkWhatComesWithTasks, MappingsOfTheSameRun) {
  Finding threads = new_finding(FindingCode::kProcessLimitReached, Confidence::kPossible);
  threads.severity = Severity::kWarning;
  Finding mappings = new_finding(FindingCode::kMemoryMapLimitReached, Confidence::kPossible);
  mappings.severity = Severity::kWarning;
  std::vector all = {mappings, mappings};
  all[1].runs = {1};
  mark_what_comes_with_tasks(all, std::vector{threads});
  EXPECT_EQ(all[0].consequence_of, FindingCode::kProcessLimitReached);
  EXPECT_FALSE(all[1].consequence_of);
}

TEST(MarkLimitsOfLeaks, TheGrowthOfThatProcess) {
  Finding leak = new_finding(FindingCode::kWorkerMemoryLeak, Confidence::kLikely);
  leak.processes = {key_of(101)};
  Finding limit = new_finding(FindingCode::kMemoryLimitTooLow, Confidence::kLikely);
  limit.severity = Severity::kError;
  limit.processes = {key_of(102)};
  std::vector leaks = {leak};
  std::vector limits = {limit};
  mark_limits_of_leaks(leaks, limits);
  EXPECT_FALSE(limits[0].consequence_of) << "another process";
  limits[0].processes.push_back(key_of(101));
  mark_limits_of_leaks(leaks, limits);
  EXPECT_EQ(limits[0].consequence_of, FindingCode::kWorkerMemoryLeak);
  EXPECT_EQ(leaks[0].severity, Severity::kError);
}

TEST(MarkLimitsOfLeaks, MappingsGrowWithLargeArrays) {
  Finding leak = new_finding(FindingCode::kWorkerMemoryLeak, Confidence::kPossible);
  leak.severity = Severity::kWarning;
  leak.processes = {key_of(101)};
  Finding mappings = new_finding(FindingCode::kMemoryMapLimitReached, Confidence::kPossible);
  mappings.severity = Severity::kWarning;
  mappings.processes = {key_of(102)};
  std::vector all = {mappings, leak};
  mark_limits_of_leaks(all, {});
  EXPECT_FALSE(all[0].consequence_of) << "another process";
  all[0].processes = {key_of(101)};
  mark_limits_of_leaks(all, {});
  EXPECT_EQ(all[0].consequence_of, FindingCode::kWorkerMemoryLeak);
  EXPECT_EQ(all[1].severity, Severity::kWarning);
}

TEST(MergeVerdicts, WhatTwoProbesSayAlikeIsSaidOnceByTheSurerOne) {
  Finding likely = new_finding(FindingCode::kBatchLostInWorker, Confidence::kLikely);
  Finding certain = new_finding(FindingCode::kBatchLostInWorker, Confidence::kCertain);
  Finding other = certain;
  other.discriminator = "another case";
  const Gap gap = {.what = "w", .why = "y"};
  const Verdict all = merge_verdicts(
      {{.findings = {likely}, .gaps = {gap}}, {.findings = {certain, other}, .gaps = {gap}}});
  ASSERT_EQ(all.findings.size(), 2U);
  EXPECT_EQ(all.findings[0].confidence, Confidence::kCertain);
  EXPECT_EQ(all.findings[1].discriminator, "another case");
  EXPECT_EQ(all.gaps.size(), 1U);
}

TEST(MergeVerdicts, LimitsDoNotMatterWhereTheCauseIsKnown) {
  const Gap limit = {.what = "w", .why = "y"};
  const Finding warning = new_finding(FindingCode::kShmStaleFiles, Confidence::kCertain);
  const Finding error = new_finding(FindingCode::kForkInheritedLock, Confidence::kCertain);
  EXPECT_EQ(merge_verdicts({{.limits = {limit}}, {.findings = {warning}}}).limits.size(), 1U);
  EXPECT_TRUE(merge_verdicts({{.limits = {limit}}, {.findings = {error}}}).limits.empty());
}

TEST(EveryProbe, AShortWatchOfALiveTreeIsSaid) {
  const auto limits_after = [](BootNs span) {
    RecordingBuilder builder{RecordingHeader{}};
    builder.add(RunBegin{.at = kSecond, .subject = SubjectKind::kPid});
    builder.add(ShmMount{.device = 1, .mount_point = "/dev/shm", .fs_type = "tmpfs"});
    builder.add(RunEnd{.at = kSecond + span, .reason = RunEndReason::kTimeUp});
    return probes::attach::kProbe.examine(builder.recording()).limits;
  };
  ASSERT_EQ(limits_after(3 * kSecond).size(), 1U);
  EXPECT_TRUE(limits_after(3 * kSecond)[0].why.plain().contains("the watch of 3.0 s"));
  EXPECT_TRUE(limits_after(15 * kSecond).empty());
}

TEST(EveryProbe, SaysWhatEachProbeSays) {
  const Recording nothing;
  std::vector<Verdict> verdicts;
  for (const Probe* probe : all_probes())
    if (probe->use == ProbeUse::kSubject) verdicts.push_back(probe->examine(nothing));
  EXPECT_EQ(probes::attach::kProbe.examine(nothing).gaps, merge_verdicts(verdicts).gaps);
  EXPECT_FALSE(probes::attach::kProbe.examine(nothing).gaps.empty());
}

TEST(EveryProbe, WhatTheJobPrintedBearsAFindingOut) {
  Recording recording;
  auto& run = recording.runs.emplace_back();
  run.events = {{.at = 1, .kind = "note", .text = "unable to write to file </torch_1_2>"},
                {.at = 2, .kind = std::string(kLogLine), .text = "all is well"},
                {.at = 3,
                 .kind = std::string(kLogLine),
                 .text = "RuntimeError: unable to write to file </torch_1_2>"}};
  Verdict verdict;
  verdict.findings = {new_finding(FindingCode::kShmExhausted, Confidence::kCertain),
                      new_finding(FindingCode::kForkInheritedLock, Confidence::kCertain)};
  for (Finding& finding : verdict.findings)
    finding.runs = {0};
  add_printed_lines(recording, verdict);
  ASSERT_EQ(verdict.findings[0].evidence.size(), 1U);
  EXPECT_EQ(verdict.findings[0].evidence[0].at, 3);
  EXPECT_TRUE(verdict.findings[1].evidence.empty());
}

TEST(EveryProbe, IsFoundByTheNameThatItsRecordingsHave) {
  EXPECT_EQ(find_probe("attach"), &probes::attach::kProbe);
  EXPECT_EQ(find_probe("run"), &probes::run::kProbe);
  EXPECT_EQ(find_probe("shm"), &probes::shm::kProbe);
  EXPECT_EQ(find_probe("no-such-probe"), nullptr);
}

}  // namespace
}  // namespace dlprobe
