#pragma once

#include <optional>
#include <string_view>

namespace dlprobe {

// Whose code a Python function is, told from its file (co_filename), which is a program's own word:
// a user's queues.py or a folder named multiprocessing is none of CPython's.

/// The path from the package on, as `import` has it, where the file is of the standard library or
/// of a package that was installed: "multiprocessing/queues.py", "torch/utils/data/dataloader.py".
std::optional<std::string_view> path_in_library(std::string_view file);

/// Whether it is of a library, or has no file (frozen modules, code made by exec).
bool is_of_a_library(std::string_view file);

/// Whether it is this file ("threading.py") or of this folder ("concurrent/futures/") of the
/// standard library, also where that is in a ZIP archive, frozen or a source tree.
bool is_of_standard_library(std::string_view file, std::string_view module);

/// Whether it is of multiprocessing, by CPython, PyTorch or a package that carries a copy of
/// CPython's (multiprocess, billiard); of that file of it ("queues.py") where one is given.
bool is_of_multiprocessing(std::string_view file, std::string_view module = "");

/// Whether it is PyTorch's own.
bool is_of_torch(std::string_view file);

}  // namespace dlprobe
