#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/loader_fault.h"
#include "lib/model/loader_plan.h"

namespace dlprobe::loader {

/// The whole command line of the loader, checked.
struct LoaderOptions {
  LoaderPlan plan;
  Fault fault;
  uint32_t images = 256;   ///< of the built-in data
  int image_height = 256;  ///< of the built-in data, in pixels
  int image_width = 256;
  uint64_t seed = 0;
  int progress_fd = -1;  ///< -1: no progress lines
  int threads = 0;       ///< of libtorch in the training loop; 0: libtorch's own choice
  bool train = true;     ///< false: batches are only taken, for benchmarks of the loader itself
  bool repeats_batch = false;  ///< the step is done on the first batch again and again
  bool verify = false;         ///< progress lines carry the images and a checksum
};

/// What came of a command line.
struct CommandLine {
  LoaderOptions options;
  std::string text;  ///< of --help or --version: print it and end
};

/// `args` without the program's name. kInvalid says in one line what is wrong and what to do.
Expected<CommandLine> parse_command_line(const std::vector<std::string>& args);

}  // namespace dlprobe::loader
