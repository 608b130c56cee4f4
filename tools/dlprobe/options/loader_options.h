#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/error.h"
#include "lib/model/loader_plan.h"

namespace dlprobe {

/// The loader options of the command line, the same wherever a loader is meant.
struct LoaderOptions {
  LoaderPlan plan;  ///< all but the three below
  std::string sample_shape = "3x224x224";
  std::string start_method = "all";
  std::string sharing_strategy = "all";
};

/// Checks that an option's value is a whole number in that range, and says so otherwise: CLI::Range
/// calls a word out of range.
CLI::Validator whole_number(int least, int most);

/// `text`, which was typed for `option`, as a whole number in that range. kInvalid says so.
Expected<int> parse_count(std::string_view option, std::string_view text, int least, int most);

/// Adds the options to `command`. Their values are in `options` after parsing.
void add_loader_options(CLI::App& command, LoaderOptions& options);

/// Whether the user gave any option that says how a loader is made up.
bool loader_options_given(const CLI::App& command);

/// One plan for each start method and sharing strategy asked for, start methods outermost.
/// kInvalid for a sample shape that is none, or sizes that no machine has.
Expected<std::vector<LoaderPlan>> loader_plans(const LoaderOptions& options);

}  // namespace dlprobe
