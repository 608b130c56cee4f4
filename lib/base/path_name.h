#pragma once

#include <string_view>

namespace dlprobe {

/// What is behind the last '/'; the whole where there is none.
constexpr std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace dlprobe
