#include "lib/collect/snapshot/flight_look.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/units.h"
#include "tests/support/fake_clock.h"
#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr int64_t kNow = FakeClock::kRealtimeAtBoot;
constexpr uint64_t kThread = 0x7f0000001000;
const AddressSpace kSpace({{.begin = 0x7f0000000000, .end = 0x7f0000010000, .writable = true}});

std::string text(std::string_view words) {
  const std::array<char, 4> length = {static_cast<char>(words.size()), 0, 0, 0};
  return "X" + std::string(length.data(), length.size()) + std::string(words);
}

// Third all_reduce of torch's default group, asked for by that thread.
std::string dump_bytes(uint64_t thread = kThread) {
  return "\x80\x02}(" + text("version") + text("2.10") + text("entries") + "](}(" +
         text("process_group") + text("0") + text("default_pg") + "\x86" + text("pg_id") +
         std::string("K\0", 2) + text("profiling_name") + text("gloo:all_reduce") +
         text("collective_seq_id") + "K\x03" + text("thread_id") + text(std::to_string(thread)) +
         "ueu.";
}

// A process whose root is the folder machine, and whose folder is /job in it.
class FlightLook : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("outside", dump_bytes());
    std::filesystem::create_directories(folder_ / "machine/job");
    std::filesystem::create_directories(folder_ / "process");
    std::filesystem::create_symlink(folder_ / "machine", folder_ / "process/root");
    std::filesystem::create_symlink(folder_ / "machine/job", folder_ / "process/cwd");
    const auto root = must(open_root("/"));
    const auto process = must(root->open_directory(folder_ / "process"));
    writer_ = {.directory = process,
               .files = {"/job/dump_1"},
               .uid = ::getuid(),
               .started_ns = kNow - 100 * kSecond};
  }

  void write_dump(const std::string& bytes, int64_t age = 40 * kSecond) {
    folder_.write("machine/job/dump_1", bytes);
    make_old(dump(), age);
  }
  static void make_old(const std::string& file, int64_t age = 40 * kSecond) {
    const timespec at = {.tv_sec = (kNow - age) / kSecond, .tv_nsec = 0};
    const std::array times = {at, at};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times.data(), 0), 0);
  }
  std::string dump() const { return folder_ / "machine/job/dump_1"; }

  Expected<FlightRecord> read() { return read_flight_record(writer_, kSpace, clock_, reader_); }
  ErrorCode error() {
    const auto record = read();
    return record ? ErrorCode{} : record.error().code;
  }

  TemporaryFolder folder_;
  FlightWriter writer_;
  FakeClock clock_;
  DeadlineReader reader_{std::chrono::seconds(60)};
};

TEST_F(FlightLook, ReadsTheDumpOfARank) {
  write_dump(dump_bytes());
  const auto record = must(read());
  EXPECT_EQ(record.age_ns, 40 * kSecond);
  EXPECT_THAT(record.groups,
              ElementsAre(FlightGroup{.name = "0", .enqueued = 3, .operation = "all_reduce"}));
  writer_.files = {"dump_1"};
  EXPECT_TRUE(read()) << "in the folder of the process";
  writer_.files = {"/job/other", "/job/dump_1"};
  EXPECT_TRUE(read()) << "where older versions write";
}

TEST_F(FlightLook, WithoutADumpThereIsNone) {
  EXPECT_EQ(error(), ErrorCode::kNotFound);
}

TEST_F(FlightLook, AFifoIsNotOpened) {
  ASSERT_EQ(::mkfifo(dump().c_str(), 0600), 0);
  make_old(dump());
  EXPECT_EQ(error(), ErrorCode::kNotFound);
  EXPECT_EQ(::open(dump().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC), -1) << "nobody reads it";
}

TEST_F(FlightLook, ALinkDoesNotLeadOutOfTheRoot) {
  make_old(folder_ / "outside");
  std::filesystem::create_symlink(folder_ / "outside", dump());
  EXPECT_EQ(error(), ErrorCode::kNotFound);
  writer_.files = {"../outside"};
  EXPECT_EQ(error(), ErrorCode::kNotFound);
  std::filesystem::remove(dump());
  std::filesystem::create_symlink("../../../../../../../../../../../" + folder_.path() + "/outside",
                                  dump());
  EXPECT_EQ(error(), ErrorCode::kNotFound);
}

TEST_F(FlightLook, OneThatIsTooLargeOrNoDumpIsMalformed) {
  write_dump(dump_bytes() + std::string(kMostFlightDumpBytes, 'x'));
  EXPECT_EQ(error(), ErrorCode::kMalformed);
  write_dump("cos\nsystem\n(S'true'\ntR.");
  EXPECT_EQ(error(), ErrorCode::kMalformed);
  write_dump("");
  EXPECT_EQ(error(), ErrorCode::kMalformed);
}

TEST_F(FlightLook, OneOfAnEarlierJobIsNone) {
  write_dump(dump_bytes(), 102 * kSecond);
  EXPECT_EQ(error(), ErrorCode::kNotFound);
  write_dump(dump_bytes(), -3 * kSecond);
  EXPECT_EQ(error(), ErrorCode::kNotFound) << "by a clock that is not this one";
}

TEST_F(FlightLook, OneOfAnotherUserIsNone) {
  write_dump(dump_bytes());
  ++writer_.uid;
  EXPECT_EQ(error(), ErrorCode::kNotFound);
}

TEST_F(FlightLook, OneOfAnotherJobIsNone) {
  write_dump(dump_bytes(0x550000000000));
  EXPECT_EQ(error(), ErrorCode::kNotFound);
}

TEST(FlightDumpFiles, AreWhereTheEnvironmentSays) {
  std::map<std::string, std::string, std::less<>> variables;
  const EnvironmentLookup environment = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_THAT(flight_dump_files(environment, 3),
              ElementsAre("/tmp/.cache/torch/comm_lib_trace_rank_3", "/tmp/nccl_trace_rank_3"));
  variables["HOME"] = "/data/me";
  EXPECT_EQ(flight_dump_files(environment, 3).front(),
            "/data/me/.cache/torch/comm_lib_trace_rank_3");
  variables["XDG_CACHE_HOME"] = "/cache";
  EXPECT_EQ(flight_dump_files(environment, 3).front(), "/cache/torch/comm_lib_trace_rank_3");
  variables["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = "/old/dump_";
  EXPECT_THAT(flight_dump_files(environment, 3), ElementsAre("/old/dump_3"));
  variables["TORCH_FR_DUMP_TEMP_FILE"] = "/new/dump_";
  EXPECT_THAT(flight_dump_files(environment, 12), ElementsAre("/new/dump_12"));
  for (const auto& [name, value] : variables)
    EXPECT_TRUE(tells_flight_dump(name + "=" + value)) << name;
  EXPECT_FALSE(tells_flight_dump("TORCH_FR_BUFFER_SIZE=2000"));
}

NotedCollective collective(const std::string& group, int64_t sequence) {
  return {.group = group,
          .group_id = group == "0" ? 0 : 7,
          .operation = "nccl:all_reduce",
          .sequence = sequence,
          .is_done = true};
}

TEST(FlightGroups, SayHowFarTheRankIs) {
  FlightDump dump{.version = "2.10", .collectives = {collective("0", 4), collective("5", 1)}};
  dump.collectives.push_back(collective("0", 5));
  dump.collectives.back().is_done = false;
  dump.collectives.back().created_ns = kNow - 40 * kSecond;
  dump.collectives.back().timeout_ms = 600'000;
  dump.collectives.push_back(collective("0", 9));
  dump.collectives.back().is_message = true;
  const std::vector<FlightGroup> groups = groups_of_dump(dump, kNow);
  EXPECT_THAT(
      groups,
      ElementsAre(
          FlightGroup{.name = "0",
                      .enqueued = 5,
                      .completed = 4,
                      .operation = "all_reduce",
                      .gives_up_in_ns = 560 * kSecond},
          FlightGroup{.name = "5", .enqueued = 1, .completed = 1, .operation = "all_reduce"}));
}

TEST(FlightGroups, HaveWhatTheStatusKnowsBesides) {
  FlightDump dump{.version = "2.10", .collectives = {collective("5", 3)}};
  dump.collectives.back().is_done = false;
  dump.groups = {{.group_id = 7, .enqueued = -1, .completed = 2}};
  EXPECT_THAT(groups_of_dump(dump, kNow),
              ElementsAre(FlightGroup{
                  .name = "5", .enqueued = 3, .completed = 2, .operation = "all_reduce"}));
  dump.groups.front().enqueued = 4;
  EXPECT_THAT(groups_of_dump(dump, kNow),
              ElementsAre(FlightGroup{.name = "5", .enqueued = 4, .completed = 2}))
      << "what the last one is is not among the entries";
}

TEST(FlightGroups, AreFewAndHaveNoTimeThatIsNone) {
  FlightDump dump{.version = "2.10"};
  for (int i = 0; i < 100; ++i)
    dump.collectives.push_back(collective(std::to_string(i), 1));
  EXPECT_THAT(groups_of_dump(dump, kNow), SizeIs(16));
  NotedCollective odd = collective("0", 1);
  odd.is_done = false;
  odd.created_ns = INT64_MIN;
  odd.timeout_ms = INT64_MAX;
  EXPECT_FALSE(groups_of_dump({.collectives = {odd}}, kNow).front().gives_up_in_ns);
  odd.created_ns = 1;
  EXPECT_FALSE(groups_of_dump({.collectives = {odd}}, kNow).front().gives_up_in_ns);
  odd.timeout_ms = 1;
  EXPECT_FALSE(groups_of_dump({.collectives = {odd}}, kNow).front().gives_up_in_ns) << "is over";
}

}  // namespace
}  // namespace dlprobe
