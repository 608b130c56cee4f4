#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// The changes that dlprobe makes to cgroups. Paths are absolute. The base class is the live
/// machine; a test stands in for the kernel.
class CgroupTree {
 public:
  CgroupTree() = default;
  virtual ~CgroupTree() = default;
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  /// A new, empty group.
  virtual Status make(const std::string& group);
  /// Takes it away: only an empty one goes, for others the kernel says EBUSY.
  virtual Status remove(const std::string& group);
  virtual Status write(const std::string& file, std::string_view text);
  virtual Expected<UniqueFd> open_for_writing(const std::string& file);
};

}  // namespace dlprobe
