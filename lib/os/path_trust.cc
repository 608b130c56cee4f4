#include "lib/os/path_trust.h"

#include <unistd.h>

#include <climits>
#include <optional>
#include <utility>

namespace dlprobe {
namespace {

std::string not_ours(const std::string& what, const PathNode& node) {
  return what + " belongs to uid " + std::to_string(node.status.st_uid) +
         ", and dlprobe runs as uid " + std::to_string(::geteuid());
}

// Why what stands there may not be obeyed; nothing if it may, or is a link to follow.
std::optional<std::string> why_not_trusted(const PathNode& node, const PathNode& folder) {
  if (!node.is_ours()) return not_ours("it", node);
  // Whoever owns the folder can put any link or file of this user's there, and swap them.
  if (!folder.is_ours()) return not_ours("its folder", folder);
  if (node.is_link()) return std::nullopt;
  if (!S_ISREG(node.status.st_mode)) return "it is not a regular file";
  if ((node.status.st_mode & S_IWOTH) != 0) return "everybody may write to it";
  if ((node.status.st_mode & S_IWGRP) != 0) return "its group may write to it";
  return std::nullopt;
}

}  // namespace

bool PathNode::is_ours() const {
  return status.st_uid == 0 || status.st_uid == ::geteuid();
}

Expected<PathNode> look_at_node(const std::string& path, int folder) {
  PathNode node{.fd = UniqueFd(::openat(folder, path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC))};
  if (!node.fd || ::fstat(node.fd.get(), &node.status) != 0) return os_failure("look at " + path);
  return node;
}

Expected<std::string> target_of_link(const PathNode& link, const std::string& path) {
  std::string text(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(link.fd.get(), "", text.data(), text.size());
  if (length < 0) return os_failure("read the link " + path);
  text.resize(static_cast<size_t>(length));
  return text.starts_with('/') ? text : folder_of(path) + "/" + text;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Expected<UniqueFd> find_trusted_file(const std::string& path) {
  std::string at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    // The last "/." leads into a folder that is itself a link; the file is then looked for in the
    // very folder that is judged.
    DLP_TRY(const PathNode folder, look_at_node(folder_of(at) + "/."));
    DLP_TRY(PathNode node, look_at_node(at.substr(at.rfind('/') + 1), folder.fd.get()));
    if (const auto why = why_not_trusted(node, folder)) {
      return failure(ErrorCode::kInvalid, at == path ? *why : "it leads to " + at + ": " + *why);
    }
    if (!node.is_link()) return std::move(node.fd);
    DLP_TRY(at, target_of_link(node, at));
  }
  return os_failure("look at " + path, ELOOP);
}

}  // namespace dlprobe
