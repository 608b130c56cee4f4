#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/symbol_source.h"
#include "tests/support/fake_memory.h"

namespace dlprobe {

/// The memory of a process that runs a CPython with _Py_DebugOffsets, made up piece by piece. Where
/// its fields lie is not what any release has, but for `as_released`.
class PythonImage final : public SymbolSource {
 public:
  struct Kind {
    uint32_t version_hex = 0x030e00f0;
    bool free_threaded = false;
    bool as_released = false;   ///< 3.13 only: offsets of the release
    bool without_code = false;  ///< the group of the code objects is missing
  };

  static constexpr uint64_t kRuntime = 0x10000;
  static constexpr uint64_t kInterpreter = 0x20000;
  static constexpr uint64_t kThread = 0x40000;
  static constexpr uint64_t kSecondThread = 0x41000;
  static constexpr uint64_t kObjects =
      0x100000;  ///< those that the functions below make lie from here
  static constexpr uint64_t kPthreadId = 0x7f0000000700;
  static constexpr int32_t kNativeTid = 4242;

  explicit PythonImage(Kind kind);

  // SymbolSource: it has _PyRuntime and Py_Version.
  std::optional<uint64_t> symbol(const Mapping& mapping, std::string_view name) override;
  std::optional<AddressRange> section(const Mapping& mapping, std::string_view name) override;

  const Memory& memory() const { return memory_; }
  FakeMemory& memory() { return memory_; }
  AddressSpace space() const;

  /// Each returns the address of a new object.
  uint64_t text(std::string_view ascii);
  uint64_t bytes(const std::vector<uint8_t>& content);
  uint64_t object_of_type(const std::string& type);
  /// A function of two instructions on `first_line` and two on the next line.
  uint64_t code(std::string_view file, std::string_view function, int first_line);
  /// A frame at instruction `index` of `code`, which may carry tag bits.
  uint64_t frame(uint64_t code, uint64_t index, uint64_t previous, uint8_t owner = 0);
  uint64_t frame_at(uint64_t instruction, uint64_t code, uint64_t previous, uint8_t owner = 0);

  /// A coroutine that waits at instruction `index` of `code` for that object, and a task that runs
  /// it and waits.
  uint64_t coroutine(uint64_t code, uint64_t index, uint64_t awaited);
  uint64_t task(uint64_t coroutine);
  /// Gives a frame its first two locals.
  void set_locals(uint64_t frame, uint64_t first, uint64_t second);

  /// Where the bytecode of a code object begins.
  uint64_t instructions(uint64_t code) const;
  /// Gives the code another copy of its bytecode and lets the frame run it.
  void run_copy(uint64_t frame, uint64_t code, uint64_t copy);

  void set_innermost_frame(uint64_t frame, uint64_t thread = kThread);
  void set_previous(uint64_t frame, uint64_t previous);
  void add_second_thread();
  void set_next_thread(uint64_t thread, uint64_t next);
  void lock_gil(uint64_t holder);
  void set_modules(uint64_t object);
  void set_interpreter(uint64_t address);
  /// Writes the word of _Py_DebugOffsets with that number.
  void set_offset(size_t word, uint64_t value);

 private:
  /// Fields in bytes; of a release build with the GIL they are those of the headers.
  struct Fields {
    uint64_t interpreters_head, interpreter_next, threads_head, gc, modules, gil_pointer, gil;
    uint64_t thread_next, thread_interpreter, thread_frame, thread_id, native_thread_id;
    uint64_t frame_previous, frame_code, frame_position, frame_owner, frame_tlbc_index;
    uint64_t code_file, code_name, code_qualified_name, code_lines, code_first_line, code_bytecode,
        code_tlbc;
    uint64_t object_type, type_name, bytes_size, bytes_data;
    uint64_t text_state, text_length, ascii_size;
  };
  static Fields released();
  static Fields made_up(bool free_threaded);

  bool is_314() const { return kind_.version_hex >= 0x030e0000; }
  bool is_315() const { return kind_.version_hex >= 0x030f0000; }
  /// A version that nobody knows yet: with words that no known one has.
  bool is_later() const { return kind_.version_hex >= 0x03100000; }
  std::vector<uint64_t> debug_offsets() const;
  void add_objects(std::vector<uint64_t>& words) const;
  uint64_t allocate(uint64_t count);
  void fill_frame(uint64_t address, uint64_t instruction, uint64_t code);
  uint64_t head_bytes() const { return at_.object_type + 8; }
  void make_thread(uint64_t address);

  Kind kind_;
  Fields at_;
  FakeMemory memory_;
  uint64_t next_ = kObjects;
};

}  // namespace dlprobe
