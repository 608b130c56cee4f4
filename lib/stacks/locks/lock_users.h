#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/layout.h"

namespace dlprobe {

/// Which threads of one process hold locks of Python's that do not say so, or are joined. Refers to
/// `memory`, `layout` and `threads`, which are by tid.
class LockUsers {
 public:
  /// Looks for the threading.Locks with these addresses.
  LockUsers(const Memory& memory, const PythonLayout::Object& layout,
            const std::map<int32_t, PythonThread>& threads, std::set<uint64_t> locks);

  /// The thread that is in a `with` statement on that lock, or on a threading.Condition that has it
  /// (a queue.Queue has three): meanwhile the frame has the __exit__ of the lock or the condition
  /// on its value stack (CPython 3.8 to 3.13). Nothing if there is none or it is not sure.
  /// `waiters` are those who wait for the lock.
  std::optional<int32_t> holder_of(uint64_t lock, const std::set<int32_t>& waiters) const;

  /// The thread whose end releases that lock, by which it is joined: its PyThreadState has a weak
  /// reference to it (on_delete_data, up to CPython 3.12).
  std::optional<int32_t> joined_by_lock(uint64_t lock) const;

  /// The thread whose end sets that PyEvent, by which it is joined: the ThreadHandle around it has
  /// the thread's pthread_self() twice (Modules/_threadmodule.c, from 3.13 on).
  std::optional<int32_t> joined_by_event(uint64_t event) const;

 private:
  /// A value on the stack of a frame.
  struct Use {
    int32_t tid = 0;
    bool innermost = false;   ///< of the thread's frames
    bool is_between = false;  ///< the next inner frame enters or leaves a condition
    uint64_t object = 0;      ///< the lock itself, its __exit__, or that of a condition
  };

  /// Of a value on a stack, where it is a lock or what leaves one.
  void note_use(Use use, bool waits_for_condition);
  void find_uses(int32_t tid, const PythonThread& thread);
  void find_joined(int32_t tid, const PythonThread& thread);
  /// The lock of which that is the method __exit__.
  std::optional<uint64_t> lock_of_exit(uint64_t object) const;
  /// The lock of the threading.Condition of which that is the method __exit__.
  std::optional<uint64_t> lock_of_condition_exit(uint64_t object);
  bool is_of_type(uint64_t object, std::string_view name);

  const Memory& memory_;
  const PythonLayout::Object& layout_;
  const std::map<int32_t, PythonThread>& threads_;
  std::set<uint64_t> locks_;
  std::map<uint64_t, std::vector<Use>> uses_;  ///< by lock, in the order of the values
  std::map<uint64_t, int32_t> joined_;         ///< by lock
  std::map<uint64_t, std::string> types_;      ///< their names, by address
  size_t values_left_ = 1U << 20U;             ///< so many are looked at, at most
};

}  // namespace dlprobe
