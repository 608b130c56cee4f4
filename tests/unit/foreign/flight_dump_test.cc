#include "lib/foreign/flight_dump.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/must.h"
#include "tests/support/read_text.h"

namespace dlprobe {
namespace {

using namespace std::string_view_literals;

// {"version": "2.10", "entries": [{"process_group": ("0", "default_pg"), "profiling_name":
// "gloo:all_reduce", "state": "scheduled", "collective_seq_id": 3, "is_p2p": False}]}, as
// pickle.dumps(..., protocol=2) has it; "state" is referred to again.
constexpr std::string_view kDump =
    "\x80\x02}q\x00("
    "X\x07\x00\x00\x00versionX\x04\x00\x00\x00"
    "2.10"
    "X\x07\x00\x00\x00"
    "entries]q\x01}q\x02("
    "X\x0d\x00\x00\x00process_groupX\x01\x00\x00\x00"
    "0X\x0a\x00\x00\x00"
    "default_pg\x86"
    "X\x0e\x00\x00\x00profiling_nameX\x0f\x00\x00\x00gloo:all_reduce"
    "X\x05\x00\x00\x00stateq\x05X\x09\x00\x00\x00scheduled"
    "X\x11\x00\x00\x00"
    "collective_seq_idK\x03"
    "X\x06\x00\x00\x00is_p2p\x89"
    "h\x05N"
    "ua"
    "u."sv;

// Two ranks of torch 2.13 with Gloo: rank 0 waits in its third all_reduce, to which rank 1 has not
// come.
FlightDump real_dump(const std::string& name) {
  const std::string bytes = read_text(std::string(DLPROBE_FUZZ_CORPUS) + "/flight_dump/" + name);
  return must(parse_flight_dump(bytes));
}

TEST(FlightDump, HasTheLastCollectivesOfARank) {
  const FlightDump dump = real_dump("torch-2.13-rank-0");
  EXPECT_EQ(dump.version, "2.10");
  ASSERT_EQ(dump.collectives.size(), 4U);
  EXPECT_EQ(dump.collectives.back(), (NotedCollective{.group = "0",
                                                      .group_id = 0,
                                                      .operation = "gloo:all_reduce",
                                                      .sequence = 3,
                                                      .is_message = false,
                                                      .is_done = false,
                                                      .tensors = "Float [64, 32]",
                                                      .function = "late",
                                                      .file = "/job/train.py",
                                                      .line = 14,
                                                      .thread = 140409168167616,
                                                      .created_ns = dump.collectives[3].created_ns,
                                                      .timeout_ms = 1'800'000}));
  EXPECT_EQ(dump.collectives[2].group, "1");
  EXPECT_EQ(dump.collectives[2].tensors, "Half [64, 32]");
  EXPECT_TRUE(dump.collectives[2].is_done);
  const std::vector<GroupStatus> groups = {{.group_id = 0, .enqueued = 3, .completed = 2},
                                           {.group_id = 1, .enqueued = 1, .completed = 1}};
  EXPECT_EQ(dump.groups, groups);
  EXPECT_EQ(real_dump("torch-2.13-rank-1").groups.front(),
            (GroupStatus{.group_id = 0, .enqueued = 2, .completed = 2}));
}

TEST(FlightDump, MayBeWrittenByTheJobItself) {
  EXPECT_EQ(real_dump("written-by-python"), real_dump("torch-2.13-rank-0"));
}

TEST(FlightDump, OneWithoutStatusAndPlacesIsRead) {
  const auto dump = must(parse_flight_dump(kDump));
  ASSERT_EQ(dump.collectives.size(), 1U);
  EXPECT_EQ(dump.collectives.front().operation, "gloo:all_reduce");
  EXPECT_EQ(dump.collectives.front().sequence, 3);
  EXPECT_EQ(dump.collectives.front().file, "");
  EXPECT_TRUE(dump.groups.empty());
}

TEST(FlightDump, EachPrefixIsRefused) {
  for (size_t length = 0; length < kDump.size(); ++length)
    EXPECT_FALSE(parse_flight_dump(kDump.substr(0, length))) << length;
}

TEST(FlightDump, WhatWouldRunIsRefused) {
  // cos.system("true"), as __reduce__ makes it.
  EXPECT_FALSE(
      parse_flight_dump("\x80\x02"
                        "cos\nsystem\nX\x04\x00\x00\x00true\x85R."sv));
  EXPECT_FALSE(parse_flight_dump("\x80\x04\x8c\x02os\x8c\x06system\x93."sv));
}

TEST(FlightDump, WhatIsNoDumpIsRefused) {
  EXPECT_FALSE(parse_flight_dump("\x80\x02N."sv));
  EXPECT_FALSE(parse_flight_dump("\x80\x02}."sv));
  EXPECT_FALSE(parse_flight_dump("\x80\x02h\x07."sv)) << "refers to nothing";
  EXPECT_FALSE(parse_flight_dump("\x80\x02u."sv)) << "no mark";
  EXPECT_FALSE(
      parse_flight_dump("\x80\x02]q\x00h\x00"
                        "a."sv))
      << "a list in itself is no dump";
  EXPECT_FALSE(
      parse_flight_dump("\x80\x02X\xff\xff\xff\xff"
                        "a."sv));
}

}  // namespace
}  // namespace dlprobe
