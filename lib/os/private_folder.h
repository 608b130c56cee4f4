#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// A folder that only this user may look into (mode 0700), in $TMPDIR or /tmp; of root, whose
/// programs become other users, one that others can reach by its name alone: 128 random bits, which
/// nobody can list. Taken away with all that is in it, what others have put there included, when it
/// is destroyed; by the next one if its process was killed.
class PrivateFolder {
 public:
  /// kIo, kForbidden with the path, if it cannot be made. Takes away those of this name and user
  /// that nobody holds, that are a minute old, and that are in the environment of no process: a job
  /// may outlive its dlprobe.
  static Expected<PrivateFolder> make(std::string_view name_prefix,
                                      const std::string& parent = parents().front());

  /// Where one may be made, the best first: TMPDIR, and what there is where that cannot be used.
  static std::vector<std::string> parents();

  PrivateFolder(PrivateFolder&& other) noexcept
      : outer_(std::exchange(other.outer_, {})),
        path_(std::exchange(other.path_, {})),
        held_(std::move(other.held_)) {}
  PrivateFolder& operator=(PrivateFolder&& other) noexcept {
    std::swap(outer_, other.outer_);
    std::swap(path_, other.path_);
    std::swap(held_, other.held_);
    return *this;
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();

  /// Absolute, without a trailing '/'.
  const std::string& path() const { return path_; }

  /// Writes a file in it, which whoever reaches the folder may read.
  Status write(std::string_view name, std::string_view text) const;

  /// Makes a FIFO in it, which whoever reaches the folder may write into, and opens it,
  /// non-blocking; it has no end of file however many writers come and go.
  Expected<UniqueFd> make_fifo(std::string_view name) const;

  /// What the symbolic links in it hold whose names begin so; they are removed. A process can make
  /// one when it has no descriptor left.
  std::vector<std::string> take_links(std::string_view name_prefix) const;

  /// The names of the files in it that begin so, in order, and their texts; of each at most 64 KiB.
  std::map<std::string, std::string> read_files(std::string_view name_prefix) const;

 private:
  explicit PrivateFolder(std::string path);
  /// Moves it into a folder that can be reached, but not listed.
  Status let_others_in();
  std::string outer_;
  std::string path_;
  UniqueFd held_;  ///< with a lock, while this process or one that it forked lives
};

}  // namespace dlprobe
