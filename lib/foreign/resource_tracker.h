#pragma once

#include <string_view>

namespace dlprobe {

/// Whether a command line is that of a resource tracker of Python's multiprocessing, which unlinks
/// the named semaphores and segments of the others when those have ended, and then ends by itself
/// (Lib/multiprocessing/resource_tracker.py; semaphore_tracker.py up to CPython 3.7).
inline bool is_of_resource_tracker(std::string_view command_line) {
  return command_line.contains("from multiprocessing.resource_tracker import main") ||
         command_line.contains("from multiprocessing.semaphore_tracker import main");
}

}  // namespace dlprobe
