#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/runtime.h"

namespace dlprobe {

/// One Python function that runs.
struct PythonFrame {
  std::string file;       ///< co_filename, as the target wrote it: hostile text, perhaps not UTF-8
  std::string function;   ///< co_qualname from 3.11 on, else co_name; hostile text
  int line = 0;           ///< 0: its instruction belongs to no line
  bool is_entry = false;  ///< a native call of _PyEval_EvalFrameDefault begins with it

  bool operator==(const PythonFrame&) const = default;
};

/// Where a frame lies, and its code object.
struct PythonFramePlace {
  uint64_t frame = 0;
  uint64_t code = 0;
};

/// One thread that has a PyThreadState.
struct PythonThread {
  uint64_t tstate = 0;  ///< the address of its PyThreadState
  uint64_t interpreter = 0;
  uint64_t pthread_id = 0;            ///< pthread_self()
  std::optional<int32_t> native_tid;  ///< 3.11 on; in the target's pid namespace, and that of the
                                      ///< parent after a fork() that Python did not make
  bool holds_gil = false;
  std::vector<PythonFrame> frames;         ///< the innermost first
  std::vector<AddressRange> value_stacks;  ///< where those of the frames lie, in the same order
  uint64_t event_loop = 0;                 ///< of asyncio, the innermost that it runs; 0: none
  uint64_t main_task = 0;                  ///< what that loop runs until it is done; 0: none
  std::vector<PythonFramePlace> places;    ///< likewise
  std::optional<Error> cut_off;            ///< why the frames after the last are missing
};

/// A lock that one thread of an interpreter holds while it runs Python code.
struct PythonGil {
  uint64_t address = 0;
  bool locked = false;
  std::optional<uint64_t> holder_tstate;  ///< while locked; perhaps of a thread that fork() left
  AddressRange cond;  ///< of the condition variable that those wait on who want it
};

/// The threads of the Python in one process.
struct PythonStacks {
  PythonVersion version;
  bool free_threaded = false;
  std::vector<PythonThread> threads;
  std::vector<PythonGil> gils;  ///< one, but for subinterpreters with their own; none if not in use
  bool gc_running = false;      ///< some interpreter collects garbage
  std::vector<std::string> notes;  ///< what could not be read beside the frames
};

/// What was read of code objects, for the next look at the same process, and for those that were
/// forked from it: there they lie at the same addresses. An entry holds for as long as the code
/// object there has the same parts at the same addresses.
class PythonCodeCache {
 public:
  struct Key {
    uint64_t address = 0;
    uint64_t file = 0;
    uint64_t name = 0;
    uint64_t line_table = 0;
    int32_t first_line = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Code {
    std::string file;
    std::string function;
    int32_t first_line = 0;
    int32_t stack_size = 0;
    int32_t locals_count = 0;
    std::vector<std::byte> line_table;
  };

  const Code* find(const Key& key) const;
  const Code& add(const Key& key, Code code);

 private:
  std::map<Key, Code> codes_;
};

/// Reads the frames of all threads. A process that runs meanwhile gives torn stacks: cut off, or of
/// frames that did not stand at the same moment. Threads of `known`, from an earlier read, are
/// taken to have stood still since: their frames are not read again.
Expected<PythonStacks> read_python_stacks(const Memory& memory, const PythonRuntime& runtime,
                                          PythonCodeCache& cache,
                                          std::span<const PythonThread> known = {});

}  // namespace dlprobe
