#pragma once

#include <string>
#include <vector>

namespace dlprobe {

/// Runs dlprobe with the arguments of main, argv[0] included. Returns the exit code.
int run_app(const std::vector<std::string>& arguments);

}  // namespace dlprobe
