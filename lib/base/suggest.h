#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dlprobe {

/// " (did you mean 'json'?)": the candidate with the fewest letters to change, add, drop or swap;
/// "" where none is near enough to be worth a word.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> candidates);

/// The same of texts that are not kept elsewhere.
std::string did_you_mean(std::string_view typed, std::span<const std::string> candidates);

}  // namespace dlprobe
