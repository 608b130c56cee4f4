#include "lib/stacks/python/later_table.h"

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/stacks/python/layout.h"

namespace dlprobe {
namespace {

constexpr uint64_t kFieldBytes = 8;
constexpr uint64_t kHighestTid = 1 << 22;  // PID_MAX_LIMIT

using Words = std::span<const uint64_t>;

/// As many of the first words of _PyRuntime as later tables may have, or as can be read.
std::vector<uint64_t> read_words(const Memory& memory, uint64_t runtime) {
  constexpr size_t kMostOffsets = 256;  // 3.15 has 124
  std::vector<uint64_t> words;
  while (words.size() < kMostOffsets) {
    const auto word = memory.value<uint64_t>(runtime + words.size() * kFieldBytes);
    if (!word) break;
    words.push_back(*word);
  }
  return words;
}

/// Goes from group to group, and remembers the first that it did not find.
class GroupSearch {
 public:
  explicit GroupSearch(Words words) : words_(words) {}

  /// The next `count` words as they come.
  Words take(size_t count, std::string_view group) {
    return find(count, group, [](Words) { return true; });
  }

  /// The next `count` words for which `is_group` holds, some words from here at most.
  Words find(size_t count, std::string_view group, const std::predicate<Words> auto& is_group) {
    constexpr size_t kMostBetween = 24;
    for (size_t i = at_; i <= at_ + kMostBetween && i + count <= words_.size(); ++i) {
      const Words found = words_.subspan(i, count);
      if (!missing_.empty() || !is_group(found)) continue;
      at_ = i + count;
      return found;
    }
    if (missing_.empty()) missing_ = group;
    return kNothing;
  }

  const std::string& missing() const { return missing_; }

 private:
  static constexpr std::array<uint64_t, 16> kNothing{};
  Words words_;
  size_t at_ = 0;
  std::string missing_;
};

/// Some thread of some interpreter; 0 if there is none.
uint64_t first_thread(const Memory& memory, uint64_t runtime, const DebugOffsets315& table) {
  const auto interpreter = memory.value<uint64_t>(runtime + table.runtime_state.interpreters_head);
  if (!interpreter || *interpreter == 0) return 0;
  const auto& at = table.interpreter_state;
  return memory.value<uint64_t>(*interpreter + at.threads_head).value_or(0);
}

void find_interpreter(GroupSearch& search, DebugOffsets315& table) {
  const Words header = search.take(3, "header");
  table.header = {.cookie = {}, .version = header[1], .free_threaded = header[2]};
  const Words runtime = search.take(3, "runtime_state");
  table.runtime_state = {
      .size = runtime[0], .finalizing = runtime[1], .interpreters_head = runtime[2]};
  const Words interpreter = search.take(16, "interpreter_state");
  auto& into = table.interpreter_state;
  into = {.size = interpreter[0],
          .id = interpreter[1],
          .next = interpreter[2],
          .threads_head = interpreter[3],
          .threads_main = interpreter[4],
          .gc = interpreter[5],
          .imports_modules = interpreter[6],
          .sysdict = interpreter[7],
          .builtins = interpreter[8],
          .ceval_gil = interpreter[9],
          .gil_runtime_state = interpreter[10],
          .gil_runtime_state_enabled = interpreter[11],
          .gil_runtime_state_locked = interpreter[12],
          .gil_runtime_state_holder = interpreter[13],
          .code_object_generation = interpreter[14],
          .tlbc_generation = interpreter[15]};
}

void find_thread(GroupSearch& search, const Memory& memory, uint64_t thread,
                 DebugOffsets315& table) {
  const Words links = search.find(5, "thread_state", [](Words at) {
    return at[0] > at[4] && at[1] == 0 && at[2] == kFieldBytes && at[3] == 2 * kFieldBytes;
  });
  // pthread_self() is an address, the number of a thread is small.
  const Words ids = search.find(2, "thread_id", [&](Words at) {
    if (at[1] != at[0] + kFieldBytes || at[1] + kFieldBytes > links[0]) return false;
    const uint64_t pthread = memory.value<uint64_t>(thread + at[0]).value_or(0);
    const uint64_t native = memory.value<uint64_t>(thread + at[1]).value_or(0);
    return pthread > kHighestTid && native > 0 && native <= kHighestTid;
  });
  auto& into = table.thread_state;
  into.size = links[0];
  into.prev = links[1];
  into.next = links[2];
  into.interp = links[3];
  into.current_frame = links[4];
  into.thread_id = ids[0];
  into.native_thread_id = ids[1];
}

void find_frame_and_code(GroupSearch& search, DebugOffsets315& table) {
  constexpr uint64_t kMost = 1024;
  const Words frame = search.find(8, "interpreter_frame", [](Words at) {
    // The frame begins with the code and the older frame, and ends with its variables.
    return at[0] < kMost && at[1] == at[2] + kFieldBytes && at[3] < at[0] &&
           at[4] + kFieldBytes == at[0] && at[5] < at[0] && at[6] < at[0] && at[7] < at[0];
  });
  table.interpreter_frame = {.size = frame[0],
                             .previous = frame[1],
                             .executable = frame[2],
                             .instr_ptr = frame[3],
                             .localsplus = frame[4],
                             .owner = frame[5],
                             .stackpointer = frame[6],
                             .tlbc_index = frame[7]};
  const Words code = search.find(11, "code_object", [](Words at) {
    return at[0] < kMost && at[2] == at[1] + kFieldBytes && at[3] == at[2] + kFieldBytes &&
           at[4] == at[3] + kFieldBytes && at[5] < at[1] && at[9] > at[4] && at[9] < at[0] &&
           at[10] < at[0];
  });
  table.code_object = {.size = code[0],
                       .filename = code[1],
                       .name = code[2],
                       .qualname = code[3],
                       .linetable = code[4],
                       .firstlineno = code[5],
                       .argcount = code[6],
                       .localsplusnames = code[7],
                       .localspluskinds = code[8],
                       .co_code_adaptive = code[9],
                       .co_tlbc = code[10]};
}

void find_objects(GroupSearch& search, DebugOffsets315& table) {
  const Words object = search.find(2, "pyobject", [](Words at) {
    return at[0] >= 2 * kFieldBytes && at[0] <= 8 * kFieldBytes && at[1] + kFieldBytes == at[0];
  });
  const uint64_t head = object[0];
  table.pyobject = {.size = head, .ob_type = object[1]};
  const Words type = search.find(2, "type_object", [&](Words at) {
    return at[0] > 16 * kFieldBytes && at[1] == head + kFieldBytes;
  });
  table.type_object.size = type[0];
  table.type_object.tp_name = type[1];
  // The count, the hash, the bytes with their zero.
  const Words bytes = search.find(3, "bytes_object", [&](Words at) {
    return at[0] > at[2] && at[0] <= at[2] + kFieldBytes && at[1] == head &&
           at[2] == head + 2 * kFieldBytes;
  });
  table.bytes_object = {.size = bytes[0], .ob_size = bytes[1], .ob_sval = bytes[2]};
  // The length, the hash, the state.
  const Words text = search.find(4, "unicode_object", [&](Words at) {
    return at[0] > at[3] && at[1] == head + 2 * kFieldBytes && at[2] == head &&
           at[3] == head + 3 * kFieldBytes;
  });
  table.unicode_object.size = text[0];
  table.unicode_object.state = text[1];
  table.unicode_object.length = text[2];
  table.unicode_object.asciiobject_size = text[3];
  const Words gc =
      search.find(2, "gc", [](Words at) { return at[0] > at[1] && at[1] > 0 && at[1] % 4 == 0; });
  table.gc = {.size = gc[0], .collecting = gc[1]};
}

}  // namespace

Expected<DebugOffsets315> find_later_table(const Memory& memory, uint64_t runtime) {
  const std::vector<uint64_t> words = read_words(memory, runtime);
  GroupSearch search(words);
  DebugOffsets315 table{};
  find_interpreter(search, table);
  const uint64_t thread = first_thread(memory, runtime, table);
  if (thread == 0) return failure(ErrorCode::kInsufficient, "find a thread of Python");
  find_thread(search, memory, thread, table);
  find_frame_and_code(search, table);
  find_objects(search, table);
  if (search.missing().empty()) return table;
  return failure(ErrorCode::kUnsupported,
                 "read the frames of Python " +
                     to_string(python_version_from_hex(table.header.version)) +
                     ": its _Py_DebugOffsets have no group like " + search.missing());
}

}  // namespace dlprobe
