#include "lib/session/examination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/session/fakes.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

ExamineRequest request_about(int32_t pid) {
  return {.probe = "shm", .subject = PidSubject{.pid = pid}, .watch_for = std::chrono::seconds(0)};
}

TEST(Examination, OfAProcessThatIsNotThereIsRefused) {
  MadeUpPlace place;
  const Examination examination = examine(request_about(4711), place.surroundings());
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_EQ(examination.refusal->kind, Refusal::Kind::kImpossible);
  EXPECT_THAT(examination.recording.runs, IsEmpty());
}

TEST(Examination, OfDlprobeItselfIsRefused) {
  MadeUpPlace place;
  const Examination examination = examine(request_about(::getpid()), place.surroundings());
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_THAT(examination.refusal->error.context, HasSubstr("is dlprobe itself"));
}

TEST(Examination, WhoseRecordingCannotBeWrittenIsRefusedBeforeAnythingIsStarted) {
  MadeUpPlace place;
  ExamineRequest request = request_about(4711);
  request.subject = CommandSubject{.argv = {"/nowhere/at/all"}};
  request.record_path = "/nowhere/at/all.dlrec";
  const Examination examination = examine(request, place.surroundings());
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_EQ(examination.refusal->kind, Refusal::Kind::kImpossible);
  EXPECT_THAT(examination.refusal->error.context, HasSubstr("/nowhere/at/all.dlrec"));
}

}  // namespace
}  // namespace dlprobe
