#include "lib/base/message.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// A text that somebody else may have written is no sentence until it is said what it is.
template <class Text>
concept CanBePasted = requires(Text text, Message message) { message += "in " + text; } ||
                      requires(Text text, Message message) { message += text; } ||
                      requires(Text text, OwnWords words) { words += text; };
static_assert(!std::is_convertible_v<std::string, Message>);
static_assert(!std::is_constructible_v<OwnWords, std::string>);
static_assert(!CanBePasted<std::string>);
static_assert(!CanBePasted<std::string_view>);
static_assert(CanBePasted<OwnWords>);

TEST(Message, KnowsWhatItsPartsAre) {
  const Message message = "worker " + own(7) + " waits in " + as_path("libfoo.so") + " for " +
                          format_bytes(2 * kMiB) + " of " + as_name("loader");
  EXPECT_EQ(message.plain(), "worker 7 waits in libfoo.so for 2.0 MiB of loader");
  const std::vector<MessagePart> parts = {{PartKind::kOwn, "worker 7 waits in "},
                                          {PartKind::kPath, "libfoo.so"},
                                          {PartKind::kOwn, " for 2.0 MiB of "},
                                          {PartKind::kName, "loader"}};
  EXPECT_EQ(message.parts(), parts);
}

TEST(Message, HasNoEmptyParts) {
  Message message = as_path("") + "" + as_text("");
  EXPECT_TRUE(message.empty());
  message += "a";
  message += as_host("") + "b";
  EXPECT_EQ(message, Message("ab"));
}

TEST(Message, FillsInAForm) {
  EXPECT_EQ(say("{} has {}: {}", as_path("/data"), 3, as_text("{}")),
            as_path("/data") + " has 3: " + as_text("{}"));
  EXPECT_EQ(say("no part"), Message("no part"));
}

TEST(Message, JoinsParts) {
  EXPECT_EQ(joined({as_name("a"), "b"}).plain(), "a, b");
  EXPECT_TRUE(joined({}).empty());
}

}  // namespace
}  // namespace dlprobe
