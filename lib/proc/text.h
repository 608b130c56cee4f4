#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// kMalformed: which kernel file it is, what is wrong, and the first bytes of the text at fault.
std::unexpected<Error> malformed(std::string_view file, std::string_view what,
                                 std::string_view text);

/// "   1752 kB" as bytes; nothing for anything else.
std::optional<uint64_t> parse_kib(std::string_view text);

/// The value of the first line "key:<blanks>value" of `text`; `key` is without the colon.
std::optional<std::string_view> find_value(std::string_view text, std::string_view key);

/// The value in bytes of the line "key:  N kB".
std::optional<uint64_t> find_kib(std::string_view text, std::string_view key);

}  // namespace dlprobe
