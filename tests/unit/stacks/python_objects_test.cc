#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/stacks/python/objects.h"
#include "tests/support/fake_memory.h"

namespace dlprobe {
namespace {

constexpr uint64_t kObject = 0x1000;
constexpr uint32_t kCompact = 1U << 5U;
constexpr uint32_t kAscii = 1U << 6U;
constexpr uint64_t kCompactSize = 56;  // of 3.12 on

/// A str of 3.12 with characters of sizeof(T) bytes.
template <class T>
Expected<std::string> read_text(const std::vector<T>& characters, uint32_t flags = kCompact) {
  FakeMemory memory;
  const uint64_t data = kObject + ((flags & kAscii) != 0 ? 40 : kCompactSize);
  memory.set(kObject + 16, uint64_t{characters.size()});
  memory.set(kObject + 32, static_cast<uint32_t>(sizeof(T) << 2U) | flags);
  for (size_t i = 0; i < characters.size(); ++i)
    memory.set(data + i * sizeof(T), characters[i]);
  const PythonLayout layout;
  return PythonObjects(memory, layout).text(kObject);
}

TEST(PythonObjects, TextOfEveryWidthIsUtf8) {
  EXPECT_EQ(read_text<uint8_t>({'a', 'b'}, kCompact | kAscii), "ab");
  EXPECT_EQ(read_text<uint8_t>({'g', 'r', 0xf6, 0xdf, 'e'}), "größe");
  EXPECT_EQ(read_text<uint16_t>({0x65e5, 'x', 0xe9}), "日xé");
  EXPECT_EQ(read_text<uint32_t>({0x10330, 0x1f600}), "𐌰😀");
}

TEST(PythonObjects, LoneSurrogatesAreTheBytesTheyStandFor) {
  EXPECT_EQ(read_text<uint16_t>({'o', 0xdcff, 0xd800}), "o\xff\xef\xbf\xbd");
  EXPECT_EQ(read_text<uint32_t>({0x110000}), "\xef\xbf\xbd");
}

TEST(PythonObjects, TextThatIsNotCompactLiesElsewhere) {
  FakeMemory memory;
  memory.set(kObject + 16, uint64_t{2});
  memory.set(kObject + 32, uint32_t{1} << 2U);
  memory.set(kObject + kCompactSize, uint64_t{0x5000});
  memory.set_text(0x5000, "hi");
  const PythonLayout layout;
  EXPECT_EQ(PythonObjects(memory, layout).text(kObject), "hi");
}

TEST(PythonObjects, WhatCannotBeATextIsMalformed) {
  FakeMemory memory;
  const PythonLayout layout;
  EXPECT_FALSE(PythonObjects(memory, layout).text(kObject));
  memory.set(kObject + 16, uint64_t{2});
  memory.set(kObject + 32, uint32_t{3} << 2U);
  EXPECT_EQ(PythonObjects(memory, layout).text(kObject).error().code, ErrorCode::kMalformed);
  memory.set(kObject + 32, (uint32_t{1} << 2U) | kCompact);
  memory.set(kObject + 16, uint64_t{1} << 40U);
  EXPECT_EQ(PythonObjects(memory, layout).text(kObject).error().code, ErrorCode::kMalformed);
}

TEST(PythonObjects, AllThatOneReaderGivesIsLimited) {
  FakeMemory memory;
  memory.map(kObject, 32 + (1U << 22U));
  memory.set(kObject + 16, uint64_t{1} << 22U);
  const PythonLayout layout;
  PythonObjects objects(memory, layout);
  for (int i = 0; i < 16; ++i)
    EXPECT_TRUE(objects.bytes(kObject));
  EXPECT_FALSE(objects.bytes(kObject));
}

TEST(PythonListGuard, RefusesCirclesAndLongLists) {
  PythonListGuard guard("things", 2);
  EXPECT_TRUE(guard.enter(1));
  EXPECT_FALSE(guard.enter(1));
  EXPECT_TRUE(guard.enter(2));
  EXPECT_FALSE(guard.enter(3));
}

}  // namespace
}  // namespace dlprobe
