#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/loader_plan.h"

namespace dlprobe {

/// The reference loader's executable: `override_path` if not empty, else beside `own_executable`,
/// in the libexec and bin folders of its prefix, or in the build tree that dlprobe was built in.
/// kNotFound says which package brings it.
Expected<std::string> find_reference_loader(const std::string& override_path,
                                            const std::string& own_executable);

/// The exit code with which it refuses its options, after a line that says why.
inline constexpr int kExitOfBadOptions = 2;
inline constexpr std::string_view kRefusedOptions =
    "the reference loader cannot run with these options (see its line above)";

/// The descriptor that its progress lines go to.
inline constexpr int kProgressFd = 3;

/// Its command line for `plan`.
std::vector<std::string> reference_loader_argv(const std::string& executable,
                                               const LoaderPlan& plan);

}  // namespace dlprobe
