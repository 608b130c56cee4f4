#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/model/loader_plan.h"
#include "tools/reference_loader/shm_manager.h"

namespace dlprobe::loader {

/// The header of a file_system segment: at::RefcountedMapAllocator keeps its count in the first
/// bytes and starts the data after map_alloc_alignment (ATen/MapAllocator.cpp).
inline constexpr uint64_t kRefcountHeaderBytes = 64;

/// How segments are made.
struct SegmentPolicy {
  SharingStrategy strategy = SharingStrategy::kFileDescriptor;
  /// Reserve the pages at once, so that a shortage is an error (torch >= 2.9). Without it the file
  /// is sparse, and a shortage is a SIGBUS at the first touch (torch 1.13).
  bool reserve = true;
  /// A file whose pages were refused keeps its name, as torch 2.13 leaves it behind (for good under
  /// file_descriptor, until the manager ends under file_system). Only in a private mount, which
  /// takes it along.
  bool leaves_refused = false;
};

/// A piece of /dev/shm that this process made and writes. Unmapped at the end; the file itself
/// stays until its descriptors are closed (file_descriptor) or until it is unlinked (file_system).
class Segment {
 public:
  /// `name` as shm_open wants it: "/torch_1_2_3". Under file_descriptor it is unlinked at once.
  static Expected<Segment> create(const std::string& name, uint64_t bytes,
                                  const SegmentPolicy& policy);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  /// The payload, after the header of file_system.
  std::span<std::byte> data() const { return data_; }
  const std::string& name() const { return name_; }
  /// The descriptor of a file_descriptor segment, to be sent.
  UniqueFd take_fd() { return std::move(fd_); }

 private:
  Segment() = default;
  std::string name_;
  UniqueFd fd_;
  void* base_ = nullptr;
  uint64_t mapped_bytes_ = 0;
  std::span<std::byte> data_;
};

/// "/torch_PID_RANDOM_COUNTER", as at::NewProcessWideShmHandle.
std::string segment_name(pid_t pid, uint32_t random, uint64_t counter);

/// Unlinks a named segment and tells the manager.
void remove_segment(const std::string& name, const ShmManagerClient& manager);

/// Unlinks what process `pid` of this loader (`random` is the loader's own) left in /dev/shm.
/// Returns how many files that were.
int remove_segments_of(pid_t pid, uint32_t random);

}  // namespace dlprobe::loader
