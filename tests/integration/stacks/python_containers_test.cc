#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/stacks/python/containers.h"
#include "lib/stacks/python/frames.h"
#include "tests/integration/stacks/live_python.h"
#include "tests/support/scoped_child.h"

namespace dlprobe {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Eq;
using testing::IsSupersetOf;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

struct Seen {
  std::string type;
  uint64_t count = 0;
  std::string user;  ///< "FUNCTION LINE"
  std::optional<uint64_t> item_bytes;
};

std::map<std::string, Seen> look(const ScopedChild& target) {
  Process process(target.pid());
  const auto runtime = process.find();
  if (!runtime || !*runtime) return {};
  PythonCodeCache cache;
  const auto stacks = read_python_stacks(process.memory, **runtime, cache);
  const auto layout = python_value_layout((*runtime)->version);
  if (!stacks || !layout) return {};
  PythonContainers reader(process.memory, **runtime, *layout);
  std::map<std::string, Seen> all;
  for (const PythonContainer& each : reader.list(stacks->threads)) {
    Seen seen{.type = reader.type_of(each),
              .count = each.count,
              .item_bytes = reader.newest_item_bytes(each)};
    if (const auto user = reader.user_of(each))
      seen.user = user->function + " " + std::to_string(user->line);
    all.emplace(reader.name_of(each), seen);
  }
  return all;
}

class PythonContainersOf : public testing::TestWithParam<std::string> {};

TEST_P(PythonContainersOf, AProgramAreFoundByTheirNames) {
  ScopedChild target({GetParam(), DLPROBE_CONTAINERS_TARGET});
  target.send("more\n");
  ASSERT_EQ(target.line(), "ready");
  const auto before = look(target);
  target.send("more\n");
  ASSERT_EQ(target.line(), "ready");
  const auto after = look(target);
  const std::map<std::string, std::string> types = {{"SEEN", "dict"},
                                                    {"Part.history", "list"},
                                                    {"Part.inherited", "list"},
                                                    {"Part.rows", "collections.deque(maxlen=900)"},
                                                    {"Part.logs['train']", "list"},
                                                    {"Part.shared", "set"},
                                                    {"Dynamic.late", "list"},
                                                    {"Trainer.decoded", "functools.lru_cache"},
                                                    {"Trainer.__getitem__", "functools.lru_cache"},
                                                    {"Trainer.endless", "itertools.cycle"},
                                                    {"local", "Full"},
                                                    {"captured", "list"},
                                                    {"losses", "list"}};
  for (const auto& [name, type] : types) {
    ASSERT_THAT(before, Contains(Key(name)));
    ASSERT_THAT(after, Contains(Key(name)));
    EXPECT_EQ(before.at(name).type, type) << name;
    EXPECT_EQ(before.at(name).count, 100) << name;
    EXPECT_EQ(after.at(name).count, 200) << name;
  }
  EXPECT_EQ(before.at("kept").count, 3);
  EXPECT_EQ(after.at("kept").count, 3);
}

TEST_P(PythonContainersOf, AProgramHaveAFunctionThatUsesThem) {
  ScopedChild target({GetParam(), DLPROBE_CONTAINERS_TARGET});
  target.send("more\n");
  ASSERT_EQ(target.line(), "ready");
  auto seen = look(target);
  EXPECT_THAT(seen["SEEN"].user, StartsWith("remember "));
  EXPECT_THAT(seen["Part.history"].user, AnyOf(StartsWith("Part.step "), StartsWith("step ")));
  EXPECT_THAT(seen["Part.inherited"].user, AnyOf(StartsWith("Base.keep "), StartsWith("keep ")));
  EXPECT_THAT(seen["Part.logs['train']"].user,
              AnyOf(StartsWith("Part.step "), StartsWith("step ")));
  EXPECT_THAT(seen["Trainer.decoded"].user,
              AnyOf(StartsWith("Trainer.decoded "), StartsWith("decoded ")));
  EXPECT_THAT(seen["local"].user, StartsWith("main "));
  EXPECT_THAT(seen["losses"].user, StartsWith("in_a_thread "));
}

TEST_P(PythonContainersOf, AProgramKnowHowLargeAnItemIs) {
  ScopedChild target({GetParam(), DLPROBE_CONTAINERS_TARGET});
  target.send("more\n");
  ASSERT_EQ(target.line(), "ready");
  auto seen = look(target);
  constexpr uint64_t kFloat = 24;
  EXPECT_GE(seen["Part.history"].item_bytes, 100 * kFloat);
  EXPECT_LE(seen["Part.history"].item_bytes, 100 * kFloat * 4);
  EXPECT_LE(seen["Part.rows"].item_bytes, 100);
  EXPECT_LE(seen["SEEN"].item_bytes, 1000);
  EXPECT_FALSE(seen["Part.logs['train']"].item_bytes.has_value());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonContainersOf);
INSTANTIATE_TEST_SUITE_P(All, PythonContainersOf, testing::ValuesIn(pythons()), test_name);

}  // namespace
}  // namespace dlprobe
