#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// Writes `text` to a file of the kernel (in /proc, in a cgroup), which must be there already, in
/// one write(2): the kernel takes it whole or refuses it.
Status write_kernel_file(const std::string& path, std::string_view text);

}  // namespace dlprobe
