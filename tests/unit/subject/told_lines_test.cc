#include "lib/subject/told_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlprobe {
namespace {

using testing::HasSubstr;

TEST(LoaderProgress, ReadsABatch) {
  const auto record = parse_progress_line(
      R"({"event":"batch","at":5,"epoch":1,"index":2,"worker":3,"samples":4,"bytes":6,)"
      R"("wait":0.5,"fetch":0.25,"copy":0,"step":1})");
  ASSERT_TRUE(record.has_value());
  const auto& batch = std::get<LoaderBatch>(*record);
  EXPECT_EQ(batch, (LoaderBatch{.at = 5,
                                .epoch = 1,
                                .index = 2,
                                .worker = 3,
                                .samples = 4,
                                .bytes = 6,
                                .wait_s = 0.5,
                                .fetch_s = 0.25,
                                .copy_s = 0,
                                .step_s = 1}));
}

TEST(LoaderProgress, ReadsWhatIsToldOfAStart) {
  const auto record = parse_progress_line(
      R"({"event":"start","at":7,"kind":"refused","cause":"unpicklable","pid":3,"start_ticks":4,)"
      R"("method":"spawn","path":"dataset.lock","type":"std::mutex"})");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(std::get<StartEvent>(*record), (StartEvent{.at = 7,
                                                       .kind = StartEventKind::kRefused,
                                                       .process = {.pid = 3, .start_ticks = 4},
                                                       .method = "spawn",
                                                       .cause = StartRefusal::kUnpicklable,
                                                       .path = "dataset.lock",
                                                       .type = "std::mutex"}));
  EXPECT_FALSE(parse_progress_line(R"({"event":"start","at":7,"kind":"refused"})").has_value());
}

TEST(LoaderProgress, KeepsWhatItDoesNotKnowAsAnEvent) {
  const auto record = parse_progress_line(R"({"event":"broken-image","at":9,"text":"a.jpg"})");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(std::get<Event>(*record).kind, "loader-broken-image");
  EXPECT_EQ(std::get<Event>(*record).text, as_text("a.jpg"));
}

TEST(LoaderProgress, RefusesEveryTruncation) {
  const std::string line =
      R"({"event":"done","at":1,"images":2,"seconds":3,"first_batch":4,"broken":0})";
  ASSERT_TRUE(parse_progress_line(line).has_value());
  for (size_t length = 0; length < line.size(); ++length) {
    EXPECT_FALSE(parse_progress_line(std::string_view(line).substr(0, length)).has_value())
        << length;
  }
}

TEST(LoaderProgress, SaysWhichMemberIsMissing) {
  const auto record = parse_progress_line(R"({"event":"hello","at":1})");
  ASSERT_FALSE(record.has_value());
  EXPECT_THAT(record.error().context, HasSubstr("device"));
}

}  // namespace
}  // namespace dlprobe
