#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/unique_fd.h"

namespace dlprobe {

/// What is appended to a regular file from now on, as somebody else writes it.
class GrowingFile {
 public:
  /// The file behind a descriptor of this process, which need not be open for reading: it is opened
  /// once more by /proc/self/fd. Nothing if it is no regular file (a terminal, a pipe) or may not
  /// be read.
  static std::optional<GrowingFile> behind(int fd);

  /// The next bytes, at most `limit`; empty if there are none yet. A file that was truncated is
  /// read from its start.
  std::string read_new(size_t limit);

 private:
  explicit GrowingFile(UniqueFd fd, int64_t offset) : fd_(std::move(fd)), offset_(offset) {}
  UniqueFd fd_;
  int64_t offset_;
};

}  // namespace dlprobe
