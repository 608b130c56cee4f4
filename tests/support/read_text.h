#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace dlprobe {

/// All that is in a file; "" for none.
inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace dlprobe
