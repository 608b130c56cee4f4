#include "lib/collect/snapshot/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/function_name.h"
#include "lib/base/parse.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/os/thread_stop.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/pid_status.h"
#include "tests/support/must.h"
#include "tests/support/record_list.h"
#include "tests/support/scoped_child.h"

namespace dlprobe {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr auto kPatience = std::chrono::seconds(20);
constexpr uint32_t kNobody = 65534;

/// Whether `condition` comes true before patience ends.
bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return false;
}

struct Look {
  TreeSnapshot tree;
  std::vector<Gap> gaps;

  const ProcessSnapshot& process() const { return tree.processes.at(0); }
};

class Snapshots : public testing::Test {
 protected:
  void SetUp() override { machine_ = must(live_machine()); }

  /// stack_target in that mode; pid() is the process to look at.
  void start(const std::string& mode, int threads = 1) {
    start_command({DLPROBE_STACK_TARGET, mode, std::to_string(threads)});
  }
  void start_command(std::vector<std::string> command) {
    child_ = std::make_unique<ScopedChild>(std::move(command));
    pid_ = child_->pid_line();
  }

  Expected<SnapshotTarget> target() const { return target_of(pid_); }
  Expected<SnapshotTarget> target_of(int pid) const {
    DLP_TRY(const ProcessKey key, process_key(machine_, pid));
    DLP_TRY(auto directory, machine_.root->open_directory("proc/" + std::to_string(pid)));
    return SnapshotTarget{.key = key, .directory = std::move(directory)};
  }
  Look look_at(const std::vector<SnapshotTarget>& targets, const SnapshotOptions& options = {}) {
    RecordList records;
    Look look;
    look.tree = SnapshotTaker(machine_, options, records).take(targets);
    look.gaps = records.all<Gap>();
    return look;
  }
  Look look(const SnapshotOptions& options = {}) { return look_at({*target()}, options); }

  PidStatus status() const {
    return chain(machine_.root->read("proc/" + std::to_string(pid_) + "/status"), parse_pid_status)
        .value();
  }
  char state() const {
    return chain(machine_.root->read("proc/" + std::to_string(pid_) + "/stat"), parse_pid_stat)
        .value()
        .state;
  }

  Machine machine_;
  std::unique_ptr<ScopedChild> child_;
  int pid_ = 0;
};

bool has_frame(const ThreadSnapshot& thread, const std::string& name) {
  return std::ranges::any_of(thread.stack, [&](const StackFrame& frame) {
    return short_function_name(frame.function).ends_with(name);
  });
}

TEST_F(Snapshots, ABlockedProcessIsNotStopped) {
  start("block", 8);
  // The threads say that they are ready just before they wait.
  ASSERT_TRUE(eventually([&] {
    return std::ranges::all_of(look({.max_pause = {}}).process().threads,
                               [](const ThreadSnapshot& t) { return t.state == 'S'; });
  }));
  const Look seen = look();
  EXPECT_EQ(seen.process().pause_ns, 0);
  ASSERT_THAT(seen.process().threads, SizeIs(9));
  EXPECT_THAT(seen.gaps, IsEmpty());
  for (const ThreadSnapshot& thread : seen.process().threads) {
    EXPECT_FALSE(thread.stopped);
    EXPECT_TRUE(thread.consistent);
    EXPECT_EQ(thread.stack_note, "");
    if (thread.tid == pid_) continue;
    EXPECT_TRUE(has_frame(thread, "wait_for_ever"));
    EXPECT_TRUE(thread.futex && thread.futex->kind == LockKind::kCondition);
  }
}

TEST_F(Snapshots, RunningThreadsAreStoppedAndGoOn) {
  start("spin", 4);
  const Look seen = look({.max_pause = std::chrono::seconds(1)});
  size_t stopped = 0;
  for (const ThreadSnapshot& thread : seen.process().threads) {
    if (thread.tid == pid_) continue;
    EXPECT_TRUE(has_frame(thread, "count_for_ever")) << thread.stack_note;
    if (thread.stopped) ++stopped;
  }
  EXPECT_EQ(stopped, 4U);
  EXPECT_GT(seen.process().pause_ns, 0);
  const auto count = [&] {
    child_->send("?\n");
    return child_->line();
  };
  const std::string before = count();
  EXPECT_TRUE(eventually([&] { return count() != before; }));
  EXPECT_EQ(status().tracer_pid, 0);
}

TEST_F(Snapshots, WithoutAPauseNobodyIsStopped) {
  start("spin", 2);
  const Look seen = look({.max_pause = {}});
  EXPECT_EQ(seen.process().pause_ns, 0);
  for (const ThreadSnapshot& thread : seen.process().threads)
    EXPECT_FALSE(thread.stopped);
}

TEST_F(Snapshots, AThreadInTheVdsoHasItsCallers) {
  start("clock", 2);
  const Look seen = look({.max_pause = std::chrono::seconds(1)});
  for (const ThreadSnapshot& thread : seen.process().threads) {
    if (thread.tid == pid_) continue;
    EXPECT_TRUE(has_frame(thread, "read_clock")) << thread.stack_note;
    for (const StackFrame& frame : thread.stack) {
      if (frame.file == "[vdso]") {
        EXPECT_NE(frame.function, "");
      }
    }
  }
}

TEST_F(Snapshots, AStoppedProcessIsLookedAtAndStaysStopped) {
  start("spin", 2);
  ::kill(pid_, SIGSTOP);
  const auto all_stopped = [](const ProcessSnapshot& process) {
    return std::ranges::all_of(process.threads, [](const auto& t) { return t.state == 'T'; });
  };
  ASSERT_TRUE(eventually([&] { return all_stopped(look({.max_pause = {}}).process()); }));
  const Look seen = look();
  EXPECT_TRUE(all_stopped(seen.process()));
  for (const ThreadSnapshot& thread : seen.process().threads)
    EXPECT_THAT(thread.stack, Not(IsEmpty()));
  EXPECT_EQ(state(), 'T');
  ::kill(pid_, SIGCONT);
  EXPECT_TRUE(eventually([&] { return state() != 'T'; }));
}

// A further look would meet it awake as well, and a process group of Gloo has such a thread.
TEST_F(Snapshots, AnEventLoopThatWakesSoonDoesNotGoOn) {
  start_command({"python3", "-c",
                 "import os, select; print('pid', os.getpid(), flush=True); loop = select.epoll(); "
                 "loop.register(os.pipe()[0])\n"
                 "while True: loop.poll(0.002)"});
  RecordList records;
  SnapshotTaker taker(machine_, {}, records);
  const std::vector<SnapshotTarget> targets = {*target()};
  EXPECT_TRUE(eventually([&] {
    const TreeSnapshot tree = taker.take(targets);
    EXPECT_FALSE(taker.went_on());
    const ThreadSnapshot& thread = tree.processes.at(0).threads.at(0);
    return !thread.wait.running && !thread.consistent;
  }));
}

TEST_F(Snapshots, WhoTracesAProcessIsSaid) {
  start("block");
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, pid_, nullptr, nullptr), 0);
  const Look seen = look();
  ASSERT_THAT(seen.gaps, SizeIs(1));
  EXPECT_THAT(seen.gaps[0].why.plain(), HasSubstr("process " + std::to_string(::getpid()) + " ("));
  EXPECT_THAT(seen.process().threads, SizeIs(2));
  // A detach needs a stopped tracee; the end of this thread's tracing does without.
  child_->kill();
}

TEST_F(Snapshots, AProcessWhoseMainThreadHasEndedIsLookedAt) {
  start("exitmain");
  ASSERT_TRUE(eventually([&] { return state() == 'Z'; }));
  const Look seen = look();
  ASSERT_THAT(seen.process().threads, SizeIs(2));
  EXPECT_EQ(seen.process().threads[0].state, 'Z');
  EXPECT_TRUE(has_frame(seen.process().threads[1], "answer"))
      << seen.process().threads[1].stack_note;
}

TEST_F(Snapshots, AnOwnerInAnotherPidNamespaceIsTranslated) {
  start("namespace");
  if (pid_ == 0) GTEST_SKIP() << "needs the right to make a pid namespace (CAP_SYS_ADMIN)";
  ASSERT_TRUE(eventually([&] {
    const Look seen = look();
    const auto& main = seen.process().threads.at(0);
    return main.futex && main.futex->kind == LockKind::kMutex;
  }));
  const Look seen = look();
  ASSERT_THAT(seen.process().threads, SizeIs(2));
  const ThreadSnapshot& main = seen.process().threads[0];
  const ThreadSnapshot& holder = seen.process().threads[1];
  EXPECT_EQ(main.own_tid, 1);
  EXPECT_EQ(holder.own_tid, 2);
  EXPECT_EQ(main.futex->owner_tid, holder.tid);
}

TEST_F(Snapshots, AThreadOfTheKernelIsAGap) {
  constexpr int kKthreadd = 2;
  const auto kernel = target_of(kKthreadd);
  const auto stat = chain(machine_.root->read("proc/2/stat"), parse_pid_stat);
  if (!kernel || !stat || !is_kernel_thread(*stat)) {
    GTEST_SKIP() << "needs to see the kernel's threads (the host's pid namespace)";
  }
  const Look seen = look_at({*kernel});
  ASSERT_THAT(seen.gaps, SizeIs(1));
  EXPECT_THAT(seen.gaps[0].why.plain(), HasSubstr("kernel"));
}

/// What a process of another user, without rights, sees: "what why remedy" of each gap, then
/// "state wchan" of each thread.
std::string seen_by_nobody(const std::function<Look()>& look) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text;
    if (::setresgid(kNobody, kNobody, kNobody) != 0 ||
        ::setresuid(kNobody, kNobody, kNobody) != 0) {
      ::_exit(1);
    }
    const Look seen = look();
    for (const Gap& gap : seen.gaps)
      text += gap.what.plain() + "|" + gap.why.plain() + "|" + gap.remedy.plain() + "\n";
    for (const ProcessSnapshot& process : seen.tree.processes) {
      for (const ThreadSnapshot& thread : process.threads)
        text += std::string("thread ") + thread.state + " " + thread.comm + "\n";
    }
    if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 1; got > 0;) {
    got = ::read(ends[0], buffer.data(), buffer.size());
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST_F(Snapshots, AnotherUsersProcessIsAGapThatSaysWhoMayLook) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  start("block", 2);
  const std::string seen = seen_by_nobody([&] { return look(); });
  EXPECT_THAT(seen, HasSubstr("it belongs to user id 0, dlprobe runs as user id 65534"));
  EXPECT_THAT(seen, HasSubstr("|sudo dlprobe attach " + std::to_string(pid_)));
  EXPECT_THAT(seen, HasSubstr("thread S stack_target"));
}

TEST_F(Snapshots, AProcessThatIsNotDumpableIsAGapThatSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  // The same user as who looks.
  start_command({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                 DLPROBE_STACK_TARGET, "nodump"});
  if (pid_ == 0) GTEST_SKIP() << "needs setpriv (util-linux)";
  const std::string seen = seen_by_nobody([&] { return look(); });
  EXPECT_THAT(seen, HasSubstr("it is not dumpable"));
  EXPECT_THAT(seen, HasSubstr("thread S stack_target"));
}

/// What eu-stack says of a live process: how many native frames have a name, by thread.
std::map<int32_t, int> named_by_eu_stack(int pid) {
  std::map<int32_t, int> named;
  ScopedChild program({"eu-stack", "-p", std::to_string(pid)});
  int32_t tid = 0;
  for (std::string line = program.line(); !line.empty(); line = program.line()) {
    if (line.starts_with("TID ")) {
      tid = parse_int<int32_t>(std::string_view(line).substr(4, line.find(':') - 4)).value_or(0);
    } else if (line.starts_with('#')) {
      // "#0  0x00007f3b2c0d4e96 name": without a name the address is the last.
      named[tid] += split_fields(line).size() > 2 ? 1 : 0;
    }
  }
  return named;
}

/// How many rounds; more in the slow set.
int rounds() {
  const char* text = std::getenv("DLPROBE_ROUNDS");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 50 : parse_int<int>(text).value_or(50);
}

/// 0, 37, 74 ... 997 microseconds: the instants of one stop, and those around it.
std::chrono::microseconds instant(int round) {
  return std::chrono::microseconds(round * 37 % 1000);
}

TEST_F(Snapshots, KilledWhileItStopsThreadsItLeavesNobodyStopped) {
  start("spin", 4);
  const auto tids = look({.max_pause = {}}).process().threads;
  std::vector<int32_t> numbers;
  for (const ThreadSnapshot& thread : tids)
    numbers.push_back(thread.tid);
  for (int i = 0; i < rounds(); ++i) {
    const pid_t stopper = ::fork();
    if (stopper == 0) {
      while (true)
        stop_threads(numbers, std::chrono::milliseconds(5), [](auto) {});
    }
    ASSERT_TRUE(eventually([&] { return status().tracer_pid != 0; }));
    std::this_thread::sleep_for(instant(i));  // NOLINT: the instant is what is tested
    ::kill(stopper, SIGKILL);
    ::waitpid(stopper, nullptr, 0);
    for (const int32_t tid : numbers) {
      const std::string task = "proc/" + std::to_string(pid_) + "/task/" + std::to_string(tid);
      const auto stat = must(chain(machine_.root->read(task + "/stat"), parse_pid_stat));
      EXPECT_THAT(stat.state, testing::AnyOf('R', 'S'));
      const auto traced = chain(machine_.root->read(task + "/status"), parse_pid_status);
      EXPECT_EQ(traced->tracer_pid, 0);
    }
  }
  const auto count = [&] {
    child_->send("?\n");
    return child_->line();
  };
  const std::string before = count();
  EXPECT_TRUE(eventually([&] { return count() != before; }));
}

TEST_F(Snapshots, ATargetThatIsKilledMeanwhileEndsNothingElse) {
  for (int i = 0; i < rounds(); ++i) {
    start(i % 2 == 0 ? "spin" : "block", 8);
    ASSERT_NE(pid_, 0);
    const auto seen = must(target());
    std::jthread killer([&] {
      std::this_thread::sleep_for(3 * instant(i));  // NOLINT: the instant is what is tested
      ::kill(pid_, SIGKILL);
    });
    while (true) {
      const Look look = look_at({seen});
      if (look.tree.processes.empty() || look.process().threads.at(0).state == 'Z') break;
    }
  }
}

/// Names of frames that may follow each other, outermost first: see python_runner.py.
bool is_possible(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) {
    return !name.starts_with("left_") && !name.starts_with("right_") && name != "turn";
  });
  std::ranges::reverse(names);
  if (names.empty()) return true;
  if (names[0] != "turn") return false;
  for (size_t i = 1; i < names.size(); ++i) {
    const std::string number = std::to_string(i);
    const std::string side = names[1].starts_with("left_") ? "left_" : "right_";
    if (names[i] != side + number) return false;
  }
  return true;
}

class RunningPython : public Snapshots, public testing::WithParamInterface<std::string> {
 protected:
  /// Counts the looks whose Python frames cannot have stood on a stack so.
  int torn(const SnapshotOptions& options, int looks) {
    int count = 0;
    for (int i = 0; i < looks; ++i) {
      const Look seen = look(options);
      for (const ThreadSnapshot& thread : seen.process().threads) {
        std::vector<std::string> names;
        for (const StackFrame& frame : thread.stack) {
          if (frame.python) names.push_back(frame.function);
        }
        if (!is_possible(names) || thread.stack_note.contains("Python:") || names.empty()) {
          ++count;
          std::string text;
          for (const auto& name : names)
            text += name + " ";
          last_torn_ = text + thread.stack_note;
        }
      }
    }
    return count;
  }
  std::string last_torn_;
};

TEST_P(RunningPython, HasFramesOfOneMoment) {
  start_command({GetParam(), DLPROBE_PYTHON_RUNNER});
  ASSERT_NE(pid_, 0);
  EXPECT_EQ(torn({.max_pause = std::chrono::seconds(1)}, 60), 0) << last_torn_;
}

TEST_P(RunningPython, HasNativeAndPythonFramesInOrder) {
  start_command({GetParam(), DLPROBE_PYTHON_RUNNER});
  ASSERT_NE(pid_, 0);
  for (int i = 0; i < 20; ++i) {
    const Look seen = look({.max_pause = std::chrono::seconds(1)});
    for (const ThreadSnapshot& thread : seen.process().threads) {
      EXPECT_THAT(thread.stack_note, Not(HasSubstr("not in order")));
      EXPECT_THAT(thread.stack, Contains(testing::Field(&StackFrame::python, false)));
    }
  }
}

class NamedFrames : public RunningPython {};

TEST_P(NamedFrames, AreNotFewerThanEuStackHas) {
  if (::system("eu-stack --version > /dev/null 2>&1") != 0) {  // NOLINT: a fixed command
    GTEST_SKIP() << "needs eu-stack (package elfutils)";
  }
  start_command({GetParam(), DLPROBE_PYTHON_RUNNER, "wait"});
  ASSERT_NE(pid_, 0);
  const auto all_wait = [](const ProcessSnapshot& process) {
    return std::ranges::all_of(process.threads, [](const auto& t) { return t.state == 'S'; });
  };
  ASSERT_TRUE(eventually([&] { return all_wait(look({.max_pause = {}}).process()); }));
  const auto peer = named_by_eu_stack(pid_);
  const Look seen = look({.max_pause = {}});
  ASSERT_EQ(peer.size(), seen.process().threads.size());
  for (const ThreadSnapshot& thread : seen.process().threads) {
    // Python frames stand for native ones: each that begins a call took the place of one.
    int named = 0;
    for (const StackFrame& frame : thread.stack)
      named += frame.function.empty() ? 0 : 1;
    EXPECT_GE(named, peer.at(thread.tid)) << thread.tid << " " << thread.stack_note;
    EXPECT_EQ(thread.stack_note, "");
  }
}

std::vector<std::string> pythons() {
  std::vector<std::string> programs;
  for (const std::string_view program : split(DLPROBE_PYTHONS, ':')) {
    if (!program.empty()) programs.emplace_back(program);
  }
  return programs;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RunningPython);
INSTANTIATE_TEST_SUITE_P(All, RunningPython, testing::ValuesIn(pythons()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NamedFrames);
INSTANTIATE_TEST_SUITE_P(All, NamedFrames, testing::ValuesIn(pythons()));

}  // namespace
}  // namespace dlprobe
