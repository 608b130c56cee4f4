// What processes overwrite or never write, as the witness in each told of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "probes/probe.h"
#include "tests/unit/probes/told_test.h"

namespace dlprobe {
namespace {

using ::testing::IsEmpty;

class WrittenTest : public ToldTest {
 protected:
  void writes(int32_t pid, std::vector<std::string> turns, const std::string& path = "/tmp/a.raw") {
    tell({.kind = StartEventKind::kFileRewritten,
          .process = key_of(pid),
          .path = path,
          .file = "/data/job/sox.py",
          .line = 4,
          .function = "resample",
          .loader = 5,
          .digests = std::move(turns)});
  }

  void changes(int32_t pid, std::vector<std::string> samples) {
    tell({.kind = StartEventKind::kSamplesRewritten,
          .process = key_of(pid),
          .file = "/data/job/train.py",
          .line = 7,
          .function = "Images.__getitem__",
          .digests = std::move(samples)});
  }

  void loses(int32_t pid, uint64_t bytes) {
    tell({.kind = StartEventKind::kBytesLost,
          .process = key_of(pid),
          .path = "/data/job/out.csv",
          .file = "/data/job/rows.py",
          .line = 5,
          .function = "part",
          .bytes = bytes});
  }
};

TEST_F(WrittenTest, AFileThatEachWritesBetweenAnothersWriteAndReadIsNamed) {
  writes(101, {"10 20", "30 40", "50 60"});
  writes(102, {"15 25", "35 45", "55 65"});
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kDataLost, Severity::kWarning, Confidence::kLikely));
  EXPECT_EQ(finding.processes, std::vector({key_of(101), key_of(102)}));
  EXPECT_EQ(finding.message.plain(),
            "worker 101 and worker 102 write one file, a.raw, and read it back: in 3 of 6 turns "
            "another had written it meanwhile; at sox.py:4 in resample");
  EXPECT_THAT(finding, AdvisesFirst("a file of its own"));
}

TEST_F(WrittenTest, AFileThatIsWrittenInTurnIsNot) {
  writes(101, {"10 20", "50 60", "70 80"});
  writes(102, {"30 40", "65 68", "90 99"});
  // Files of their own, and one by chance.
  writes(101, {"10 20", "30 40", "50 60"}, "/tmp/b.raw");
  writes(102, {"15 25", "35 45", "55 65"}, "/tmp/c.raw");
  writes(103, {"15 25", "65 75"}, "/tmp/c.raw");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(WrittenTest, SamplesThatEachRequestChangesOnceMoreAreNamed) {
  changes(101, {"1 aa bb", "2 cc dd"});
  changes(102, {"3 ee ff"});
  EXPECT_THAT(found(), IsEmpty());
  changes(102, {"1 bb b2", "2 dd d2"});
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kDataLost, Severity::kWarning, Confidence::kLikely));
  EXPECT_EQ(finding.message.plain(),
            "worker 101 and worker 102 change the data set's own samples: 2 of those looked at "
            "were changed again when they came again; at train.py:7 in Images.__getitem__");
  EXPECT_THAT(finding, AdvisesFirst("Work on a copy"));
}

TEST_F(WrittenTest, SamplesThatAreMadeOnceOrInAWorkersOwnMemoryAreNot) {
  changes(101, {"1 00 bb", "2 00 dd"});             // a cache that is filled
  changes(201, {"1 00 bb", "2 00 dd"});             // the next epoch begins with the same
  changes(301, {"3 aa bb", "4 aa cc", "5 aa dd"});  // a copy that each new worker has
  changes(401, {"3 aa bb", "4 aa cc", "5 bb dd"});
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(WrittenTest, WhatAForkedProcessDidNotFlushIsNamed) {
  loses(101, 988);
  loses(102, 12);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kDataLost, Severity::kWarning, Confidence::kCertain));
  EXPECT_THAT(finding, Says("worker 101 and worker 102 ended with 1000 bytes for out.csv",
                            "at rows.py:5 in part"));
}

}  // namespace
}  // namespace dlprobe
