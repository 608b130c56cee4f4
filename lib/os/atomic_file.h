#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// Writes `text` to `path`, whole or not at all: a file of the same folder, made durable, takes the
/// name in one step, with mode 0600. On failure (also ENOSPC) the old file is as it was and nothing
/// is left behind. A symbolic link in the place of the file is replaced, not followed.
/// What is not a regular file (a terminal, /dev/null, a FIFO) is written to directly, and so is a
/// file that is a mount point (Kubernetes' /dev/termination-log), which no other file can replace.
Status write_file_atomically(const std::string& path, std::string_view text);

/// A file that grows: each append is written whole, so that a reader after a crash finds every
/// record but at most the last.
class AppendFile {
 public:
  /// Makes the file anew with mode 0600. kInvalid when it is a symbolic link or not a regular file.
  static Expected<AppendFile> create(const std::string& path);

  /// Goes on with a file that exists, as create() refuses links and special files.
  static Expected<AppendFile> open_existing(const std::string& path);

  /// Adds `bytes` at the end. After a failure what was written of them is taken back.
  Status append(std::string_view bytes);

  const std::string& path() const { return path_; }
  uint64_t size() const { return static_cast<uint64_t>(size_); }

 private:
  static Expected<AppendFile> open(const std::string& path, int flags);
  AppendFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
  int64_t size_ = 0;
};

/// The whole file at a path that a user gave; of a pipe, what comes until its writers close it.
/// kMalformed above `limit` bytes, and for a pipe that nobody writes to, which is not waited for.
Expected<std::string> read_whole_file(const std::string& path, uint64_t limit);

/// The paths of what is in a folder that a user gave, sorted; nothing where `path` is no folder.
Expected<std::optional<std::vector<std::string>>> list_folder(const std::string& path);

/// Whether write_file_atomically(path, ...) would be allowed to: the folder is there and may be
/// written to (the file itself where it is written directly), and the path is not a folder. Changes
/// nothing.
Status check_writable(const std::string& path);

/// /dev/null, for reading and writing.
Expected<UniqueFd> open_null_device();

/// write(2) until all is written. EPIPE is an error like any other (SIGPIPE is the caller's
/// matter).
Status write_all(int fd, std::string_view bytes, const std::string& what);

}  // namespace dlprobe
