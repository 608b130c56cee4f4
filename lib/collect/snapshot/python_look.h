#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/model/snapshot.h"
#include "lib/stacks/locks/pointer_scan.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/native/symbol_source.h"
#include "lib/stacks/python/frames.h"

namespace dlprobe {

/// The Python of one process, for one snapshot of it.
class PythonLook {
 public:
  /// All must outlive it.
  PythonLook(const ProcessMemory& memory, PythonCodeCache& codes)
      : memory_(&memory), codes_(&codes) {}

  /// Finds the interpreter and reads the frames of all its threads.
  void find(const AddressSpace& space, SymbolSource& symbols);

  /// Reads the frames again, if there is a Python. Of what stands still, or is stopped.
  void read() { read_unless({}); }

  /// Picks the threads whose frames read_moved() is to read: `moved`, and those that cannot be
  /// told. The others have stood still.
  void expect_moved(const ProcessSnapshot& snapshot, const AddressSpace& space,
                    const std::map<int32_t, uint64_t>& stack_pointers,
                    const std::set<int32_t>& moved);
  void read_moved() { read_unless(still_); }

  /// Reads the frames until two reads have found the same, a few times at most: of threads that run
  /// meanwhile. `memory` is what it reads from: forgotten before each read.
  void read_until_steady(ProcessMemory& memory);

  /// Tells which thread of the process is which of Python's, and fills in the Python of the
  /// process. `stack_pointers` by tid.
  void assign(ProcessSnapshot& snapshot, const AddressSpace& space,
              const std::map<int32_t, uint64_t>& stack_pointers);

  /// The interpreter; null if there is none that can be read.
  const PythonRuntime* runtime() const { return runtime_ ? &*runtime_ : nullptr; }

  /// After assign(): the thread whose pthread_self() that is; nothing if Python has none.
  std::optional<int32_t> tid_of_pthread(uint64_t pthread_id) const;

  /// After assign(): pthread_self() of a thread; nothing if it is none of Python's.
  std::optional<uint64_t> pthread_of(int32_t tid) const;

  /// After assign(): the threads of Python by tid, as far as it is known which they are.
  const std::map<int32_t, PythonThread>& threads() const { return by_tid_; }

  /// Puts the Python frames of the thread into its stack. After its native frames have names.
  void merge(ThreadSnapshot& thread) const;

  /// After assign(): of a thread that waits in an event loop of asyncio, where its tasks wait. Adds
  /// those that have failed to `failed`.
  void find_tasks(ThreadSnapshot& thread, const PointerScan& scan,
                  std::vector<FailedTasks>& failed) const;

  /// After LockLook: of a main thread that waits for another one to wake it, without end: the
  /// futures of concurrent.futures that have failed. CPython 3.8 to 3.13.
  void find_failed_futures(const ThreadSnapshot& thread, const PointerScan& scan,
                           std::vector<FailedTasks>& failed) const;

  /// After assign(): how far the main thread of a rank is in its data.
  void find_loading(ProcessSnapshot& snapshot) const;

  /// After assign(): the texts that the innermost functions of a thread have at hand; see
  /// PythonFrameTexts. CPython 3.8 to 3.13.
  std::set<std::string> texts_of(int32_t tid) const;

 private:
  void read_unless(std::span<const PythonThread> known);

  const ProcessMemory* memory_;
  PythonCodeCache* codes_;
  std::optional<PythonRuntime> runtime_;
  std::optional<PythonStacks> stacks_;
  std::optional<Error> error_;
  bool steady_ = true;
  std::vector<PythonThread> still_;
  std::map<int32_t, PythonThread> by_tid_;
  std::map<uint64_t, int32_t> tids_;  ///< by pthread_self()
};

}  // namespace dlprobe
