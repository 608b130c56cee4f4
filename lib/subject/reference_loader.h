#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/loader_plan.h"

namespace dlprobe {

/// The reference loader's executable: `override_path` if not empty, else beside `own_executable`,
/// in the libexec and bin folders of its prefix, or in the build tree that dlprobe was built in.
/// kNotFound says which package brings it.
Expected<std::string> find_reference_loader(const std::string& override_path,
                                            const std::string& own_executable);

/// The exit code with which it refuses its options.
inline constexpr int kExitOfBadOptions = 2;

/// Its command line for `plan`; progress lines go to descriptor `progress_fd`.
std::vector<std::string> reference_loader_argv(const std::string& executable,
                                               const LoaderPlan& plan, int progress_fd);

}  // namespace dlprobe
