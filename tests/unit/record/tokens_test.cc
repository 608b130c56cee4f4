#include "lib/record/tokens.h"

#include <gtest/gtest.h>

#include <string>

namespace dlprobe {
namespace {

TEST(MaskTokens, InEachTextOfARecord) {
  const std::string token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
  ProcessInfo process{.comm = token, .cmdline = {"train", "/data/x_" + token + ".npy"}};
  Record record = process;
  mask_tokens(record);
  const auto& masked = std::get<ProcessInfo>(record);
  EXPECT_EQ(masked.comm, "***");
  EXPECT_EQ(masked.cmdline.back(), "/data/x_***.npy");

  record = Event{.kind = "note", .text = "the file " + as_path("/dev/shm/" + token)};
  mask_tokens(record);
  const Message& text = std::get<Event>(record).text;
  EXPECT_EQ(text.plain(), "the file /dev/shm/***");
  EXPECT_EQ(text.parts().back().kind, PartKind::kPath);
}

TEST(MaskTokens, LeaveOtherNames) {
  const std::string cache =
      "/data/cache/triton/0123456789abcdef0123456789abcdef/sk-learn-pipelines";
  Record record = ProcessInfo{.cmdline = {cache}};
  mask_tokens(record);
  EXPECT_EQ(std::get<ProcessInfo>(record).cmdline.front(), cache);
}

}  // namespace
}  // namespace dlprobe
