#include "lib/os/process_access.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/os/machine.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

TEST(SystemProcesses, ReadsTheExitStatusOfAReapedProcess) {
  const SystemProcesses processes;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(7);
  const auto pidfd = must(processes.open_pidfd(child));
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const std::array fds = {pidfd.get()};
  EXPECT_TRUE(processes.ended(fds)[0]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto status = processes.exit_status(pidfd.get());
  if (!status && status.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << "PIDFD_GET_INFO with exit codes needs Linux 6.15";
  }
  ASSERT_TRUE(status) << to_string(status.error());
  EXPECT_EQ(*status, 7 << 8);
}

TEST(SystemProcesses, ALivingProcessHasNotEnded) {
  const SystemProcesses processes;
  const auto pidfd = must(processes.open_pidfd(::getpid()));
  const std::array fds = {pidfd.get(), -1};
  const auto ended = processes.ended(fds);
  EXPECT_FALSE(ended[0]);
  EXPECT_FALSE(ended[1]);
}

TEST(SystemProcesses, ReadsMemory) {
  const SystemProcesses processes;
  const std::array<char, 4> original = {'a', 'b', 'c', 'd'};
  std::array<char, 4> copy{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): an address of the target
  const auto address = reinterpret_cast<uint64_t>(original.data());
  const auto status =
      processes.read_memory(::getpid(), address, std::as_writable_bytes(std::span(copy)));
  ASSERT_TRUE(status) << to_string(status.error());
  EXPECT_EQ(copy, original);
  EXPECT_FALSE(processes.read_memory(::getpid(), 8, std::as_writable_bytes(std::span(copy))));
}

TEST(SystemProcesses, TellsWhichPagesAreInMemory) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* memory =
      ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::span(static_cast<char*>(memory), 3 * page)[page] = 1;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): an address of the target
  const auto address = reinterpret_cast<uint64_t>(memory);
  const auto present = must(SystemProcesses().pages_in_memory(::getpid(), address, 3));
  EXPECT_EQ(present, (std::vector<bool>{false, true, false}));
  ::munmap(memory, 3 * page);
}

TEST(SystemProcesses, ListsSharedMappingsOfFilesAlone) {
  const auto machine = must(live_machine());
  const int fd = static_cast<int>(::memfd_create("dlprobe-test", MFD_CLOEXEC));
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 8192), 0);
  void* shared = ::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(shared, MAP_FAILED);
  struct stat status{};
  ASSERT_EQ(::fstat(fd, &status), 0);
  const auto self = must(machine.root->open_directory("proc/self"));
  const auto mappings = machine.processes->shared_mappings(*self);
  ::munmap(shared, 8192);
  ::close(fd);
  if (!mappings && mappings.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << "PROCMAP_QUERY needs Linux 6.11";
  }
  ASSERT_TRUE(mappings) << to_string(mappings.error());
  const auto found = std::ranges::find(*mappings, status.st_ino, &SharedMapping::inode);
  ASSERT_NE(found, mappings->end());
  EXPECT_EQ(found->end - found->begin, 8192U);
  EXPECT_EQ(found->device, status.st_dev);
  EXPECT_EQ(found->name, "/memfd:dlprobe-test (deleted)");
}

TEST(SystemProcesses, TellsACopyOfADescriptorFromAnotherOfTheSameFile) {
  const SystemProcesses processes;
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd copy(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  const UniqueFd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto compare = [&](const UniqueFd& with) {
    return processes.compare_files({.pid = ::getpid(), .fd = file.get()},
                                   {.pid = ::getpid(), .fd = with.get()});
  };
  const auto same = compare(copy);
  if (!same && same.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << "kcmp needs a kernel with CONFIG_KCMP";
  }
  ASSERT_TRUE(same) << to_string(same.error());
  EXPECT_EQ(*same, FileIdentity::kSame);
  EXPECT_EQ(*compare(other), FileIdentity::kDifferent);
}

TEST(RecordedMachine, OffersNoSystemCalls) {
  const ProcessAccess recorded;
  EXPECT_EQ(recorded.open_pidfd(1).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(recorded.exit_status(1).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace dlprobe
