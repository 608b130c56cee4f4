#include "lib/session/speed_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "lib/base/units.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"
#include "tests/support/record_list.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;

class SpeedMeters : public testing::Test {
 protected:
  SpeedMeters() { request_.window_s = 1; }

  void begin(const TuneSetting& setting) {
    meter_ = std::make_unique<SpeedMeter>(machine_, records_, setting, request_);
  }
  /// One batch, so long after the one before.
  void batch(double after_s) {
    clock_->advance(static_cast<int64_t>(after_s * 1e9));
    meter_->add(LoaderBatch{.at = clock_->now(),
                            .samples = 4,
                            .wait_s = after_s / 2,
                            .copy_s = after_s / 8,
                            .step_s = after_s / 8});
  }

  std::shared_ptr<FakeFiles> files_ = std::make_shared<FakeFiles>();
  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>(kSecond);
  Machine machine_{.root = files_, .clock = clock_, .processes = {}};
  RecordList records_;
  TuneRequest request_;
  std::unique_ptr<SpeedMeter> meter_;
};

TEST_F(SpeedMeters, TheFirstBatchesAreLeftOut) {
  begin({.workers = 2, .prefetch_factor = 2});
  for (int i = 0; i < 4; ++i)
    batch(2);
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(meter_->is_enough()) << i;
    batch(0.125);
  }
  EXPECT_TRUE(meter_->is_enough());
  const SpeedMeasurement speed = meter_->result();
  EXPECT_EQ(speed.failure, "");
  EXPECT_EQ(speed.batches, 8) << "whole turns of two workers";
  EXPECT_DOUBLE_EQ(speed.window_s, 1);
  EXPECT_EQ(speed.samples, 32);
  EXPECT_DOUBLE_EQ(speed.wait_s, 0.5);
  EXPECT_DOUBLE_EQ(speed.step_s, 0.25);
  EXPECT_DOUBLE_EQ(speed.first_batch_s.value_or(0), 2);
  EXPECT_EQ(records_.all<LoaderBatch>().size(), 12U) << "they are passed on";
}

TEST_F(SpeedMeters, ASlowSubjectGetsMoreTimeButNotForEver) {
  begin({.workers = 1, .prefetch_factor = 1});
  batch(1);
  batch(1);
  batch(3);
  EXPECT_FALSE(meter_->is_enough());
  clock_->advance(30 * kSecond);
  EXPECT_TRUE(meter_->is_enough());
  EXPECT_EQ(meter_->result().batches, 1);
}

TEST_F(SpeedMeters, AScriptTellsOfItsBatchesNowAndThen) {
  begin({.workers = 2, .prefetch_factor = 2});
  const auto tell = [&](double at_s, int64_t count, double waited_s) {
    meter_->add(StartEvent{.at = kSecond + static_cast<int64_t>(at_s * 1e9),
                           .kind = StartEventKind::kBatches,
                           .process = {.pid = 100, .start_ticks = 1},
                           .count = count,
                           .seconds = waited_s});
  };
  tell(1, 1, 1);
  tell(2, 6, 1.5);
  tell(3, 16, 2);
  tell(4, 5, 0.25);  // the next epoch
  EXPECT_TRUE(meter_->is_enough());
  const SpeedMeasurement speed = meter_->result();
  EXPECT_EQ(speed.failure, "");
  EXPECT_EQ(speed.batches, 10) << "from 6 to 16: whole turns of two workers";
  EXPECT_DOUBLE_EQ(speed.window_s, 1);
  EXPECT_DOUBLE_EQ(speed.wait_s, 0.5);
}

TEST_F(SpeedMeters, WithoutASteadyStateThereIsNoSpeed) {
  begin({.workers = 4, .prefetch_factor = 2});
  batch(1);
  const SpeedMeasurement speed = meter_->result();
  EXPECT_THAT(speed.failure, HasSubstr("1 batch came in 1 s"));
  EXPECT_EQ(speed.batches, 0);
}

TEST_F(SpeedMeters, WhatTheSubjectSaysOfItsFailureIsTheReason) {
  begin({.workers = 1, .prefetch_factor = 1});
  for (int i = 0; i < 20; ++i)
    batch(1);
  meter_->add(Event{.kind = "loader-error", .text = "a worker died", .process = {}});
  EXPECT_EQ(meter_->result().failure, "a worker died");
}

TEST_F(SpeedMeters, MemoryAndDescriptorsAreThoseOfTheWholeTree) {
  begin({.workers = 1, .prefetch_factor = 1});
  const ProcessKey trainer{.pid = 100, .start_ticks = 1};
  const ProcessKey worker{.pid = 101, .start_ticks = 1};
  meter_->add(ProcessInfo{.key = worker, .role = Role::kWorker});
  Sample sample{.processes = {{.key = trainer}, {.key = worker}}};
  sample.shm = {ShmUse{.size_bytes = kGiB, .used_bytes = 5 * kMiB}};
  sample.processes[0].pss_bytes = 200 * kMiB;
  meter_->add(sample);
  EXPECT_FALSE(meter_->result().memory_bytes) << "a sum that lacks a part is none";
  sample.processes[1].pss_bytes = 50 * kMiB;
  sample.processes[1].fd_count = 12;
  sample.shm = {ShmUse{.size_bytes = kGiB, .used_bytes = 9 * kMiB}};
  meter_->add(sample);
  const SpeedMeasurement speed = meter_->result();
  EXPECT_EQ(speed.memory_bytes, 250 * kMiB);
  EXPECT_EQ(speed.worker_memory_bytes, 50 * kMiB);
  EXPECT_EQ(speed.shm_bytes, 4 * kMiB);
  EXPECT_EQ(speed.fds, 12U);
}

}  // namespace
}  // namespace dlprobe
