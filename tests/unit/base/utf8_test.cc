#include "lib/base/utf8.h"

#include <gtest/gtest.h>

#include "lib/base/escape.h"

namespace dlprobe {
namespace {

TEST(Utf8, WellFormedTextOfEveryLengthIsValid) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  EXPECT_EQ(decode_utf8("\xe2\x82\xac!").code_point, 0x20acU);
  EXPECT_EQ(decode_utf8("\xf4\x8f\xbf\xbf").code_point, 0x10ffffU);
}

TEST(Utf8, OverlongFormsSurrogatesAndCutCharactersAreNot) {
  for (const char* text : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xc3("}) {
    EXPECT_FALSE(is_utf8(text));
    EXPECT_EQ(decode_utf8(text).bytes, 1U);
  }
}

TEST(Utf8, InvalidBytesAreShown) {
  EXPECT_EQ(to_valid_utf8("a\xff\xc3\xa9\x1b"), "a\\xff\xc3\xa9\x1b");
}

TEST(Escape, WhatActsOnATerminalIsShownInstead) {
  EXPECT_EQ(escape_for_terminal("\x1b[2J\n\xff"), "\\x1b[2J\\x0a\\xff");
  EXPECT_EQ(escape_for_terminal("\xc2\x9b"
                                "31m"),
            "\\x9b31m");
  EXPECT_EQ(escape_for_terminal("\xe2\x80\xae"
                                "abc"),
            "\\u{202e}abc");
  EXPECT_EQ(escape_for_terminal("a\nb\t"), "a\\x0ab\\x09");
  EXPECT_EQ(escape_for_terminal("\xc3\xa9 ok"), "\xc3\xa9 ok");
}

}  // namespace
}  // namespace dlprobe
