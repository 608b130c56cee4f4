#include "lib/os/cgroup_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/os/kernel_file.h"

namespace dlprobe {

Status CgroupTree::make(const std::string& group) {
  if (::mkdir(group.c_str(), 0755) != 0) return os_failure("make the cgroup " + group);
  return {};
}

Status CgroupTree::remove(const std::string& group) {
  if (::rmdir(group.c_str()) != 0) return os_failure("remove the cgroup " + group);
  return {};
}

Status CgroupTree::write(const std::string& file, std::string_view text) {
  return write_kernel_file(file, text);
}

Expected<UniqueFd> CgroupTree::open_for_writing(const std::string& file) {
  UniqueFd fd(::open(file.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  if (!fd) return os_failure("open " + file);
  return fd;
}

}  // namespace dlprobe
