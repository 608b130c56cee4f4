#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// What stands at a path itself, not what a symbolic link there leads to. It stays the same file
/// whatever becomes of the path.
struct PathNode {
  UniqueFd fd;  ///< O_PATH
  struct stat status{};

  bool is_link() const { return S_ISLNK(status.st_mode); }
  /// It belongs to this user or to root: nobody else chose what it is.
  bool is_ours() const;
};

/// Looks at `path`, relative to the open `folder`, without opening what is there. kNotFound if
/// nothing is.
Expected<PathNode> look_at_node(const std::string& path, int folder = AT_FDCWD);

/// Where a link leads that stands at `path`; relative to the folder of `path` if it says so.
Expected<std::string> target_of_link(const PathNode& link, const std::string& path);

/// The folder that `path` stands in: "." of "report.json".
std::string folder_of(const std::string& path);

/// The regular file at `path` that a program may obey although nobody named it: it and its folder
/// belong to this user or to root, and nobody else may write to it. A symbolic link of the same
/// owners is followed, to a file of which the same holds. kNotFound if there is none, kInvalid with
/// the reason if it is not to be trusted. O_PATH: read it by its descriptor, never by its path.
Expected<UniqueFd> find_trusted_file(const std::string& path);

/// As many links in a row as the kernel follows.
inline constexpr int kMostLinks = 40;

}  // namespace dlprobe
