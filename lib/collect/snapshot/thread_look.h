#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/collect/snapshot/frame_places.h"
#include "lib/collect/snapshot/process_image.h"
#include "lib/model/snapshot.h"
#include "lib/proc/syscall_file.h"
#include "lib/stacks/native/unwinder.h"

namespace dlprobe {

/// How much of a stack is read at once.
inline constexpr uint64_t kStackPreload = 128 << 10;

/// Looks at the threads of one process without stopping any.
class ThreadLook {
 public:
  /// All must outlive it.
  ThreadLook(ProcessImage& image, SeenThreads& seen, FramePlaces& frames)
      : image_(image), seen_(seen), frames_(frames) {}

  /// Nothing: the thread has ended meanwhile.
  std::optional<ThreadSnapshot> look_at(int32_t tid, Unwinder& unwinder);

  /// A blocked thread that was woken while it, or Python, was read is read again, a few times:
  /// whoever is stuck stays blocked.
  void look_again_at_moved(ProcessSnapshot& snapshot, Unwinder& unwinder);

  /// Whether a thread that waited on files does so no longer, or again.
  bool has_moved_on(const ThreadSnapshot& thread) const;

  /// Says whether the thread has not run since its look began.
  void mark_consistent(ThreadSnapshot& thread) const;

  /// Makes that its stack.
  void put(const NativeStack& stack, ThreadSnapshot& thread);

  /// One of them is a kernel thread.
  bool is_of_kernel() const { return is_of_kernel_; }

 private:
  void walk(const SyscallFile& call, ThreadSnapshot& thread, Unwinder& unwinder);
  int32_t read_own_tid(const std::string& task) const;

  ProcessImage& image_;
  SeenThreads& seen_;
  FramePlaces& frames_;
  bool is_of_kernel_ = false;
};

}  // namespace dlprobe
