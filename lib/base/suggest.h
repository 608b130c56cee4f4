#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dlprobe {

/// What was probably meant: the candidate with the fewest letters to change, add, drop or swap, if
/// it is near enough to be worth a word; else "".
std::string_view closest(std::string_view typed, std::span<const std::string_view> candidates);

/// " (did you mean 'json'?)", or "" where nothing is near.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> candidates);

/// The same of texts that are not kept elsewhere.
std::string did_you_mean(std::string_view typed, std::span<const std::string> candidates);

}  // namespace dlprobe
