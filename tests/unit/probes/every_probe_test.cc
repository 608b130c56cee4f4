#include "probes/every_probe.h"

#include <gtest/gtest.h>

#include "lib/base/units.h"
#include "probes/facts.h"

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
    return every_probe().examine(builder.recording()).limits;
  };
  ASSERT_EQ(limits_after(3 * kSecond).size(), 1U);
  EXPECT_NE(limits_after(3 * kSecond)[0].why.find("the watch of 3.0 s"), std::string::npos);
  EXPECT_TRUE(limits_after(15 * kSecond).empty());
}

TEST(EveryProbe, SaysWhatEachProbeSays) {
  const Recording nothing;
  std::vector<Verdict> verdicts;
  for (const Probe* probe : all_probes())
    verdicts.push_back(probe->examine(nothing));
  EXPECT_EQ(every_probe().examine(nothing), merge_verdicts(verdicts));
  EXPECT_FALSE(every_probe().examine(nothing).gaps.empty());
}

TEST(EveryProbe, IsFoundByTheNameThatItsRecordingsHave) {
  EXPECT_EQ(find_examiner("attach"), &every_probe());
  EXPECT_EQ(find_examiner("shm"), find_probe("shm"));
  EXPECT_EQ(find_examiner("no-such-probe"), nullptr);
}

}  // namespace
}  // namespace dlprobe
