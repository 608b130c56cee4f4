#include "tests/unit/stacks/python_image.h"

namespace dlprobe {
namespace {

constexpr uint64_t kPyVersion = 0x18000;
constexpr uint64_t kStructureBytes = 0x4000;  // more than any field needs
constexpr uint64_t kObjectBytes = 0x200;
constexpr uint64_t kInstructionBytes = 2;
constexpr uint64_t kLocals = 80;

}  // namespace

PythonImage::Fields PythonImage::released() {
  return {.interpreters_head = 632,
          .interpreter_next = 7264,
          .threads_head = 7344,
          .gc = 7600 - 200,
          .modules = 7656,
          .gil_pointer = 16,
          .gil = 7752,
          .thread_next = 8,
          .thread_interpreter = 16,
          .thread_frame = 72,
          .thread_id = 152,
          .native_thread_id = 160,
          .frame_previous = 8,
          .frame_code = 0,
          .frame_position = 56,
          .frame_owner = 70,
          .frame_tlbc_index = 0,
          .code_file = 112,
          .code_name = 120,
          .code_qualified_name = 128,
          .code_lines = 136,
          .code_first_line = 68,
          .code_bytecode = 200,
          .code_tlbc = 0,
          .object_type = 8,
          .type_name = 24,
          .bytes_size = 16,
          .bytes_data = 32,
          .text_state = 32,
          .text_length = 16,
          .ascii_size = 40};
}

PythonImage::Fields PythonImage::made_up(bool free_threaded) {
  Fields fields = released();
  fields.interpreters_head = 2408;
  fields.interpreter_next = 7000;
  fields.threads_head = 7008;
  fields.modules = 7016;
  fields.gc = 7024;
  fields.thread_frame = 80;
  fields.thread_id = 176;
  fields.native_thread_id = 184;
  fields.frame_owner = 74;
  fields.code_bytecode = 224;
  if (free_threaded) {
    fields.frame_tlbc_index = 68;
    fields.code_tlbc = 208;
    fields.object_type = 24;
    fields.type_name = 40;
    fields.bytes_size = 32;
    fields.bytes_data = 48;
    fields.text_length = 32;
    fields.text_state = 48;
    fields.ascii_size = 56;
  }
  return fields;
}

PythonImage::PythonImage(Kind kind)
    : kind_(kind), at_(kind.as_released ? released() : made_up(kind.free_threaded)) {
  memory_.map(kRuntime, kStructureBytes);
  memory_.map(kInterpreter, 2 * kStructureBytes);
  memory_.set(kPyVersion, kind.version_hex);
  memory_.set_text(kRuntime, "xdebugpy");
  uint64_t address = kRuntime + 8;
  for (const uint64_t word : debug_offsets()) {
    memory_.set(address, word);
    address += 8;
  }
  memory_.set(kRuntime + at_.interpreters_head, kInterpreter);
  memory_.set(kInterpreter + at_.threads_head, kThread);
  memory_.set(kInterpreter + at_.modules, object_of_type("dict"));
  memory_.set(kInterpreter + at_.gil_pointer, kInterpreter + at_.gil);
  make_thread(kThread);
}

std::vector<uint64_t> PythonImage::debug_offsets() const {
  std::vector<uint64_t> words;
  const auto add = [&words](std::initializer_list<uint64_t> group) {
    words.insert(words.end(), group);
  };
  const uint64_t holder = at_.gil + (kind_.free_threaded ? 16 : 8);
  const uint64_t size = kStructureBytes;
  add({kind_.version_hex, kind_.free_threaded ? 1U : 0U});
  add({size, 608, at_.interpreters_head});                    // runtime_state
  add({size, 7272, at_.interpreter_next, at_.threads_head});  // interpreter_state
  if (is_314()) add({7360});                                  // threads_main
  add({at_.gc, at_.modules, 7700, 7708, at_.gil_pointer, at_.gil, 0, holder + 8, holder});
  if (is_314()) add({7900, 7908});  // code_object_generation, tlbc_generation
  if (is_later()) add({8000, 8008});
  add({400, 0, at_.thread_next, at_.thread_interpreter, at_.thread_frame});  // thread_state
  if (is_315()) add({88, 96, 104});  // base_frame, last_profiled_frame, last_profiled_frame_seq
  if (is_later()) add({112});
  add({at_.thread_id, at_.native_thread_id, 200, 40});
  if (is_315()) add({44, 48, 120, 128, 8});  // holds_gil ... exc_state, err_stackitem
  if (is_later()) add({64, 0, 8, 16});       // a group that is new
  add({88, at_.frame_previous, at_.frame_code, at_.frame_position, kLocals, at_.frame_owner});
  if (is_314()) add({64, at_.frame_tlbc_index});
  if (!kind_.without_code) {
    add({240, at_.code_file, at_.code_name, at_.code_qualified_name, at_.code_lines,
         at_.code_first_line, 52, 96, 104, at_.code_bytecode});  // code_object
    if (is_314()) add({at_.code_tlbc});
  }
  add_objects(words);
  return words;
}

void PythonImage::add_objects(std::vector<uint64_t>& words) const {
  const auto add = [&words](std::initializer_list<uint64_t> group) {
    words.insert(words.end(), group);
  };
  add({at_.object_type + 8, at_.object_type});  // pyobject
  add({400, at_.type_name, 88, 168});           // type_object
  if (is_315()) add({32, 288, 880, 872});       // tp_basicsize, tp_dictoffset, heap_type_object
  add({32, 24, 16, 40, 24, 16});                // tuple_object, list_object
  if (is_314()) add({200, 24, 40, 32});         // set_object
  add({48, 32, 40, 24, 16, 32, 16, 24});        // dict_object, float_object, long_object
  add({at_.bytes_data + 8, at_.bytes_size, at_.bytes_data});                    // bytes_object
  add({at_.ascii_size + 24, at_.text_state, at_.text_length, at_.ascii_size});  // unicode_object
  if (is_315()) add({at_.ascii_size + 16});
  if (is_later()) add({0});
  add({240, 200});  // gc
}

std::optional<uint64_t> PythonImage::symbol(const Mapping& /*mapping*/, std::string_view name) {
  if (name == "_PyRuntime") return kRuntime;
  if (name == "Py_Version") return kPyVersion;
  return std::nullopt;
}

std::optional<AddressRange> PythonImage::section(const Mapping& /*mapping*/,
                                                 std::string_view /*name*/) {
  return std::nullopt;
}

AddressSpace PythonImage::space() const {
  return AddressSpace({{.begin = kRuntime,
                        .end = kRuntime + 0x1000000,
                        .readable = true,
                        .writable = true,
                        .device = 1,
                        .inode = 1,
                        .path = "/opt/bin/program"}});
}

uint64_t PythonImage::allocate(uint64_t count) {
  const uint64_t address = next_;
  memory_.map(address, count);
  next_ += (count + 15) / 16 * 16;
  return address;
}

void PythonImage::make_thread(uint64_t address) {
  memory_.map(address, 400);
  memory_.set(address + at_.thread_interpreter, kInterpreter);
  memory_.set(address + at_.thread_id, kPthreadId);
  memory_.set(address + at_.native_thread_id, uint64_t{kNativeTid});
}

uint64_t PythonImage::text(std::string_view ascii) {
  const uint64_t address = allocate(kObjectBytes);
  const uint32_t kind_compact_ascii = 1U | 1U << 3U | 1U << 4U;
  const uint32_t kind_bit = kind_.free_threaded ? 8 : 2;
  memory_.set(address + at_.text_length, uint64_t{ascii.size()});
  memory_.set(address + at_.text_state, uint32_t{3} | kind_compact_ascii << kind_bit);
  memory_.set_text(address + at_.ascii_size, std::string(ascii));
  return address;
}

uint64_t PythonImage::bytes(const std::vector<uint8_t>& content) {
  const uint64_t address = allocate(kObjectBytes);
  memory_.set(address + at_.bytes_size, uint64_t{content.size()});
  memory_.set_text(address + at_.bytes_data, std::string(content.begin(), content.end()));
  return address;
}

uint64_t PythonImage::object_of_type(const std::string& type) {
  const uint64_t name_at = allocate(type.size() + 1);
  memory_.set_text(name_at, type);
  const uint64_t type_at = allocate(kObjectBytes);
  memory_.set(type_at + at_.type_name, name_at);
  const uint64_t address = allocate(kObjectBytes);
  memory_.set(address + at_.object_type, type_at);
  return address;
}

uint64_t PythonImage::code(std::string_view file, std::string_view function, int first_line) {
  const uint64_t address = object_of_type("code");
  memory_.set(address + at_.code_file, text(file));
  memory_.set(address + at_.code_name, text("only the last part"));
  memory_.set(address + at_.code_qualified_name, text(function));
  memory_.set(address + at_.code_first_line, first_line);
  memory_.set(address + at_.code_lines,
              bytes({0x80 | (10 << 3) | 1, 0, 0, 0x80 | (11 << 3) | 1, 0, 0}));
  return address;
}

uint64_t PythonImage::instructions(uint64_t code) const {
  return code + at_.code_bytecode;
}

uint64_t PythonImage::frame_at(uint64_t instruction, uint64_t code, uint64_t previous,
                               uint8_t owner) {
  const uint64_t address = allocate(kLocals + 16);
  fill_frame(address, instruction, code);
  memory_.set(address + at_.frame_previous, previous);
  memory_.set(address + at_.frame_owner, owner);
  return address;
}

uint64_t PythonImage::frame(uint64_t code, uint64_t index, uint64_t previous, uint8_t owner) {
  return frame_at(instructions(code & ~uint64_t{3}) + index * kInstructionBytes, code, previous,
                  owner);
}

void PythonImage::fill_frame(uint64_t address, uint64_t instruction, uint64_t code) {
  memory_.set(address + at_.frame_code, code);
  memory_.set(address + at_.frame_position, instruction);
}

uint64_t PythonImage::coroutine(uint64_t code, uint64_t index, uint64_t awaited) {
  const uint64_t address = object_of_type("coroutine");
  const uint64_t frame = address + head_bytes() + 56;
  memory_.set(frame - 5, int8_t{-1});
  fill_frame(frame, instructions(code) + index * kInstructionBytes, code);
  memory_.set(frame + kLocals, awaited);
  if (is_314()) {
    memory_.set(frame + at_.frame_position + 8, frame + kLocals + 8);  // stackpointer
  } else {
    memory_.set(frame + kLocals - 8, int32_t{1});  // stacktop
  }
  return address;
}

uint64_t PythonImage::task(uint64_t coroutine) {
  constexpr uint64_t kWaiter = 120;  // task_fut_waiter
  const uint64_t address = object_of_type("_asyncio.Task");
  memory_.set(address + head_bytes() + kWaiter, object_of_type("_asyncio.Future"));
  memory_.set(address + head_bytes() + kWaiter + 8, coroutine);
  return address;
}

void PythonImage::set_locals(uint64_t frame, uint64_t first, uint64_t second) {
  memory_.set(frame + kLocals, first);
  memory_.set(frame + kLocals + 8, second);
}

void PythonImage::run_copy(uint64_t frame, uint64_t code, uint64_t copy) {
  const uint64_t table = allocate(24);
  memory_.set(table, uint64_t{2});
  memory_.set(table + 8, instructions(code));
  memory_.set(table + 16, copy);
  memory_.set(code + at_.code_tlbc, table);
  memory_.set(frame + at_.frame_tlbc_index, int32_t{1});
}

void PythonImage::set_innermost_frame(uint64_t frame, uint64_t thread) {
  memory_.set(thread + at_.thread_frame, frame);
}

void PythonImage::set_previous(uint64_t frame, uint64_t previous) {
  memory_.set(frame + at_.frame_previous, previous);
}

void PythonImage::add_second_thread() {
  make_thread(kSecondThread);
  set_next_thread(kThread, kSecondThread);
}

void PythonImage::set_next_thread(uint64_t thread, uint64_t next) {
  memory_.set(thread + at_.thread_next, next);
}

void PythonImage::lock_gil(uint64_t holder) {
  const uint64_t enabled = kind_.free_threaded ? 8 : 0;
  memory_.set(kInterpreter + at_.gil + enabled + 8, holder);
  memory_.set(kInterpreter + at_.gil + enabled + 16, int32_t{1});
}

void PythonImage::set_modules(uint64_t object) {
  memory_.set(kInterpreter + at_.modules, object);
}

void PythonImage::set_interpreter(uint64_t address) {
  memory_.set(kRuntime + at_.interpreters_head, address);
}

void PythonImage::set_offset(size_t word, uint64_t value) {
  memory_.set(kRuntime + 8 * word, value);
}

}  // namespace dlprobe
