#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// Writes `text` to `path`, whole or not at all: a file of the same folder, made durable, takes the
/// name in one step, with mode 0600. On failure (also ENOSPC) the old file is as it was and nothing
/// is left behind. A symbolic link that this user or root made is followed; another user's is
/// replaced.
/// What is not a regular file (a terminal, /dev/null, a FIFO) is written to directly, and so is a
/// file that is a mount point (Kubernetes' /dev/termination-log), which no other file can replace:
/// only if it belongs to this user or root. kInvalid for another user's and for a block device;
/// a FIFO that nobody reads from is an error, not waited for.
Status write_file_atomically(const std::string& path, std::string_view text);

/// A file that grows: each append is written whole, so that a reader after a crash finds every
/// record but at most the last.
class AppendFile {
 public:
  /// Makes the file anew with mode 0600. kInvalid when it is a symbolic link, not a regular file,
  /// or another user's, which is left as it is.
  static Expected<AppendFile> create(const std::string& path);

  /// Puts a new file that holds `bytes` in its place, whole or not at all, and goes on with that.
  Status rewrite(std::string_view bytes);

  /// Adds `bytes` at the end. After a failure what was written of them is taken back.
  Status append(std::string_view bytes);

  const std::string& path() const { return path_; }
  uint64_t size() const { return static_cast<uint64_t>(size_); }

 private:
  AppendFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
  int64_t size_ = 0;
};

/// The whole file at a path that a user gave; of a pipe, what comes until its writers close it.
/// kMalformed above `limit` bytes, and for a pipe that nobody writes to, which is not waited for;
/// nor is a device that has nothing to say.
Expected<std::string> read_whole_file(const std::string& path, uint64_t limit);

/// The same piece by piece, so that a large file need not fit into memory; what `take` says ends
/// it.
Status read_file(const std::string& path, uint64_t limit,
                 const std::function<Status(std::string_view)>& take);

/// The same of a file that find_trusted_file() has found; `path` is its name for messages.
Expected<std::string> read_trusted_file(const UniqueFd& found, const std::string& path,
                                        uint64_t limit);

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
