#include "lib/os/private_shm.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>

#include "lib/os/kernel_file.h"

namespace dlprobe {
namespace {

Status unshare_as_user() {
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    if (errno == EINVAL) {
      return os_failure(
          "without root only a process with one thread can do so, and a library has started some "
          "already; for OpenBLAS set OPENBLAS_NUM_THREADS=1, or run as root: unshare");
    }
    return os_failure(
        "needs root (CAP_SYS_ADMIN) or unprivileged user namespaces (sysctl "
        "user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1, "
        "kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile that "
        "allows it): unshare");
  }
  DLP_CHECK(write_kernel_file("/proc/self/setgroups", "deny"));
  DLP_CHECK(write_kernel_file("/proc/self/uid_map", fmt::format("{0} {0} 1", uid)));
  DLP_CHECK(write_kernel_file("/proc/self/gid_map", fmt::format("{0} {0} 1", gid)));
  // The new capabilities made this process undumpable: its user's tools could not look at it.
  ::prctl(PR_SET_DUMPABLE, 1);
  return {};
}

}  // namespace

Status enter_private_shm(const PrivateShm& shm) {
  if (::unshare(CLONE_NEWNS) != 0) {
    if (errno != EPERM) return os_failure("unshare");
    DLP_CHECK(unshare_as_user());
  }
  // Ours must not reach the machine; the machine's may reach us.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return os_failure("keep mounts to itself");
  }
  const std::string options = "mode=1777,size=" + std::to_string(shm.size_bytes) +
                              ",nr_inodes=" + std::to_string(shm.inodes);
  if (::mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options.c_str()) !=
      0) {
    return os_failure("mount a tmpfs on /dev/shm with " + options);
  }
  return {};
}

}  // namespace dlprobe
