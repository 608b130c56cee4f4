#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/tasks.h"
#include "tests/support/must.h"
#include "tests/unit/stacks/python_image.h"

namespace dlprobe {

void PrintTo(const PythonFrame& frame, std::ostream* out) {
  *out << frame.file << ":" << frame.line << " " << frame.function
       << (frame.is_entry ? " (entry)" : "");
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr PythonImage::Kind kPython313{.version_hex = 0x030d00f0, .as_released = true};
constexpr PythonImage::Kind kPython313Prerelease{.version_hex = 0x030d00c2};
constexpr PythonImage::Kind kPython314{.version_hex = 0x030e01f0};
constexpr PythonImage::Kind kPython314FreeThreaded{.version_hex = 0x030e01f0,
                                                   .free_threaded = true};
constexpr PythonImage::Kind kPython315{.version_hex = 0x030f00f0};
constexpr PythonImage::Kind kLater{.version_hex = 0x031000f0};
constexpr uint8_t kInterpreterOwned = 3;  // 3.14; in 3.13 it is the C stack's
constexpr uint8_t kCStackOwned = 4;
constexpr uint64_t kNone = 0;

Expected<std::optional<PythonRuntime>> find(PythonImage& image) {
  return find_python(image.memory(), image.space(), image);
}

/// What find_python and read_python_stacks say together; a test fails where they fail.
PythonStacks read(PythonImage& image) {
  const auto runtime = find(image);
  if (!runtime || !*runtime) {
    ADD_FAILURE() << (runtime ? "no Python" : to_string(runtime.error()));
    return {};
  }
  PythonCodeCache cache;
  auto stacks = read_python_stacks(image.memory(), **runtime, cache);
  if (!stacks) {
    ADD_FAILURE() << to_string(stacks.error());
    return {};
  }
  return *stacks;
}

PythonFrame frame(int line, const std::string& function, bool is_entry = false) {
  return {.file = "a.py", .function = function, .line = line, .is_entry = is_entry};
}

TEST(PythonFrames, Of314HaveTaggedPointersAndTwoKindsOfShims) {
  PythonImage image(kPython314);
  const uint64_t module = image.code("a.py", "<module>", 1);
  const uint64_t outer = image.code("a.py", "outer", 10);
  const uint64_t inner = image.code("a.py", "inner", 20);
  const uint64_t bottom = image.frame_at(0, kNone, kNone, kInterpreterOwned);
  const uint64_t module_frame = image.frame(module | 1, 3, bottom);
  const uint64_t shim = image.frame_at(0, kNone, module_frame, kCStackOwned);
  const uint64_t outer_frame = image.frame(outer, 0, shim);
  const uint64_t inner_frame = image.frame(inner | 1, 2, outer_frame);
  image.set_innermost_frame(image.frame_at(0, kNone, inner_frame, kInterpreterOwned));
  const PythonStacks stacks = read(image);
  EXPECT_EQ(to_string(stacks.version), "3.14.1");
  EXPECT_FALSE(stacks.free_threaded);
  EXPECT_THAT(stacks.notes, IsEmpty());
  ASSERT_THAT(stacks.threads, SizeIs(1));
  const PythonThread& thread = stacks.threads.front();
  EXPECT_THAT(thread.frames, ElementsAre(frame(21, "inner"), frame(10, "outer", true),
                                         frame(2, "<module>", true)));
  EXPECT_FALSE(thread.cut_off);
  EXPECT_EQ(thread.pthread_id, PythonImage::kPthreadId);
  EXPECT_EQ(thread.native_tid, PythonImage::kNativeTid);
}

TEST(PythonFrames, Of314HaveAGil) {
  PythonImage image(kPython314);
  image.add_second_thread();
  image.lock_gil(PythonImage::kSecondThread);
  const PythonStacks stacks = read(image);
  ASSERT_THAT(stacks.threads, SizeIs(2));
  EXPECT_FALSE(stacks.threads[0].holds_gil);
  EXPECT_TRUE(stacks.threads[1].holds_gil);
  ASSERT_THAT(stacks.gils, SizeIs(1));
  EXPECT_EQ(stacks.gils[0].holder_tstate, PythonImage::kSecondThread);
  EXPECT_EQ(stacks.gils[0].cond.begin, stacks.gils[0].address + 32);
}

TEST(PythonFrames, OfFreeThreadedPythonRunTheirThreadsBytecode) {
  PythonImage image(kPython314FreeThreaded);
  const uint64_t code = image.code("a.py", "work", 30);
  constexpr uint64_t kCopy = 0x900000;
  const uint64_t innermost = image.frame_at(kCopy + 4, code | 1, kNone);
  image.run_copy(innermost, code, kCopy);
  image.set_innermost_frame(innermost);
  const PythonStacks stacks = read(image);
  EXPECT_TRUE(stacks.free_threaded);
  EXPECT_THAT(stacks.gils, IsEmpty());
  ASSERT_THAT(stacks.threads, SizeIs(1));
  EXPECT_THAT(stacks.threads[0].frames, ElementsAre(frame(31, "work")));
}

TEST(PythonFrames, Of313AreReadByTheOffsetsInMemory) {
  PythonImage image(kPython313Prerelease);
  const uint64_t shim = image.frame_at(0, kNone, kNone, kInterpreterOwned);
  image.set_innermost_frame(image.frame(image.code("a.py", "f", 5), 1, shim));
  const PythonStacks stacks = read(image);
  ASSERT_THAT(stacks.threads, SizeIs(1));
  EXPECT_THAT(stacks.threads[0].frames, ElementsAre(frame(5, "f", true)));
}

TEST(PythonFrames, OfAnExtensionWithoutCodeAreLeftOut) {
  PythonImage image(kPython313);
  const uint64_t outer = image.frame(image.code("a.py", "outer", 5), 0, kNone);
  image.set_innermost_frame(image.frame_at(0, image.object_of_type("tuple"), outer));
  EXPECT_THAT(read(image).threads.at(0).frames, ElementsAre(frame(5, "outer")));
}

TEST(PythonFrames, DamagedOffsetsGiveWayToTheTableOfTheRelease) {
  constexpr size_t kThreadsHead = 9;
  constexpr size_t kCurrentFrame = 23;
  for (const auto& [word, value] :
       {std::pair{kThreadsHead, uint64_t{1} << 40}, std::pair{kCurrentFrame, uint64_t{73}},
        std::pair{kThreadsHead, uint64_t{7656}}}) {
    PythonImage image(kPython313);
    image.set_innermost_frame(image.frame(image.code("a.py", "f", 5), 1, kNone));
    image.set_offset(word, value);
    const PythonStacks stacks = read(image);
    EXPECT_THAT(stacks.notes, SizeIs(1)) << word;
    ASSERT_THAT(stacks.threads, SizeIs(1));
    EXPECT_THAT(stacks.threads[0].frames, ElementsAre(frame(5, "f")));
  }
}

TEST(PythonFrames, Of315AndOfLaterVersionsAreReadByTheOffsetsInMemory) {
  for (const uint32_t version : {0x030f00f0U, 0x031000f0U, 0x031201f0U}) {
    PythonImage image({.version_hex = version});
    const uint64_t outer = image.frame(image.code("a.py", "outer", 10), 0, kNone);
    const uint64_t inner = image.frame(image.code("a.py", "inner", 20) | 1, 2, outer);
    image.set_innermost_frame(image.frame_at(0, kNone, inner, kInterpreterOwned));
    image.add_second_thread();
    image.lock_gil(PythonImage::kSecondThread);
    const PythonStacks stacks = read(image);
    ASSERT_THAT(stacks.threads, SizeIs(2)) << version;
    EXPECT_THAT(stacks.threads[0].frames, ElementsAre(frame(21, "inner"), frame(10, "outer")));
    EXPECT_EQ(stacks.threads[0].pthread_id, PythonImage::kPthreadId);
    EXPECT_EQ(stacks.threads[0].native_tid, PythonImage::kNativeTid);
    EXPECT_TRUE(stacks.threads[1].holds_gil);
    EXPECT_FALSE(stacks.gc_running);
    EXPECT_THAT(stacks.notes, SizeIs(version < kLater.version_hex ? 0 : 1));
  }
}

TEST(PythonFrames, OfLaterFreeThreadedVersionsRunTheirThreadsBytecode) {
  for (const uint32_t version : {kPython315.version_hex, kLater.version_hex}) {
    PythonImage image({.version_hex = version, .free_threaded = true});
    const uint64_t code = image.code("a.py", "work", 30);
    constexpr uint64_t kCopy = 0x900000;
    const uint64_t innermost = image.frame_at(kCopy + 4, code | 1, kNone);
    image.run_copy(innermost, code, kCopy);
    image.set_innermost_frame(innermost);
    EXPECT_THAT(read(image).threads.at(0).frames, ElementsAre(frame(31, "work"))) << version;
    const auto runtime = find(image);
    ASSERT_TRUE(runtime && *runtime);
    EXPECT_EQ((*runtime)->layout.object.head_bytes, 32U);
  }
}

TEST(PythonFrames, OfALaterVersionThatLacksAGroupAreNotGuessed) {
  PythonImage image({.version_hex = kLater.version_hex, .without_code = true});
  const auto runtime = find(image);
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(to_string(runtime.error()), HasSubstr("3.16.0"));
  EXPECT_THAT(to_string(runtime.error()), HasSubstr("code_object"));
}

TEST(PythonFrames, OfALaterVersionAreRefusedWhereAKnownObjectIsAnother) {
  PythonImage image(kLater);
  image.set_modules(image.object_of_type("tuple"));
  const auto runtime = find(image);
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(to_string(runtime.error()), HasSubstr("sys.modules"));
}

TEST(PythonFrames, AWalkThatFailsKeepsWhatItRead) {
  PythonImage image(kPython314);
  constexpr uint64_t kNowhere = 0xdead0000;
  const uint64_t broken = image.frame_at(0, kNowhere, kNone);
  const uint64_t innermost = image.frame(image.code("a.py", "f", 5), 0, broken);
  image.set_innermost_frame(innermost);
  image.add_second_thread();
  image.set_innermost_frame(kNowhere, PythonImage::kSecondThread);
  const PythonStacks stacks = read(image);
  ASSERT_THAT(stacks.threads, SizeIs(2));
  EXPECT_THAT(stacks.threads[0].frames, ElementsAre(frame(5, "f")));
  EXPECT_TRUE(stacks.threads[0].cut_off);
  EXPECT_THAT(stacks.threads[1].frames, IsEmpty());
  EXPECT_TRUE(stacks.threads[1].cut_off);
}

TEST(PythonFrames, ACircleOfFramesEnds) {
  PythonImage image(kPython314);
  const uint64_t code = image.code("a.py", "f", 5);
  const uint64_t outer = image.frame(code, 0, kNone);
  const uint64_t innermost = image.frame(code, 3, outer);
  image.set_previous(outer, innermost);
  image.set_innermost_frame(innermost);
  const PythonThread thread = read(image).threads.at(0);
  EXPECT_THAT(thread.frames, ElementsAre(frame(6, "f"), frame(5, "f")));
  ASSERT_TRUE(thread.cut_off);
  EXPECT_EQ(thread.cut_off->code, ErrorCode::kMalformed);
}

TEST(PythonFrames, TooManyFramesAreCutOff) {
  PythonImage image(kPython314);
  const uint64_t code = image.code("a.py", "f", 5);
  uint64_t innermost = kNone;
  for (int i = 0; i < 10'001; ++i)
    innermost = image.frame(code, 0, innermost);
  image.set_innermost_frame(innermost);
  const PythonThread thread = read(image).threads.at(0);
  EXPECT_THAT(thread.frames, SizeIs(10'000));
  EXPECT_TRUE(thread.cut_off);
}

class DamagedPython : public testing::TestWithParam<PythonImage::Kind> {};
INSTANTIATE_TEST_SUITE_P(Versions, DamagedPython,
                         testing::Values(kPython314FreeThreaded, kPython315, kLater));

TEST_P(DamagedPython, IsSurvivedWhateverTheWord) {
  PythonImage image(GetParam());
  const uint64_t code = image.code("a.py", "f", 5);
  const uint64_t outer = image.frame(code, 0, kNone);
  const uint64_t innermost = image.frame(code, 3, outer);
  image.run_copy(innermost, code, 0x900000);
  image.set_innermost_frame(innermost);
  const auto runtime = find(image);
  ASSERT_TRUE(runtime && *runtime);
  const auto damage = [&](uint64_t begin, uint64_t end, uint64_t value) {
    for (uint64_t address = begin; address < end; address += sizeof value) {
      const auto before = image.memory().value<uint64_t>(address);
      if (!before) continue;
      image.memory().set(address, value);
      PythonCodeCache cache;
      find(image);
      read_python_stacks(image.memory(), **runtime, cache);
      image.memory().set(address, *before);
    }
  };
  for (const uint64_t value : {uint64_t{0}, ~uint64_t{0}, ~uint64_t{0} >> 1U, uint64_t{0x7fffffff},
                               PythonImage::kThread, outer, code}) {
    damage(PythonImage::kRuntime, PythonImage::kRuntime + 900, value);
    damage(PythonImage::kThread, PythonImage::kThread + 400, value);
    damage(PythonImage::kObjects, innermost + 200, value);
  }
}

TEST(PythonFrames, ACircleOfThreadsEnds) {
  PythonImage image(kPython314);
  image.add_second_thread();
  image.set_next_thread(PythonImage::kSecondThread, PythonImage::kThread);
  const PythonStacks stacks = read(image);
  EXPECT_THAT(stacks.threads, SizeIs(2));
  EXPECT_THAT(stacks.notes, ElementsAre(HasSubstr("circle")));
}

TEST(PythonRuntime, WithoutAnInterpreterHasNotStarted) {
  for (const PythonImage::Kind& kind : {kPython314, kLater}) {
    PythonImage image(kind);
    image.set_interpreter(0);
    const auto runtime = find(image);
    ASSERT_FALSE(runtime);
    EXPECT_EQ(runtime.error().code, ErrorCode::kInsufficient);
  }
}

TEST(PythonRuntime, IsRefusedWhereTheThreadsDoNotPointBack) {
  PythonImage image(kPython314);
  image.memory().set(PythonImage::kThread + 16, uint64_t{0x12345678});
  const auto runtime = find(image);
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code, ErrorCode::kMalformed);
}

TEST(PythonCodeCache, DoesNotServeANewCodeObjectInThePlaceOfAnOldOne) {
  PythonImage image(kPython314);
  const uint64_t code = image.code("a.py", "old", 5);
  image.set_innermost_frame(image.frame(code, 0, kNone));
  const auto runtime = find(image);
  ASSERT_TRUE(runtime && *runtime);
  PythonCodeCache cache;
  ASSERT_TRUE(read_python_stacks(image.memory(), **runtime, cache));
  image.memory().set(code + 128, image.text("new"));
  const auto stacks = must(read_python_stacks(image.memory(), **runtime, cache));
  EXPECT_THAT(stacks.threads.at(0).frames, ElementsAre(frame(5, "new")));
}

TEST(PythonVersion, IsWrittenAsPythonDoes) {
  EXPECT_EQ(to_string(python_version_from_hex(0x030b07f0)), "3.11.7");
  EXPECT_EQ(to_string(PythonVersion{.major = 3, .minor = 8}), "3.8");
}

TEST(PythonFrames, HaveTheirValuesBehindTheirLocals) {
  PythonImage image(kPython313);
  const uint64_t code = image.code("a.py", "inner", 10);
  constexpr uint64_t kFirstLine = 68;
  image.memory().set(code + kFirstLine - 4, int32_t{3});  // co_stacksize
  image.memory().set(code + kFirstLine + 4, int32_t{2});  // co_nlocalsplus
  const uint64_t outer = image.frame(code, 1, kNone);
  const uint64_t inner = image.frame(code, 1, outer);
  constexpr uint64_t kLocals = 80;
  image.memory().set(outer + kLocals - 8, int32_t{3});  // two locals and one value
  image.memory().set(inner + kLocals - 8, int32_t{-1});
  image.set_innermost_frame(inner);
  const PythonStacks stacks = read(image);
  ASSERT_THAT(stacks.threads, SizeIs(1));
  const auto& values = stacks.threads[0].value_stacks;
  ASSERT_THAT(values, SizeIs(2));
  EXPECT_EQ(values[0].begin, inner + kLocals + 16);
  EXPECT_EQ(values[0].end, inner + kLocals + 40);
  EXPECT_EQ(values[1].begin, outer + kLocals + 16);
  EXPECT_EQ(values[1].end, outer + kLocals + 24);
}

TEST(PythonTasks, WaitWhereTheInnermostCoroutineDoes) {
  for (const auto& kind : {kPython313, kPython314, kPython314FreeThreaded}) {
    PythonImage image(kind);
    const uint64_t future = image.object_of_type("_asyncio.FutureIter");
    const uint64_t get = image.coroutine(image.code("a.py", "get", 20), 2, future | 1);
    const uint64_t main = image.coroutine(image.code("a.py", "main", 10), 0, get | 1);
    const uint64_t task = image.task(main);
    const uint64_t loop = image.object_of_type("_UnixSelectorEventLoop");
    const std::string file = "/usr/lib/python3.13/asyncio/base_events.py";
    const uint64_t until =
        image.frame(image.code(file, "BaseEventLoop.run_until_complete", 9), 0, kNone);
    image.set_locals(until, loop, task | 1);
    const uint64_t forever =
        image.frame(image.code(file, "BaseEventLoop.run_forever", 9), 0, until);
    image.set_locals(forever, loop | 1, kNone);
    image.set_innermost_frame(forever);
    const PythonStacks stacks = read(image);
    ASSERT_THAT(stacks.threads, SizeIs(1));
    EXPECT_EQ(stacks.threads[0].event_loop, loop);
    EXPECT_EQ(stacks.threads[0].main_task, task);
    PythonCodeCache cache;
    const auto runtime = find(image);
    const auto frames = must(read_waiting_task(image.memory(), **runtime, cache, task));
    EXPECT_THAT(frames, ElementsAre(frame(21, "get"), frame(10, "main")));
    EXPECT_THAT(read_waiting_task(image.memory(), **runtime, cache, future).value(), IsEmpty());
  }
}

TEST(PythonTasks, AreAnsweredWhereTheFutureIsDone) {
  PythonImage image(kPython313);
  const uint64_t main = image.coroutine(image.code("a.py", "main", 10), 0, kNone);
  const uint64_t task = image.task(main);
  const auto runtime = find(image);
  PythonCodeCache cache;
  constexpr uint64_t kHead = 16;
  constexpr uint64_t kState = kHead + 80;
  const auto future = must(image.memory().value<uint64_t>(task + kHead + 120));
  for (const uint64_t state : {0, 1, 2}) {  // pending, cancelled, finished
    image.memory().set(future + kState, state);
    EXPECT_EQ(awaits_what_is_done(image.memory(), **runtime, cache, task), state != 0);
  }
  image.memory().set(task + kState, uint64_t{2});
  EXPECT_FALSE(awaits_what_is_done(image.memory(), **runtime, cache, task)) << "over itself";
  EXPECT_FALSE(awaits_what_is_done(image.memory(), **runtime, cache, future));
}

TEST(PythonLayout, IsKnownFrom38To314) {
  for (const int minor : {8, 9, 10, 11, 12, 13, 14})
    EXPECT_TRUE(python_layout({.major = 3, .minor = minor}));
  for (const int minor : {-1, 7, 15})
    EXPECT_FALSE(python_layout({.major = 3, .minor = minor}));
  EXPECT_FALSE(python_layout({.major = 2, .minor = 8}));
}

}  // namespace
}  // namespace dlprobe
