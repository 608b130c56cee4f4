// What a verdict may say that it has looked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "probes/probe.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> codes_seen(const Verdict& verdict) {
  std::vector<std::string> codes;
  for (const LookedFor& each : verdict.looked_for)
    if (each.was_seen) codes.emplace_back(info(each.code).code);
  return codes;
}

// As `dlprobe attach` records a job that is well.
Scene attached() {
  Scene scene(64 * kMiB, 2);
  scene.run().begin.subject = SubjectKind::kPid;
  scene.sample(0.5, 0);
  scene.run().ledgers.emplace_back();
  scene.run().snapshots.push_back({.at = Scene::at(1)});
  return scene;
}

TEST(LookedFor, AHealthyJobThatWasAttachedToIsNotSaidToBeFreeOfWhatNobodySaw) {
  const std::vector<std::string> codes =
      codes_seen(probes::attach::kProbe.examine(attached().recording));
  EXPECT_THAT(codes, Contains("DLP0101"));
  EXPECT_THAT(codes, Contains("DLP0301"));
  EXPECT_THAT(codes, Not(Contains(StartsWith("DLP04"))));
  for (const char* code :
       {"DLP0109", "DLP0110", "DLP0505", "DLP0601", "DLP0602", "DLP0610", "DLP0611"})
    EXPECT_THAT(codes, Not(Contains(code)));
}

TEST(LookedFor, WhatWasNotLookedAtIsNotSaid) {
  Scene scene = attached();
  scene.run().shm_use.clear();
  scene.run().snapshots.clear();
  const std::vector<std::string> codes =
      codes_seen(probes::attach::kProbe.examine(scene.recording));
  EXPECT_THAT(codes, Not(Contains("DLP0101")));
  EXPECT_THAT(codes, Not(Contains(StartsWith("DLP03"))));
  EXPECT_THAT(codes, Contains("DLP0103"));
}

TEST(LookedFor, StartsAreToldOfWhereTheyWereSeen) {
  Scene scene = attached();
  scene.run().begin.trial = Trial{.start_method = StartMethod::kSpawn};
  EXPECT_THAT(codes_seen(probes::attach::kProbe.examine(scene.recording)), Contains("DLP0401"));
  EXPECT_THAT(codes_seen(probes::spawn::kProbe.examine(scene.recording)), Contains("DLP0411"));
}

TEST(LookedFor, AProbeThatDeclaresNothingSaysNothing) {
  constexpr Probe kNew = {.name = "new", .summary = "none yet"};
  const Verdict verdict = kNew.examine(attached().recording);
  EXPECT_THAT(verdict.looked_for, IsEmpty());
  EXPECT_THAT(verdict.tables, IsEmpty());
}

TEST(LookedFor, EveryFindingIsOfAProbeOrOfMergedReports) {
  for (const FindingInfo& finding : all_findings()) {
    if (finding.id == FindingCode::kNodesDiffer) continue;
    EXPECT_TRUE(std::ranges::any_of(all_probes(), [&](const Probe* probe) {
      return std::ranges::count(probe->causes, finding.id, &Cause::code) > 0;
    })) << finding.code;
  }
}

TEST(LookedFor, AProbeDeclaresACauseOnce) {
  for (const Probe* probe : all_probes())
    for (const Cause& cause : probe->causes)
      EXPECT_EQ(std::ranges::count(probe->causes, cause.code, &Cause::code), 1)
          << probe->name << " " << info(cause.code).code;
}

}  // namespace
}  // namespace dlprobe
