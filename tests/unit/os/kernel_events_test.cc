#include "lib/os/kernel_events.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/units.h"
#include "lib/os/clock.h"
#include "lib/os/wake_set.h"
#include "tests/support/must.h"
#include "tests/support/scoped_child.h"

namespace dlprobe {
namespace {

// The id of signal_generate, taken from its text.
uint64_t id_in(const std::string& format) {
  const size_t at = format.find("ID: ");
  return at == std::string::npos ? 0 : std::strtoull(format.c_str() + at + 4, nullptr, 10);
}

TEST(KernelEvents, ASignalIsSeenWithItsSender) {
  const SystemKernelEvents events;
  const auto format = events.tracepoint_format("signal/signal_generate");
  if (!format) GTEST_SKIP() << to_string(format.error());
  auto tracepoint = events.open_tracepoint(id_in(*format), "sig==9");
  if (!tracepoint) GTEST_SKIP() << to_string(tracepoint.error());
  const BootNs before = SystemClock().now();
  {
    const ScopedChild child({"sleep", "60"});
    ::kill(child.pid(), SIGCONT);  // is filtered out
    ::kill(child.pid(), SIGKILL);
  }
  const auto records = (*tracepoint)->take();
  const auto own = std::ranges::find(records, ::getpid(), &TracepointRecord::pid);
  ASSERT_NE(own, records.end());
  EXPECT_GE(own->at, before);
  EXPECT_LE(own->at, SystemClock().now());
  EXPECT_FALSE(own->fields.empty());
  EXPECT_EQ(std::ranges::count(own->arguments, uint64_t{SIGKILL}), 1) << "of kill(2)";
  EXPECT_EQ((*tracepoint)->take_lost(), 0U);
  EXPECT_FALSE((*tracepoint)->descriptors().empty());
}

// As the kernel lays it out: a sample of signal 9 to 4711, three lost records, a sample that is cut
// off.
TEST(KernelEvents, WholeRecordsAreReadAndAreBounded) {
  struct Head {
    uint32_t type;
    uint16_t misc;
    uint16_t size;
  };
  struct {
    Head head = {.type = 9, .misc = 0, .size = 80};
    std::array<uint32_t, 2> task = {42, 43};
    std::array<uint32_t, 2> time = {7, 0};
    uint32_t bytes = 12;
    std::array<uint32_t, 3> fields = {9, 0, 4711};
    std::array<uint32_t, 10> registers = {2, 0, 5, 0, 9, 0, 0x7000, 0, 0x1234, 0};
    Head lost_head = {.type = 2, .misc = 0, .size = 24};
    std::array<uint32_t, 4> lost = {1, 0, 3, 0};
    Head cut_off = {.type = 9, .misc = 0, .size = 80};
  } ring;
  const auto bytes = std::as_bytes(std::span(&ring, 1));
  std::vector<TracepointRecord> records;
  EXPECT_EQ(parse_perf_records(bytes, records), 3U);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].pid, 42);
  EXPECT_EQ(records[0].tid, 43);
  EXPECT_EQ(records[0].at, 7);
  EXPECT_EQ(records[0].fields.size(), 12U);
  EXPECT_EQ(records[0].arguments, (std::array<uint64_t, 2>{5, 9}));
  EXPECT_EQ(records[0].stack_pointer, 0x7000U);
  EXPECT_EQ(records[0].code_address, 0x1234U);
  for (size_t length = 0; length < bytes.size(); ++length)
    parse_perf_records(bytes.first(length), records);
  // A record that claims to be shorter than its own head would be read for ever.
  ring.head.size = 4;
  records.clear();
  EXPECT_EQ(parse_perf_records(bytes, records), 0U);
  EXPECT_TRUE(records.empty());
}

TEST(KernelEvents, AnUnknownTracepointIsAnError) {
  EXPECT_FALSE(SystemKernelEvents().tracepoint_format("no/such"));
}

TEST(KernelEvents, ARecordedMachineSaysNothing) {
  const KernelEvents none;
  EXPECT_EQ(none.tracepoint_format("signal/signal_generate").error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(none.open_tracepoint(1, ""));
  EXPECT_FALSE(none.follow_log());
}

TEST(WakeSet, WakesOnceForEachTimeThatADescriptorBecomesReadable) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const UniqueFd reads(ends[0]);
  const UniqueFd writes(ends[1]);
  const auto set = must(WakeSet::create());
  ASSERT_TRUE(set.add(reads.get()));
  pollfd polled{.fd = set.descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0);
  ASSERT_EQ(::write(writes.get(), "x", 1), 1);
  EXPECT_EQ(::poll(&polled, 1, 0), 1);
  set.clear();
  EXPECT_EQ(::poll(&polled, 1, 0), 0) << "what was not read does not wake again";
  ASSERT_EQ(::write(writes.get(), "x", 1), 1);
  EXPECT_EQ(::poll(&polled, 1, 0), 1);
}

}  // namespace
}  // namespace dlprobe
