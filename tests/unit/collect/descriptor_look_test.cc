#include "lib/collect/tree/descriptor_look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/fake_files.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

constexpr uint64_t kShm = 29;

/// The descriptors of process 7, as a test opens them.
class Descriptors : public testing::Test {
 protected:
  void open(const std::string& link, FileStat stat) {
    const std::string path = "/proc/7/fd/" + std::to_string(next_++);
    files_.add_link(path, link);
    files_.set_stat(path, stat);
  }
  void open_many(int count, const std::string& link, FileStat stat) {
    for (int i = 0; i < count; ++i)
      open(link + (link.ends_with('_') ? std::to_string(i) : ""), stat);
  }
  void open_one_of_each() {
    open("/data/a.bin", {.device = 8, .mode = S_IFREG, .links = 1});
    open("/data", {.device = 8, .mode = S_IFDIR, .links = 2});
    open("/data/gone (deleted)", {.device = 8, .mode = S_IFREG, .links = 0});
    open("socket:[1]", {.mode = S_IFSOCK, .links = 1});
    open("pipe:[2]", {.mode = S_IFIFO, .links = 1});
    open("anon_inode:[eventfd]", {.mode = 0600, .links = 1});
    open("anon_inode:[eventpoll]", {.mode = 0600, .links = 1});
    open("anon_inode:[timerfd]", {.mode = 0600, .links = 1});
    open("/dev/shm/torch_7_1_2", {.device = kShm, .mode = S_IFREG, .links = 1});
    open("/dev/shm/torch_7_1_3 (deleted)", {.device = kShm, .mode = S_IFREG, .links = 0});
    open("/memfd:x (deleted)", {.device = 1, .mode = S_IFREG, .links = 0});
    open("/dev/null", {.device = 5, .mode = S_IFCHR, .links = 1});
  }
  const Directory& fd_folder() {
    folder_ = files_.open_directory("proc/7/fd").value();
    return *folder_;
  }
  const Directory& process() {
    folder_ = files_.open_directory("proc/7").value();
    return *folder_;
  }

  FakeFiles files_;
  std::shared_ptr<const Directory> folder_;
  int next_ = 0;
};

TEST_F(Descriptors, EachIsCountedByWhatItLeadsTo) {
  open_one_of_each();
  const auto kinds = must(read_fd_kinds(fd_folder(), {kShm}, 100));
  EXPECT_EQ(kinds[FdKind::kFile], 3U);
  EXPECT_EQ(kinds[FdKind::kSocket], 1U);
  EXPECT_EQ(kinds[FdKind::kPipe], 1U);
  EXPECT_EQ(kinds[FdKind::kEventfd], 1U);
  EXPECT_EQ(kinds[FdKind::kEpoll], 1U);
  EXPECT_EQ(kinds[FdKind::kSegment], 2U);
  EXPECT_EQ(kinds.unlinked_segments, 1U);
  EXPECT_EQ(kinds[FdKind::kMemfd], 1U);
  EXPECT_EQ(kinds[FdKind::kDevice], 1U);
  EXPECT_EQ(kinds[FdKind::kOther], 1U);
  EXPECT_EQ(kinds.total(), 12U);
}

TEST_F(Descriptors, TheSizeOfTheFolderIsTheNumber) {
  open_one_of_each();
  EXPECT_EQ(count_descriptors(fd_folder()), 12U);  // of an old kernel, by listing
  EXPECT_FALSE(descriptors_by_size(fd_folder()));
  files_.set_stat("/proc/7/fd", {.size_bytes = 40});
  EXPECT_EQ(count_descriptors(fd_folder()), 40U);
}

TEST_F(Descriptors, TooManyAreNotLookedAtOneByOne) {
  open_one_of_each();
  const auto kinds = read_fd_kinds(fd_folder(), {kShm}, 11);
  ASSERT_FALSE(kinds);
  EXPECT_EQ(kinds.error().code, ErrorCode::kInsufficient);
}

TEST_F(Descriptors, WhatMayNotBeSeenIsNoZero) {
  open("/data/a.bin", {.mode = S_IFREG, .links = 1});
  files_.fail("/proc/7/fd/0", EACCES);
  const auto kinds = read_fd_kinds(fd_folder(), {kShm}, 11);
  ASSERT_FALSE(kinds);
  EXPECT_EQ(kinds.error().code, ErrorCode::kForbidden);
}

TEST_F(Descriptors, ALookNamesWhatIsMost) {
  open_many(5, "/data/images/i_", {.device = 8, .mode = S_IFREG, .links = 1});
  open_many(4, "/data/a.bin", {.device = 8, .mode = S_IFREG, .links = 1});
  open_many(9, "/dev/shm/torch_9_1_", {.device = kShm, .mode = S_IFREG, .links = 0});
  const auto look = must(look_at_descriptors(process(), {kShm}));
  EXPECT_EQ(look.count, 18U);
  EXPECT_EQ(look.looked_at, 18U);
  EXPECT_EQ(look.kinds[FdKind::kSegment], 9U);
  EXPECT_THAT(look.most,
              testing::ElementsAre(
                  FdGroup{.kind = FdKind::kSegment, .name = "/dev/shm/torch_9_*", .count = 9},
                  FdGroup{.kind = FdKind::kFile, .name = "/data/images/*", .count = 5},
                  FdGroup{.kind = FdKind::kFile, .name = "/data/a.bin", .count = 4}));
}

TEST_F(Descriptors, ALookCountsWhatIsInFlight) {
  open("socket:[1]", {.mode = S_IFSOCK, .links = 1});
  files_.add("/proc/7/fdinfo/0", "pos:\t0\nflags:\t02\nmnt_id:\t9\nino:\t1\nscm_fds: 42\n");
  EXPECT_EQ(must(look_at_descriptors(process(), {kShm})).in_flight, 42U);
}

TEST(GroupName, IsTheCreatorsOfTensorsAndThePathElse) {
  EXPECT_EQ(group_name(FdKind::kSegment, "/dev/shm/torch_7_88_2 (deleted)"), "/dev/shm/torch_7_*");
  EXPECT_EQ(group_name(FdKind::kSegment, "/dev/shm/psm_1"), "/dev/shm/psm_1");
  EXPECT_EQ(group_name(FdKind::kSegment, "/dev/shm/torch_"), "/dev/shm/torch_");
  EXPECT_EQ(group_name(FdKind::kFile, "/a/b (deleted)"), "/a/b");
  EXPECT_EQ(group_name(FdKind::kSocket, "socket:[17]"), "socket");
}

}  // namespace
}  // namespace dlprobe
