#include "reports/model/stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "lib/base/units.h"
#include "reports/document/render.h"
#include "reports/model/write_json.h"
#include "tests/support/escape_lines.h"
#include "tests/unit/reports/cases.h"

namespace dlprobe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

StacksLook look_of(const testing::ReportCase& each) {
  const dlprobe::Run& run = each.recording.runs.front();
  return {.version = "0.1.0",
          .host = each.recording.header.host,
          .realtime_ns = each.recording.header.realtime_ns,
          .asked_pid = 101,
          .snapshot = run.snapshots.front(),
          .processes = run.processes,
          .gaps = {}};
}

Json stacks_json(const StacksLook& look) {
  const report::Stacks stacks = make_stacks(look, FrameChoice::kAll);
  return json_of(stacks_shape(), &stacks);
}

std::string stacks_text(const testing::ReportCase& each, FrameChoice choice = FrameChoice::kAll,
                        int verbosity = 0) {
  return render_stacks(make_stacks(look_of(each), choice), {.verbosity = verbosity});
}

TEST(Stacks, ThreadsAndProcessesThatAreAlikeAreFolded) {
  EXPECT_EQ(stacks_text(testing::hang_case()),
            "trainer 100 (python3), Python 3.11.2, stopped for 0.40 ms\n"
            "  thread 100 (python3), waits for poll on pipe 81234, holds the GIL\n"
            "    . poll (libc.so.6)\n"
            "      Loader._get_data (torch/utils/data/dataloader.py:1282)\n"
            "      main (/srv/job/train.py:21)\n"
            "  threads 104, 105 (python3), waits for semaphore 0x7f0010\n"
            "    . ?? (libc.so.6+0x85f16, +0x90d90)\n"
            "      Queue._feed (multiprocessing/queues.py:231)\n"
            "\n"
            "worker 101 (python3), Python 3.11.2, not stopped\n"
            "  thread 101 (python3), waits for mutex 0x7f1000, held by thread 106\n"
            "    . pthread_mutex_lock (libc.so.6)\n"
            "      Data.__getitem__ (/srv/job/data.py:14)\n"
            "workers 102, 103, 107: same as worker 101\n");
}

TEST(Stacks, SaySinceWhenWhereTheKernelDoes) {
  testing::ReportCase each = testing::hang_case();
  auto& processes = each.recording.runs[0].snapshots[0].processes;
  const auto block = [](ProcessSnapshot& process, size_t thread, BootNs span) {
    process.at = 10'000 * kSecond;
    process.threads[thread].blocked_since = process.at - span;
  };
  block(processes[0], 1, 7200 * kSecond);
  block(processes[0], 2, 3 * kSecond);
  block(processes[1], 0, 7200 * kSecond);
  const std::string text = stacks_text(each);
  EXPECT_THAT(text, HasSubstr("waits for semaphore 0x7f0010, for at least 3.0 s\n"));
  EXPECT_THAT(text, HasSubstr("waits for mutex 0x7f1000, held by thread 106, for 2 h 0 min\n"));
}

TEST(Stacks, AWorkerThatStandsElsewhereIsNotFoldedAway) {
  testing::ReportCase each = testing::hang_case();
  each.recording.runs[0].snapshots[0].processes[3].threads[0].stack[1].line = 15;
  const std::string text = stacks_text(each);
  EXPECT_THAT(text, HasSubstr("workers 102, 107: same as worker 101\n"));
  EXPECT_THAT(text, HasSubstr("\nworker 103 (python3)"));
  EXPECT_THAT(text, HasSubstr("data.py:15"));
}

/// Workers 101 and 102, the first two of the tree, of whose threads `change` makes something else.
std::string text_of_two(const std::function<void(ThreadSnapshot&, ThreadSnapshot&)>& change,
                        std::vector<ChannelEnd> ends = {}) {
  testing::ReportCase each = testing::hang_case();
  TreeSnapshot& tree = each.recording.runs[0].snapshots[0];
  change(tree.processes[1].threads[0], tree.processes[2].threads[0]);
  tree.channel_ends = std::move(ends);
  return stacks_text(each);
}

void wait_for_data(ThreadSnapshot& thread, uint64_t pipe) {
  thread.futex.reset();
  thread.wait = {.tid = thread.tid,
                 .syscall = 0,
                 .files = {{.fd = 4, .kind = FileKind::kPipe, .inode = pipe}}};
}

TEST(Stacks, WorkersThatWaitForEachOthersSharedLocksAreBothShown) {
  const auto share = [](ThreadSnapshot& thread, uint64_t inode) {
    thread.futex = FutexWait{.address = 0x7f2000,
                             .shared = true,
                             .kind = LockKind::kSharedSemaphore,
                             .file = "/dev/shm/sem.mp-x",
                             .inode = inode};
  };
  std::string text = text_of_two([&](ThreadSnapshot& one, ThreadSnapshot& other) {
    share(one, 41);
    share(other, 42);
  });
  EXPECT_THAT(text,
              AllOf(HasSubstr("\nworker 101 (python3)"), HasSubstr("\nworker 102 (python3)")));
  text = text_of_two([&](ThreadSnapshot& one, ThreadSnapshot& other) {
    share(one, 41);
    share(other, 41);
  });
  EXPECT_THAT(text, HasSubstr("worker 102: same as worker 101\n"));
}

TEST(Stacks, WorkersThatReadFromOneAnotherAreBothShown) {
  const auto read_own_pipes = [](ThreadSnapshot& one, ThreadSnapshot& other) {
    wait_for_data(one, 51);
    wait_for_data(other, 52);
  };
  const ChannelEnd first{.inode = 51, .kind = EndKind::kPipe, .pid = 102, .writes = true};
  const ChannelEnd second{.inode = 52, .kind = EndKind::kPipe, .pid = 101, .writes = true};
  EXPECT_THAT(text_of_two(read_own_pipes, {first, second}),
              AllOf(HasSubstr("\nworker 101 (python3)"), HasSubstr("\nworker 102 (python3)")));
  // A worker that was forked later has the ends of an earlier one, too: no circle.
  EXPECT_THAT(text_of_two(read_own_pipes, {first}), HasSubstr("worker 102: same as worker 101\n"));
}

TEST(Stacks, WorkersWhoseLocksDifferentThreadsOfTheTreeHoldAreBothShown) {
  const auto text = text_of_two([](ThreadSnapshot& one, ThreadSnapshot& other) {
    one.futex->owner_tid = 104;
    other.futex->owner_tid = 105;
  });
  EXPECT_THAT(text, AllOf(HasSubstr("held by thread 104"), HasSubstr("held by thread 105")));
}

TEST(Stacks, ThreadsThatHoldEachOthersLocksAreBothShown) {
  testing::ReportCase each = testing::hang_case();
  auto& threads = each.recording.runs[0].snapshots[0].processes[0].threads;
  threads[1].futex->kind = LockKind::kMutex;
  threads[2].futex->kind = LockKind::kMutex;
  threads[1].futex->owner_tid = threads[2].tid;
  threads[2].futex->owner_tid = threads[1].tid;
  EXPECT_THAT(stacks_text(each), AllOf(HasSubstr("  thread 104 "), HasSubstr("  thread 105 ")));
}

TEST(Stacks, CppNamesAreForPeopleInTheTextAndAsTheFileHasThemInTheDocument) {
  testing::ReportCase each = testing::hang_case();
  StackFrame& frame = each.recording.runs[0].snapshots[0].processes[1].threads[0].stack[0];
  frame.function = "_ZN2at4_ops3sum4callERKNS_6TensorE";
  EXPECT_THAT(stacks_text(each), HasSubstr("    . at::_ops::sum::call (libc.so.6)\n"));
  const Json stacks = stacks_json(look_of(each));
  const Json& entry = stacks["processes"][1]["threads"][0]["stack"][0];
  EXPECT_EQ(entry["function"], frame.function);
  EXPECT_EQ(entry["name"], "at::_ops::sum::call");
}

TEST(Stacks, PythonFramesAlone) {
  const std::string text = stacks_text(testing::hang_case(), FrameChoice::kPython);
  EXPECT_THAT(text, Not(HasSubstr("libc.so.6")));
  EXPECT_THAT(text, HasSubstr("Queue._feed"));
  EXPECT_THAT(stacks_text(testing::hang_case(), FrameChoice::kNative),
              Not(HasSubstr("Queue._feed")));
}

TEST(Stacks, AThreadWithoutSuchFramesIsCounted) {
  testing::ReportCase each = testing::hang_case();
  for (ThreadSnapshot& thread : each.recording.runs[0].snapshots[0].processes[0].threads) {
    if (thread.tid != 100) thread.stack.pop_back();
  }
  EXPECT_THAT(stacks_text(each, FrameChoice::kPython),
              HasSubstr("  2 threads without such frames\n"));
}

TEST(Stacks, TheDocumentHasEveryThreadAndFrameOfEachProcess) {
  const Json stacks = stacks_json(look_of(testing::hang_case()));
  EXPECT_EQ(stacks["kind"], "dlprobe.stacks");
  EXPECT_EQ(stacks["taken_at"], "2025-11-20T21:47:44.120Z");
  ASSERT_EQ(stacks["processes"].size(), 5U);
  EXPECT_EQ(stacks["processes"][0]["threads"].size(), 3U);
  const Json& worker = stacks["processes"][4];
  EXPECT_EQ(worker["pid"], 107);
  EXPECT_EQ(worker["role"], "worker");
  EXPECT_EQ(worker["threads"][0]["futex"]["owner_tid"], 106);
  EXPECT_EQ(worker["threads"][0]["stack"][1]["file"], "/srv/job/data.py");
  EXPECT_EQ(worker["threads"][0]["stack"][1]["line"], 14);
}

TEST(Stacks, WhatCouldNotBeSeenIsSaid) {
  StacksLook look = look_of(testing::hang_case());
  look.gaps = {{.what = "stacks of process 108", .why = "forbidden", .remedy = "be root"}};
  const std::string text = render_stacks(make_stacks(look, FrameChoice::kAll), {});
  EXPECT_THAT(text, HasSubstr("What could not be seen\n  - stacks of process 108: forbidden\n"
                              "    what would help: be root\n"));
}

TEST(Stacks, WhatCouldNotBeSeenOfManyIsSaidOnce) {
  StacksLook look = look_of(testing::hang_case());
  for (const int pid : {108, 109, 110}) {
    look.gaps.push_back({.what = "stacks of process " + own(pid),
                         .why = "read /proc/" + own(pid) + "/maps: not tried"});
  }
  const report::Stacks stacks = make_stacks(look, FrameChoice::kAll);
  EXPECT_THAT(
      render_stacks(stacks, {}),
      HasSubstr("  - stacks of process 108: read /proc/108/maps: not tried (and 2 others like "
                "it)\n"));
  EXPECT_THAT(render_stacks(stacks, {.verbosity = 1}), HasSubstr("stacks of process 110"));
}

TEST(Stacks, HostileTextCannotActOnTheTerminal) {
  for (const int verbosity : {0, 1}) {
    const std::string text =
        stacks_text(testing::hostile_hang_case(), FrameChoice::kAll, verbosity);
    EXPECT_EQ(escape_lines(text), text);
    EXPECT_THAT(text, HasSubstr(R"(\x1b]0;owned\x07)"));
  }
}

}  // namespace
}  // namespace dlprobe
