#include "lib/os/process_access.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "lib/os/recorded_machine.h"

namespace dlprobe {
namespace {

// From include/uapi/linux/pidfd.h of Linux 6.15 (the libc headers here are older). The kernel
// answers as many bytes as the caller's struct has and says in `mask` what it filled in.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);  // PIDFD_INFO_SIZE_VER0
constexpr uint64_t kPidfdInfoExit = 1U << 3U;
constexpr unsigned kPidfdIoctlMagic = 0xFF;

// From include/uapi/linux/fs.h of Linux 6.11.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr uint64_t kQueryVmaShared = 0x08;
constexpr uint64_t kQueryCoveringOrNext = 0x10;
constexpr uint64_t kQueryFileBacked = 0x20;
constexpr unsigned kProcfsIoctlMagic = 'f';

// Documentation/admin-guide/mm/pagemap.rst: 64 bits for each page; bit 63 is "page present".
constexpr uint64_t kPagePresent = uint64_t{1} << 63U;

}  // namespace

Expected<UniqueFd> ProcessAccess::open_pidfd(pid_t /*pid*/) const {
  return needs_live_kernel("pidfd_open");
}

std::vector<bool> ProcessAccess::ended(std::span<const int> pidfds) const {
  return std::vector<bool>(pidfds.size(), false);
}

Expected<std::optional<int32_t>> ProcessAccess::exit_status(int /*pidfd*/) const {
  return needs_live_kernel("PIDFD_GET_INFO");
}

Status ProcessAccess::read_memory(pid_t /*pid*/, uint64_t /*address*/,
                                  std::span<std::byte> /*bytes*/) const {
  return needs_live_kernel("process_vm_readv");
}

Expected<std::vector<bool>> ProcessAccess::pages_in_memory(pid_t /*pid*/, uint64_t /*address*/,
                                                           size_t /*count*/) const {
  return needs_live_kernel("pagemap");
}

Status ProcessAccess::run_on_cpu(int32_t /*cpu*/, const std::function<Status()>& /*work*/) const {
  return needs_live_kernel("sched_setaffinity");
}

Expected<FileIdentity> ProcessAccess::compare_files(const ProcessFile& /*one*/,
                                                    const ProcessFile& /*other*/) const {
  return needs_live_kernel("kcmp");
}

Expected<std::vector<SharedMapping>> ProcessAccess::shared_mappings(
    const Directory& /*process*/) const {
  return needs_live_kernel("PROCMAP_QUERY");
}

Expected<UniqueFd> SystemProcesses::open_pidfd(pid_t pid) const {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return os_failure("pidfd_open " + std::to_string(pid));
  return fd;
}

std::vector<bool> SystemProcesses::ended(std::span<const int> pidfds) const {
  std::vector<pollfd> polled;
  polled.reserve(pidfds.size());
  for (const int fd : pidfds)
    polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  std::vector<bool> result(pidfds.size(), false);
  if (::poll(polled.data(), polled.size(), 0) <= 0) return result;
  for (size_t i = 0; i < polled.size(); ++i) {
    result[i] = (polled[i].revents & (POLLIN | POLLHUP)) != 0;
  }
  return result;
}

Expected<std::optional<int32_t>> SystemProcesses::exit_status(int pidfd) const {
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): ioctl is what it is
  if (::ioctl(pidfd, _IOWR(kPidfdIoctlMagic, 11, PidfdInfo), &info) != 0) {
    // A kernel with the call but without EXIT says ESRCH for a reaped process; one without says
    // ENOTTY or EINVAL.
    const int why = errno == EINVAL ? ENOTTY : errno;
    return os_failure("PIDFD_GET_INFO of an ended process", why);
  }
  if ((info.mask & kPidfdInfoExit) == 0) return std::optional<int32_t>();
  return std::optional<int32_t>(info.exit_code);
}

Status SystemProcesses::read_memory(pid_t pid, uint64_t address, std::span<std::byte> bytes) const {
  const iovec local{.iov_base = bytes.data(), .iov_len = bytes.size()};
  // The address is the target's: never a pointer of ours.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast,performance-no-int-to-ptr)
  const iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = bytes.size()};
  const ssize_t got = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
  if (got < 0) return os_failure("process_vm_readv " + std::to_string(pid));
  if (static_cast<size_t>(got) != bytes.size()) {
    return failure(ErrorCode::kIo, "process_vm_readv " + std::to_string(pid) + ": a part only");
  }
  return {};
}

Expected<std::vector<bool>> SystemProcesses::pages_in_memory(pid_t pid, uint64_t address,
                                                             size_t count) const {
  const std::string path = "/proc/" + std::to_string(pid) + "/pagemap";
  const UniqueFd pagemap(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap) return os_failure("open " + path);
  std::vector<uint64_t> entries(count);
  const size_t bytes = count * sizeof(uint64_t);
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<off_t>(address / page_bytes * sizeof(uint64_t));
  const ssize_t got = ::pread(pagemap.get(), entries.data(), bytes, offset);
  if (got < 0) return os_failure("read " + path);
  if (std::cmp_not_equal(got, bytes)) {
    return failure(ErrorCode::kIo, "read " + path + ": a part only");
  }
  std::vector<bool> present(count);
  for (size_t page = 0; page < count; ++page)
    present[page] = (entries[page] & kPagePresent) != 0;
  return present;
}

Status SystemProcesses::run_on_cpu(int32_t cpu, const std::function<Status()>& work) const {
  cpu_set_t before{};
  if (::sched_getaffinity(0, sizeof before, &before) != 0) return os_failure("sched_getaffinity");
  if (cpu < 0 || cpu >= CPU_SETSIZE) {
    return failure(ErrorCode::kUnsupported, "a CPU beyond " + std::to_string(CPU_SETSIZE));
  }
  const int home = ::sched_getcpu();
  cpu_set_t one{};
  CPU_SET(cpu, &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) return os_failure("sched_setaffinity");
  Status result = work();
  // Back at once: to stay would take time from whoever runs there.
  if (home >= 0 && home < CPU_SETSIZE) {
    cpu_set_t back{};
    CPU_SET(home, &back);
    ::sched_setaffinity(0, sizeof back, &back);
  }
  ::sched_setaffinity(0, sizeof before, &before);
  return result;
}

Expected<FileIdentity> SystemProcesses::compare_files(const ProcessFile& one,
                                                      const ProcessFile& other) const {
  const long order = ::syscall(SYS_kcmp, one.pid, other.pid, KCMP_FILE, one.fd, other.fd);
  if (order < 0) return os_failure("kcmp " + std::to_string(one.pid), errno);
  return order == 0 ? FileIdentity::kSame : FileIdentity::kDifferent;
}

Expected<std::vector<SharedMapping>> SystemProcesses::shared_mappings(
    const Directory& process) const {
  if (process.native_handle() < 0) return needs_live_kernel("PROCMAP_QUERY");
  const UniqueFd maps(::openat(process.native_handle(), "maps", O_RDONLY | O_CLOEXEC));
  if (!maps) return os_failure("open " + join_path(process, "maps"));
  std::vector<SharedMapping> found;
  std::array<char, 512> name{};
  uint64_t address = 0;
  while (true) {
    ProcmapQuery query{};
    query.size = sizeof query;
    query.query_flags = kQueryVmaShared | kQueryFileBacked | kQueryCoveringOrNext;
    query.query_addr = address;
    query.vma_name_size = name.size();
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
    query.vma_name_addr = reinterpret_cast<uint64_t>(name.data());
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
    int status = ::ioctl(maps.get(), _IOWR(kProcfsIoctlMagic, 17, ProcmapQuery), &query);
    if (status != 0 && errno == ENAMETOOLONG) {  // the name alone does not fit: do without
      query.vma_name_size = 0;
      query.vma_name_addr = 0;
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
      status = ::ioctl(maps.get(), _IOWR(kProcfsIoctlMagic, 17, ProcmapQuery), &query);
    }
    if (status != 0 && errno == ENOENT) break;  // no further mapping of this kind
    if (status != 0) return os_failure("PROCMAP_QUERY " + join_path(process, "maps"));
    // vma_name_size counts the NUL; 0 is "no name".
    const size_t name_length = query.vma_name_size > 0 ? query.vma_name_size - 1U : 0U;
    found.push_back({.begin = query.vma_start,
                     .end = query.vma_end,
                     .device = makedev(query.dev_major, query.dev_minor),
                     .inode = query.inode,
                     .name = std::string(name.data(), name_length)});
    address = query.vma_end;
  }
  return found;
}

uint64_t raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  // Too few to watch with; the hard limit is root's to raise.
  constexpr rlim_t kEnough = 1024;
  for (const rlim_t wanted : {std::max(limit.rlim_max, kEnough), limit.rlim_max}) {
    const rlimit raised{.rlim_cur = wanted, .rlim_max = wanted};
    if (limit.rlim_cur < wanted && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) return wanted;
  }
  return limit.rlim_cur;
}

}  // namespace dlprobe
