#include <gtest/gtest.h>

#include <algorithm>

#include "lib/base/units.h"
#include "lib/model/recording.h"

namespace dlprobe {
namespace {

constexpr BootNs kTick = kSecond / 10;

RecordingBuilder builder_with_run() {
  RecordingBuilder builder{RecordingHeader{}};
  builder.add(RunBegin{.at = 0});
  return builder;
}

ShmUse use_at(BootNs at, uint64_t used_bytes, uint64_t device = 1) {
  ShmUse use;
  use.at = at;
  use.device = device;
  use.used_bytes = used_bytes;
  return use;
}

Sample sample_at(BootNs at, uint64_t used_bytes) {
  Sample sample;
  sample.at = at;
  sample.shm.emplace_back(use_at(at, used_bytes));
  return sample;
}

// A watch at 10 Hz with one peak of 0.1 s.
Recording long_watch(BootNs length, BootNs peak_at) {
  RecordingBuilder builder = builder_with_run();
  for (BootNs at = 0; at < length; at += kTick) {
    builder.add(use_at(at, at == peak_at ? 1000 : 10));
  }
  builder.add(RunEnd{.at = length});
  return std::move(builder).take();
}

TEST(RecordingBuilder, ALongWatchIsBoundedAndKeepsItsPeak) {
  const BootNs peak_at = 1234 * kTick;
  const Recording recording = long_watch(8 * 3600 * kSecond, peak_at);
  const auto& uses = recording.runs.at(0).shm_use;
  // 2 minutes at 10 Hz, 8 minutes at 1 Hz, the rest of 6 hours at 0.1 Hz, 2 hours of one per 2
  // minutes, and the groups at the seams.
  EXPECT_LT(uses.size(), 1200U + 480 + 2124 + 60 + 10);
  EXPECT_EQ(recording.thinned_records, 8U * 36'000 - uses.size());
  EXPECT_TRUE(std::ranges::any_of(
      uses, [&](const ShmUse& use) { return use.at == peak_at && use.used_bytes == 1000; }));
  EXPECT_TRUE(std::ranges::is_sorted(uses, {}, &ShmUse::at));
}

TEST(RecordingBuilder, TheLastTwoMinutesStayWhole) {
  const Recording recording = long_watch(600 * kSecond, 0);
  const BootNs last = recording.runs.at(0).shm_use.back().at;
  const auto recent = std::ranges::count_if(recording.runs.at(0).shm_use, [&](const ShmUse& use) {
    return last - use.at < 100 * kSecond;
  });
  EXPECT_EQ(recent, 1000);
}

TEST(RecordingBuilder, WhatIsLookedAtOnceASecondOutlivesThinning) {
  RecordingBuilder builder = builder_with_run();
  for (BootNs at = 0; at < 400 * kSecond; at += kTick) {
    Sample sample = sample_at(at, at % kSecond == 5 * kTick ? 20 : 10);
    sample.processes.push_back({.key = {.pid = 1, .start_ticks = 1}});
    sample.processes.push_back({.key = {.pid = 2, .start_ticks = 1}});
    if (at % kSecond == 0) {
      sample.host = HostMemory{.total_bytes = static_cast<uint64_t>(at / kSecond)};
      sample.processes[1].pss_anon_bytes = static_cast<uint64_t>(at / kSecond);
    }
    builder.add(std::move(sample));
  }
  builder.add(RunEnd{.at = 400 * kSecond});
  size_t thinned = 0;
  for (const Sample& sample : builder.recording().runs.at(0).samples) {
    if (sample.at >= 250 * kSecond) break;
    ++thinned;
    EXPECT_EQ(sample.at % kSecond, 5 * kTick) << "the highest use of shm";
    const auto second = static_cast<uint64_t>(sample.at / kSecond);
    ASSERT_TRUE(sample.host);
    EXPECT_EQ((*sample.host)->total_bytes, second);
    EXPECT_FALSE(sample.processes.at(0).pss_anon_bytes);
    EXPECT_EQ(sample.processes.at(1).pss_anon_bytes, second);
  }
  EXPECT_EQ(thinned, 250U);
}

TEST(RecordingBuilder, ThinningIsIdempotent) {
  const Recording once = long_watch(7200 * kSecond, 77 * kTick);
  RecordingBuilder again = builder_with_run();
  for (const ShmUse& use : once.runs.at(0).shm_use)
    again.add(use);
  again.add(RunEnd{.at = 7200 * kSecond});
  EXPECT_TRUE(again.recording().runs.at(0).shm_use == once.runs.at(0).shm_use);
  EXPECT_EQ(again.recording().thinned_records, 0U);
}

TEST(RecordingBuilder, EachMountKeepsItsOwnPeak) {
  RecordingBuilder builder = builder_with_run();
  for (BootNs at = 0; at < 1000 * kSecond; at += kTick) {
    builder.add(use_at(at, at == 5 * kTick ? 50 : 1, 1));
    builder.add(use_at(at, 9999, 2));
  }
  EXPECT_TRUE(std::ranges::any_of(builder.recording().runs.at(0).shm_use, [](const ShmUse& use) {
    return use.device == 1 && use.used_bytes == 50;
  }));
}

TEST(RecordingBuilder, ASampleBringsItsStatvfsInTimeOrder) {
  RecordingBuilder builder = builder_with_run();
  builder.add(use_at(30, 3));
  builder.add(sample_at(20, 2));
  builder.add(sample_at(10, 1));
  const auto& run = builder.recording().runs.at(0);
  EXPECT_TRUE(std::ranges::is_sorted(run.shm_use, {}, &ShmUse::at));
  EXPECT_TRUE(std::ranges::is_sorted(run.samples, {}, &Sample::at));
  EXPECT_EQ(run.shm_use.size(), 3U);
}

TEST(RecordingBuilder, TheLastWordOnAProcessCountsAndItsFirstSightStays) {
  RecordingBuilder builder = builder_with_run();
  ProcessInfo process;
  process.key = {.pid = 5, .start_ticks = 1};
  process.seen_at = 10;
  process.comm = "sh";
  builder.add(process);
  process.seen_at = 20;
  process.comm = "python3";
  builder.add(process);
  process.key.start_ticks = 2;  // another process with a reused pid
  builder.add(process);
  const auto& run = builder.recording().runs.at(0);
  ASSERT_EQ(run.processes.size(), 2U);
  EXPECT_EQ(run.processes.at(0).comm, "python3");
  EXPECT_EQ(run.processes.at(0).seen_at, 10);
  EXPECT_EQ(run.find_process({.pid = 5, .start_ticks = 2})->seen_at, 20);
  EXPECT_EQ(run.find_process({.pid = 6, .start_ticks = 2}), nullptr);
}

TEST(RecordingBuilder, ProcessesThatCameAndWentAreBounded) {
  RecordingBuilder builder = builder_with_run();
  ProcessInfo trainer;
  trainer.key = {.pid = 1, .start_ticks = 1};
  trainer.role = Role::kTrainer;
  builder.add(trainer);
  for (int32_t pid = 2; pid < 60'000; ++pid) {
    const BootNs at = pid * kSecond;
    ProcessInfo process;
    process.key = {.pid = pid, .start_ticks = 1};
    process.seen_at = at;
    builder.add(process);
    builder.add(ProcessExit{.key = process.key, .at = at, .wait_status = 0, .source = "waitid"});
  }
  const auto& run = builder.recording().runs.at(0);
  EXPECT_LE(run.processes.size(), 20'020U);
  EXPECT_LE(run.exits.size(), 20'020U);
  EXPECT_NE(run.find_process(trainer.key), nullptr);
  EXPECT_NE(run.find_process({.pid = 59'999, .start_ticks = 1}), nullptr);
}

TEST(RecordingBuilder, OfWhatInterpretersToldTheFirstAndTheNewestStay) {
  constexpr int kTold = 40'000;
  RecordingBuilder builder({});
  builder.add(RunBegin{});
  for (int i = 1; i <= kTold; ++i)
    builder.add(StartEvent{.at = i, .process = {.pid = i, .start_ticks = 1}});
  const std::vector<StartEvent>& told = builder.current().start_events;
  EXPECT_LE(told.size(), 5'000U);
  EXPECT_EQ(told.front().at, 1);
  EXPECT_EQ(told[1'000].at, 1'001);
  EXPECT_EQ(told.back().at, kTold);
}

TEST(RecordingBuilder, BatchesAndGapsAreBoundedAndGapsCountOnce) {
  RecordingBuilder builder = builder_with_run();
  for (int i = 0; i < 50'000; ++i)
    builder.add(LoaderBatch{.at = i * kSecond, .index = i});
  for (int i = 0; i < 3000; ++i) {
    Gap gap;
    gap.what = own(i / 2);
    builder.add(gap);
  }
  const auto& run = builder.recording().runs.at(0);
  EXPECT_LE(run.batches.size(), 20'010U);
  EXPECT_EQ(run.batches.back().index, 49'999);
  EXPECT_LE(run.gaps.size(), 1000U);
  EXPECT_NE(run.gaps.at(0), run.gaps.at(1));
}

TEST(RecordingBuilder, OfSnapshotsTheNewestStayAndSomeFromBefore) {
  RecordingBuilder builder = builder_with_run();
  for (int second = 0; second < 100; ++second)
    builder.add(TreeSnapshot{.at = second * kSecond});
  const Recording recording = std::move(builder).take();
  const std::vector<TreeSnapshot>& kept = recording.runs.front().snapshots;
  ASSERT_EQ(kept.size(), 24U);
  EXPECT_EQ(kept[23].at, 99 * kSecond);
  EXPECT_EQ(kept[8].at, 84 * kSecond) << "the last 16";
  EXPECT_EQ(kept[7].at, 80 * kSecond);
  EXPECT_EQ(kept[6].at, 75 * kSecond);
}

TEST(RecordingBuilder, RecordsBeforeTheFirstRunAreDropped) {
  RecordingBuilder builder{RecordingHeader{}};
  builder.add(use_at(1, 1));
  EXPECT_TRUE(builder.recording().runs.empty());
}

}  // namespace
}  // namespace dlprobe
