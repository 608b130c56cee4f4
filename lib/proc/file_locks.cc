#include "lib/proc/file_locks.h"

#include "lib/base/parse.h"

namespace dlprobe {

std::set<uint64_t> parse_file_locks(std::string_view text) {
  constexpr size_t kFileField = 5;
  std::set<uint64_t> inodes;
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split_fields(line);
    if (fields.size() <= kFileField || fields[1] == "->") continue;
    const std::string_view file = fields[kFileField];
    if (const auto inode = parse_int<uint64_t>(file.substr(file.rfind(':') + 1)))
      inodes.insert(*inode);
  }
  return inodes;
}

}  // namespace dlprobe
