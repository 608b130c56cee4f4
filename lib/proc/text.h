#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// kMalformed: which kernel file it is, what is wrong, and the first bytes of the text at fault.
std::unexpected<Error> malformed(std::string_view file, std::string_view what,
                                 std::string_view text);

/// The value of the first line "key:<blanks>value" of `text`; `key` is without the colon.
std::optional<std::string_view> find_value(std::string_view text, std::string_view key);

/// The value in bytes of the line "key:  N kB".
std::optional<uint64_t> find_kib(std::string_view text, std::string_view key);

/// The value of the line "key value" of a flat-keyed kernel file, `file` being its name for errors.
Expected<uint64_t> parse_flat_key(std::string_view text, std::string_view key,
                                  std::string_view file);

/// What `parse` makes of each line of a kernel file. kMalformed if the last one is cut off.
template <class Parse>
auto parse_lines(std::string_view file, std::string_view text, Parse parse)
    -> Expected<std::vector<typename decltype(parse(text))::value_type>> {
  if (!text.empty() && !text.ends_with('\n')) return malformed(file, "cut off", text);
  std::vector<typename decltype(parse(text))::value_type> entries;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    DLP_TRY(auto entry, parse(text.substr(0, end)));
    entries.push_back(std::move(entry));
    text.remove_prefix(end + 1);
  }
  return entries;
}

}  // namespace dlprobe
