#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dlprobe {

/// The value has to be one of `names`. The error says which there are, and which was meant.
CLI::Validator one_of(std::vector<std::string> names);

/// For an option that checks its values itself: what --help and completion show. Accepts all.
CLI::Validator offering(const std::vector<std::string>& names);

/// The names that one_of or offering gave the option; none: anything may be typed.
std::vector<std::string> choices_of(const CLI::Option& option);

/// What kind of value it takes, in one word, without its choices: "FILE", "TEXT"; "" for a flag.
std::string value_name_of(const CLI::Option& option);

/// The bounds of a whole_number: "0 to 1024"; "" where there are none.
std::string bounds_of(const CLI::Option& option);

}  // namespace dlprobe
