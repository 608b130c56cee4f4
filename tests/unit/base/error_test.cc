#include "lib/base/error.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

TEST(Error, ErrnoChoosesTheCode) {
  EXPECT_EQ(os_error("x", EACCES).code, ErrorCode::kForbidden);
  EXPECT_EQ(os_error("x", EPERM).code, ErrorCode::kForbidden);
  EXPECT_EQ(os_error("x", ENOENT).code, ErrorCode::kNotFound);
  EXPECT_EQ(os_error("x", ESRCH).code, ErrorCode::kVanished);
  EXPECT_EQ(os_error("x", ENOSYS).code, ErrorCode::kUnsupported);
  EXPECT_EQ(os_error("x", ETIMEDOUT).code, ErrorCode::kTimeout);
  EXPECT_EQ(os_error("x", EIO).code, ErrorCode::kIo);
}

TEST(Error, TextSaysWhatWasTriedAndWhatTheKernelSaid) {
  EXPECT_EQ(to_string(os_error("read /proc/42/maps", EACCES)),
            "read /proc/42/maps: Permission denied (EACCES)");
  EXPECT_EQ(to_string(os_error("x", 99999)), "x: unknown error (99999)");
  EXPECT_EQ(to_string(Error{.code = ErrorCode::kInvalid, .context = "no such pid"}), "no such pid");
}

Expected<int> half_of_even(int value) {
  if (value % 2 != 0) return failure(ErrorCode::kInvalid, "odd");
  return value / 2;
}

Status check_twice(int value) {
  DLP_TRY(const int half, half_of_even(value));
  DLP_CHECK(half_of_even(half));
  return {};
}

TEST(Error, TryAndCheckReturnTheFirstFailure) {
  EXPECT_TRUE(check_twice(4));
  EXPECT_FALSE(check_twice(2));
  ASSERT_FALSE(check_twice(1));
  EXPECT_EQ(check_twice(1).error().context, "odd");
}

}  // namespace
}  // namespace dlprobe
