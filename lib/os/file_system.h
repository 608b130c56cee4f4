#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// What stat(2) says of a file.
struct FileStat {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint32_t mode = 0;  ///< with the type bits
  uint64_t links = 0;
  uint32_t uid = 0;
  uint64_t size_bytes = 0;
  uint64_t allocated_bytes = 0;  ///< st_blocks in bytes
  int64_t modified_ns = 0;       ///< CLOCK_REALTIME

  bool operator==(const FileStat&) const = default;
};

/// What statfs(2) says of a mounted file system.
struct MountUse {
  uint64_t size_bytes = 0;  ///< 0: no limit (tmpfs)
  uint64_t used_bytes = 0;
  uint64_t inodes = 0;  ///< 0: no limit
  uint64_t inodes_used = 0;
  uint64_t type_magic = 0;  ///< TMPFS_MAGIC ...

  bool operator==(const MountUse&) const = default;
};

/// A file that stays open, to be read again and again: the kernel makes the text anew each time.
/// Of a process's file, a read after the process was reaped is kVanished, whatever its pid is now.
class KeptFile {
 public:
  virtual ~KeptFile() = default;
  KeptFile() = default;
  KeptFile(const KeptFile&) = delete;
  KeptFile& operator=(const KeptFile&) = delete;

  /// The text from the start, as much of it as fits; it lives in `buffer`.
  virtual Expected<std::string_view> read(std::span<char> buffer) const = 0;
};

/// What `parse` makes of the first 8 KiB of a kept file.
template <class Parse>
auto parse_kept(const KeptFile& file, Parse parse) -> decltype(parse(std::string_view())) {
  std::array<char, 8192> buffer;
  DLP_TRY(const std::string_view text, file.read(buffer));
  return parse(text);
}

/// An open directory, the only way to the machine's files. Names are relative to it (a leading '/'
/// is ignored) and may have several components; "" is the directory itself. It stays the same
/// directory whatever becomes of its path.
///
/// Thread-safe. The Errors name the full path.
class Directory {
 public:
  virtual ~Directory() = default;
  Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  /// The path for messages, without a trailing '/'; "" for the root.
  virtual const std::string& path() const = 0;

  /// A whole file. kMalformed when it is larger than `limit` bytes.
  virtual Expected<std::string> read(std::string_view name, size_t limit) const = 0;
  Expected<std::string> read(std::string_view name) const { return read(name, kReadLimit); }

  virtual Expected<std::string> read_link(std::string_view name) const = 0;

  /// The names in a directory, without "." and "..", in no order.
  virtual Expected<std::vector<std::string>> list(std::string_view name) const = 0;

  /// Of what a symbolic link leads to (also /proc/PID/fd/N and /proc/PID/root). Of a file on a live
  /// machine what is known without asking its storage, which may not answer.
  virtual Expected<FileStat> stat(std::string_view name) const = 0;

  /// Of the link itself.
  virtual Expected<FileStat> stat_link(std::string_view name) const = 0;

  virtual Expected<MountUse> mount_use(std::string_view name) const = 0;

  /// Pins the directory without reading it (O_PATH).
  virtual Expected<std::shared_ptr<const Directory>> open_directory(
      std::string_view name) const = 0;

  /// The same, out of which no name leads, be it by a symbolic link (openat2 RESOLVE_IN_ROOT): for
  /// names that another process made, below its root. A recorded machine never leads out.
  virtual Expected<std::shared_ptr<const Directory>> open_as_root(std::string_view name) const {
    return open_directory(name);
  }

  virtual Expected<std::unique_ptr<const KeptFile>> keep_file(std::string_view name) const = 0;

  /// An open descriptor of a regular file, for what reads at an offset. kUnsupported if this is not
  /// a directory of a file system.
  virtual Expected<UniqueFd> open_file(std::string_view name) const;

  /// The O_PATH descriptor, for what only the live machine offers; -1 if this is not one.
  virtual int native_handle() const { return -1; }

  /// Enough for every kernel file but maps and smaps.
  static constexpr size_t kReadLimit = size_t{1} << 20;
};

/// The files of a machine. "/" is this one. Any other path is a recorded one: no symbolic link
/// leads out of it (openat2 RESOLVE_IN_ROOT), and what only a live kernel can say (mount_use) is
/// kUnsupported.
Expected<std::shared_ptr<const Directory>> open_root(const std::string& path);

/// `directory`/`name` as messages have it.
std::string join_path(const Directory& directory, std::string_view name);

}  // namespace dlprobe
