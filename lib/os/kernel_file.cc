#include "lib/os/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace dlprobe {

Status write_kernel_file(const std::string& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  if (!fd || ::write(fd.get(), text.data(), text.size()) < 0) return os_failure("write " + path);
  return {};
}

}  // namespace dlprobe
