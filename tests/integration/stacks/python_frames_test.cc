#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/proc/syscall_file.h"
#include "lib/stacks/python/frame_texts.h"
#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/futures.h"
#include "lib/stacks/python/tasks.h"
#include "tests/integration/stacks/live_python.h"
#include "tests/support/must.h"
#include "tests/support/read_text.h"
#include "tests/support/scoped_child.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::IsSupersetOf;

constexpr auto kPatience = std::chrono::seconds(20);

/// A program whose symbols were stripped to the last.
class NoSymbols final : public SymbolSource {
 public:
  std::optional<uint64_t> symbol(const Mapping& /*mapping*/, std::string_view /*name*/) override {
    return std::nullopt;
  }
  std::optional<AddressRange> section(const Mapping& /*mapping*/,
                                      std::string_view /*name*/) override {
    return std::nullopt;
  }
};

/// A program of which only the sections are known.
class OnlySections final : public SymbolSource {
 public:
  explicit OnlySections(SymbolSource& all) : all_(all) {}
  std::optional<uint64_t> symbol(const Mapping& /*mapping*/, std::string_view /*name*/) override {
    return std::nullopt;
  }
  std::optional<AddressRange> section(const Mapping& mapping, std::string_view name) override {
    return all_.section(mapping, name);
  }

 private:
  SymbolSource& all_;
};

struct LiveFrame {
  int line = 0;
  std::string file;
  std::string function;
  bool operator==(const LiveFrame&) const = default;
  friend void PrintTo(const LiveFrame& frame, std::ostream* out) {
    *out << frame.file << ":" << frame.line << " " << frame.function;
  }
};

/// What the target says of itself.
struct LiveThread {
  int32_t native_id = 0;
  std::vector<LiveFrame> frames;
};
using LiveThreads = std::map<uint64_t, LiveThread>;  // by pthread id

LiveThreads read_report(ScopedChild& target) {
  LiveThreads threads;
  LiveThread* thread = nullptr;
  while (true) {
    const std::string line = target.line();
    const auto fields = split(line, '\t');
    if (fields[0] == "thread" && fields.size() == 3) {
      thread = &threads[parse_int<uint64_t>(fields[1]).value_or(0)];
      thread->native_id = parse_int<int32_t>(fields[2]).value_or(0);
    } else if (fields[0] == "frame" && fields.size() == 4 && thread != nullptr) {
      thread->frames.push_back({.line = parse_int<int>(fields[1]).value_or(-1),
                                .file = std::string(fields[2]),
                                .function = std::string(fields[3])});
    } else {
      EXPECT_EQ(line, "end");
      return threads;
    }
  }
}

std::vector<LiveFrame> without_entries(const std::vector<PythonFrame>& frames) {
  std::vector<LiveFrame> plain;
  for (const PythonFrame& frame : frames) {
    plain.push_back({.line = frame.line, .file = frame.file, .function = frame.function});
  }
  return plain;
}

class Pythons : public testing::TestWithParam<std::string> {
 protected:
  /// The target under a name with letters of one, two and four bytes.
  std::unique_ptr<ScopedChild> start(const std::string& mode) const {
    const std::string name = "größe_日本_𐌰.py";
    folder_.write(name, read_text(DLPROBE_PYTHON_TARGET));
    return std::make_unique<ScopedChild>(
        std::vector<std::string>{GetParam(), "-X", "utf8", folder_ / name, mode});
  }

  TemporaryFolder folder_;
};

/// The thread that has the function among its frames.
const PythonThread* thread_in(const PythonStacks& stacks, const std::string& function) {
  const auto runs = [&](const PythonThread& thread) {
    return std::ranges::find(thread.frames, function, &PythonFrame::function) !=
           thread.frames.end();
  };
  const auto found = std::ranges::find_if(stacks.threads, runs);
  return found == stacks.threads.end() ? nullptr : &*found;
}

void expect_as_reported(const PythonStacks& stacks, const LiveThreads& reported) {
  EXPECT_THAT(stacks.notes, IsEmpty());
  EXPECT_EQ(stacks.threads.size(), reported.size());
  for (const PythonThread& thread : stacks.threads) {
    ASSERT_TRUE(reported.contains(thread.pthread_id));
    const LiveThread& live = reported.at(thread.pthread_id);
    EXPECT_EQ(without_entries(thread.frames), live.frames);
    EXPECT_FALSE(thread.cut_off) << to_string(*thread.cut_off);
    EXPECT_EQ(thread.native_tid.has_value(), stacks.version >= PythonVersion(3, 11, 0));
    EXPECT_EQ(thread.native_tid.value_or(live.native_id), live.native_id);
  }
}

TEST_P(Pythons, FramesAreThoseThatTheProgramSaysItHas) {
  const auto target = start("threads");
  const LiveThreads reported = read_report(*target);
  ASSERT_GT(reported.size(), 15U);
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime) << to_string(runtime.error());
  PythonCodeCache cache;
  const auto cold = must(read_python_stacks(process.memory, **runtime, cache));
  expect_as_reported(cold, reported);
  EXPECT_FALSE(cold.gc_running);
  process.memory.forget();
  const auto warm = must(read_python_stacks(process.memory, **runtime, cache));
  expect_as_reported(warm, reported);
}

TEST_P(Pythons, AFrameThatCEnteredIsAnEntry) {
  const auto target = start("threads");
  read_report(*target);
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime);
  PythonCodeCache cache;
  const auto stacks = must(read_python_stacks(process.memory, **runtime, cache));
  const bool inlines_calls = stacks.version >= PythonVersion(3, 11, 0);
  const std::string callback =
      inlines_calls ? "callback_from_c.<locals>.key_function" : "key_function";
  for (const PythonThread& thread : stacks.threads) {
    ASSERT_FALSE(thread.frames.empty());
    EXPECT_TRUE(thread.frames.back().is_entry);
    for (const PythonFrame& frame : thread.frames) {
      if (frame.function == callback) {
        EXPECT_TRUE(frame.is_entry);
      }
      if (frame.function == "inner" || frame.function == "middle") {
        EXPECT_EQ(frame.is_entry, !inlines_calls);
      }
    }
  }
}

TEST_P(Pythons, RuntimeIsFoundWithoutSymbols) {
  const auto target = start("threads");
  const LiveThreads reported = read_report(*target);
  Process process(target->pid());
  const auto by_symbol = process.find();
  ASSERT_TRUE(by_symbol && *by_symbol);
  OnlySections sections(process.symbols);
  NoSymbols none;
  for (SymbolSource* source : std::initializer_list<SymbolSource*>{&sections, &none}) {
    const auto runtime = process.find(*source);
    ASSERT_TRUE(runtime && *runtime);
    EXPECT_EQ((*runtime)->address, (*by_symbol)->address);
    EXPECT_EQ((*runtime)->version.minor, (*by_symbol)->version.minor);
    PythonCodeCache cache;
    const auto stacks = must(read_python_stacks(process.memory, **runtime, cache));
    expect_as_reported(stacks, reported);
  }
}

TEST_P(Pythons, ThreadThatBlocksWithTheGilIsItsHolder) {
  const auto target = start("gil");
  const LiveThreads reported = read_report(*target);
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime);
  // The report comes before the call that keeps the GIL; the other thread, which never rests, waits
  // once that began.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  bool waits = false;
  while (!waits && std::chrono::steady_clock::now() < deadline) {
    ProcessMemory memory(std::make_shared<SystemProcesses>(), target->pid());
    PythonCodeCache cache;
    const auto stacks = must(read_python_stacks(memory, **runtime, cache));
    ASSERT_EQ(stacks.gils.size(), 1U);
    const PythonGil& gil = stacks.gils.front();
    const PythonThread* holder = thread_in(stacks, "hold_gil");
    const PythonThread* waiter = thread_in(stacks, "want_gil");
    ASSERT_TRUE(holder != nullptr && waiter != nullptr);
    const auto text = must(process.directory->read(
        "task/" + std::to_string(reported.at(waiter->pthread_id).native_id) + "/syscall"));
    const auto syscall = must(parse_syscall_file(text));
    waits = holder->holds_gil && !waiter->holds_gil && gil.locked &&
            gil.holder_tstate == holder->tstate && gil.cond.contains(syscall.args[0]);
  }
  EXPECT_TRUE(waits);
}

TEST_P(Pythons, GarbageCollectionIsSeen) {
  const auto target = start("gc");
  const LiveThreads reported = read_report(*target);
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime);
  PythonCodeCache cache;
  const auto stacks = must(read_python_stacks(process.memory, **runtime, cache));
  EXPECT_TRUE(stacks.gc_running);
  expect_as_reported(stacks, reported);
}

TEST_P(Pythons, ThreadsOfASubinterpreterAreRead) {
  const auto target = start("subinterpreter");
  read_report(*target);
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime);
  PythonCodeCache cache;
  const auto stacks = must(read_python_stacks(process.memory, **runtime, cache));
  const PythonThread* inside = thread_in(stacks, "inside");
  const PythonThread* outside = thread_in(stacks, "wait");
  ASSERT_TRUE(inside != nullptr && outside != nullptr);
  EXPECT_NE(inside->interpreter, outside->interpreter);
  EXPECT_THAT(inside->frames, ElementsAre(Field(&PythonFrame::function, "inside"),
                                          Field(&PythonFrame::function, "<module>")));
  EXPECT_EQ(stacks.gils.size(), stacks.version >= PythonVersion(3, 12, 0) ? 2U : 1U);
}

TEST_P(Pythons, AForkedChildIsReadByTheParentsRuntimeAndCache) {
  const auto target = start("fork");
  const int child = target->pid_line();
  ASSERT_GT(child, 0);
  const LiveThreads reported = read_report(*target);
  Process parent(target->pid());
  const auto runtime = parent.find();
  ASSERT_TRUE(runtime && *runtime);
  PythonCodeCache cache;
  ASSERT_TRUE(read_python_stacks(parent.memory, **runtime, cache));
  const Process forked(child);
  const auto stacks = must(read_python_stacks(forked.memory, **runtime, cache));
  expect_as_reported(stacks, reported);
}

TEST_P(Pythons, AHangWhileTheInterpreterEndsIsRead) {
  const auto target = start("exit");
  ASSERT_THAT(read_report(*target), IsEmpty());
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime);
  PythonCodeCache cache;
  const auto stacks = must(read_python_stacks(process.memory, **runtime, cache));
  ASSERT_EQ(stacks.threads.size(), 1U);
  ASSERT_EQ(stacks.threads[0].frames.size(), 1U);
  EXPECT_THAT(stacks.threads[0].frames[0].function, testing::EndsWith("__del__"));
}

TEST_P(Pythons, ATaskThatWaitsIsRead) {
  const auto target = start("task");
  ASSERT_THAT(read_report(*target), IsEmpty());
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<std::string> functions;
  while (functions.empty() && std::chrono::steady_clock::now() < deadline) {
    process.memory.forget();
    PythonCodeCache cache;
    const auto stacks = must(read_python_stacks(process.memory, **runtime, cache));
    ASSERT_EQ(stacks.threads.size(), 1U);
    EXPECT_NE(stacks.threads[0].event_loop, 0U);
    const uint64_t task = stacks.threads[0].main_task;
    const auto frames = must(read_waiting_task(process.memory, **runtime, cache, task));
    for (const PythonFrame& frame : frames)
      functions.push_back(frame.function);
  }
  EXPECT_THAT(functions, ElementsAre(testing::EndsWith("wait"), "never", "items", "task"));
}

TEST_P(Pythons, ATaskAndAFutureThatFailedAreRead) {
  const auto target = start("failed-task");
  const auto task = parse_int<uint64_t>(target->line());
  const auto future = parse_int<uint64_t>(target->line());
  ASSERT_TRUE(task && future);
  ASSERT_THAT(read_report(*target), IsEmpty());
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime);
  PythonCodeCache cache;
  const auto failure = read_failed_task(process.memory, **runtime, cache, *task);
  ASSERT_TRUE(failure && *failure);
  EXPECT_EQ((*failure)->exception, "KeyError");
  EXPECT_THAT((*failure)->frames, ElementsAre(Field(&PythonFrame::function, "first_item"),
                                              Field(&PythonFrame::function, "fail")));
  EXPECT_GT((*failure)->frames.front().line, 0);
  const auto layout = python_value_layout((*runtime)->version);
  ASSERT_TRUE(layout);
  PythonFutures futures(process.memory, **runtime, *layout, cache);
  EXPECT_NE(futures.find_class(), 0U);
  const auto of_future = futures.read(*future);
  ASSERT_TRUE(of_future);
  EXPECT_EQ(of_future->exception, "KeyError");
  EXPECT_THAT(of_future->frames, ElementsAre(Field(&PythonFrame::function, "first_item"),
                                             Field(&PythonFrame::function, "failed_task")));
  EXPECT_FALSE(futures.read(*task));
}

TEST_P(Pythons, TextsThatAFunctionHasAtHandAreRead) {
  const auto target = start("texts");
  ASSERT_THAT(read_report(*target), IsEmpty());
  Process process(target->pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime && *runtime);
  const auto layout = python_value_layout((*runtime)->version);
  ASSERT_TRUE(layout);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::set<std::string> found;
  while (found.empty() && std::chrono::steady_clock::now() < deadline) {
    process.memory.forget();
    PythonCodeCache cache;
    const auto stacks = read_python_stacks(process.memory, **runtime, cache);
    ASSERT_TRUE(stacks);
    const PythonThread& main = stacks->threads.front();
    PythonFrameTexts texts(process.memory, **runtime, *layout);
    for (size_t i = 0; i < main.frames.size(); ++i)
      if (main.frames[i].function.ends_with("poll")) found = texts.add(main.places.at(i));
  }
  EXPECT_THAT(found, IsSupersetOf({"/data", "/data/global.lock", "/data/own.lock"}));
}

TEST(NoPython, IsFoundInAProgramWithoutIt) {
  ScopedChild target({"cat"});
  target.send("ready\n");
  ASSERT_EQ(target.line(), "ready");
  Process process(target.pid());
  const auto runtime = process.find();
  ASSERT_TRUE(runtime) << to_string(runtime.error());
  EXPECT_FALSE(*runtime);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Pythons);
INSTANTIATE_TEST_SUITE_P(All, Pythons, testing::ValuesIn(pythons()), test_name);

}  // namespace
}  // namespace dlprobe
