#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlprobe {

/// A variable of dlprobe's own environment.
std::optional<std::string> own_environment(std::string_view name);

}  // namespace dlprobe
