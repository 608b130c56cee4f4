#include "lib/proc/shm_name.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

TEST(ShmName, KnowsTheNamesOfTorch) {
  for (const std::string_view name : {"torch_11186_765311094_0", "torch_11186_765311094",
                                      "torch_11186_0", "/dev/shm/torch_11186_1_2 (deleted)"}) {
    const ShmName parsed = parse_shm_name(name);
    EXPECT_EQ(parsed.kind, SegmentKind::kTorchTensor) << name;
    EXPECT_EQ(parsed.creator_pid, 11186) << name;
  }
}

TEST(ShmName, DoesNotTakeAnythingForTorch) {
  for (const std::string_view name :
       {"torch_", "torch_x_1_2", "torch_1", "torch_1_2_3_4", "torch_0_1_2", "torch_99999999999_1_2",
        "torch_1__2", "xtorch_1_2_3"}) {
    EXPECT_EQ(parse_shm_name(name).kind, SegmentKind::kOther) << name;
    EXPECT_FALSE(parse_shm_name(name).creator_pid) << name;
  }
}

TEST(ShmName, KnowsSemaphoresAndSharedMemoryOfPython) {
  EXPECT_EQ(parse_shm_name("sem.mp-5qpyjhy7").kind, SegmentKind::kPythonSemaphore);
  EXPECT_EQ(parse_shm_name("sem.exhqnK").kind, SegmentKind::kSemaphore);
  EXPECT_EQ(parse_shm_name("psm_1a2b3c4d").kind, SegmentKind::kPythonShared);
  EXPECT_EQ(parse_shm_name("nccl-abc").kind, SegmentKind::kOther);
}

TEST(ShmName, TakesTheNameFromAPath) {
  EXPECT_EQ(parse_shm_name("/dev/shm/psm_1a (deleted)").kind, SegmentKind::kPythonShared);
}

}  // namespace
}  // namespace dlprobe
