#include "tools/reference_loader/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/reference_loader/signals.h"

namespace dlprobe::loader {
namespace {

// The kernel undoes a failed reservation, so the file is empty again.
int reserve_pages(int fd, uint64_t bytes) {
  int status = 0;
  do {
    status = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  } while (status == EINTR);
  return status;
}

}  // namespace

Expected<Segment> Segment::create(const std::string& name, uint64_t bytes,
                                  const SegmentPolicy& policy) {
  const bool named = policy.strategy == SharingStrategy::kFileSystem;
  const uint64_t header = named ? kRefcountHeaderBytes : 0;
  Segment segment;
  segment.name_ = name;
  // Between a file and the removal of its name, or nobody would remove it.
  std::optional<ParentDeathPause> together;
  if (!named) together.emplace();
  segment.fd_.reset(shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  if (!segment.fd_) {
    return os_failure("unable to open shared memory object <" + name + "> in read-write mode");
  }
  if (!named && !policy.leaves_refused) {
    shm_unlink(name.c_str());
    together.reset();
  }
  const auto undo = [&](std::string what, int os_errno) {
    // torch 2.13 throws without closing the descriptor (MapAllocator.cpp).
    if (policy.leaves_refused) segment.fd_.release();
    if (named && !policy.leaves_refused) shm_unlink(name.c_str());
    return os_failure(std::move(what), os_errno);
  };
  const uint64_t size = bytes + header;
  if (ftruncate(segment.fd_.get(), static_cast<off_t>(size)) != 0) {
    return undo("unable to resize shared memory file <" + name + ">", errno);
  }
  if (policy.reserve) {
    if (const int status = reserve_pages(segment.fd_.get(), size); status != 0) {
      return undo("unable to allocate shared memory(shm) for file <" + name + ">", status);
    }
  }
  if (!named && policy.leaves_refused) shm_unlink(name.c_str());
  together.reset();
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd_.get(), 0);
  if (base == MAP_FAILED) return undo("unable to mmap file <" + name + ">", errno);
  segment.base_ = base;
  segment.mapped_bytes_ = size;
  segment.data_ = std::span(static_cast<std::byte*>(base) + header, bytes);
  if (named) {
    // The one reference is the receiver's; this process only writes.
    new (base) std::atomic<int>(1);
    segment.fd_.reset();
  }
  return segment;
}

Segment::Segment(Segment&& other) noexcept
    : name_(std::move(other.name_)),
      fd_(std::move(other.fd_)),
      base_(std::exchange(other.base_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      data_(std::exchange(other.data_, {})) {}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, mapped_bytes_);
}

std::string segment_name(pid_t pid, uint32_t random, uint64_t counter) {
  return "/torch_" + std::to_string(pid) + "_" + std::to_string(random) + "_" +
         std::to_string(counter);
}

void remove_segment(const std::string& name, const ShmManagerClient& manager) {
  shm_unlink(name.c_str());
  manager.has_freed(name);
}

int remove_segments_of(pid_t pid, uint32_t random) {
  const std::string prefix = "torch_" + std::to_string(pid) + "_" + std::to_string(random) + "_";
  std::vector<std::string> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator file("/dev/shm", ignored), end; file != end;
       file.increment(ignored)) {
    std::string name = file->path().filename().string();
    if (name.starts_with(prefix)) found.push_back("/" + std::move(name));
  }
  int removed = 0;
  for (const std::string& name : found)
    removed += shm_unlink(name.c_str()) == 0 ? 1 : 0;
  return removed;
}

}  // namespace dlprobe::loader
