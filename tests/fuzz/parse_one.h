#pragma once

#include <string_view>

namespace dlprobe {

/// Gives `text` to the parser of that name; false if there is none. What the parsers answer does
/// not matter: only that they come back.
bool parse_one(std::string_view parser, std::string_view text);

/// Gives `text` to every parser.
void parse_all(std::string_view text);

}  // namespace dlprobe
