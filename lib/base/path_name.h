#pragma once

#include <string_view>

namespace dlprobe {

/// What is behind the last '/'; the whole where there is none.
constexpr std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// Without the " (deleted)" that the kernel adds to the path of a file that has no name any more.
constexpr std::string_view without_deleted(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path;
}

}  // namespace dlprobe
