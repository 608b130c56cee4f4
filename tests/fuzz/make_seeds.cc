// Writes the seeds of the readers' fuzzers that are not copies of files: fuzz_seeds FOLDER.
#include <linux/futex.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/stacks/python/layout.h"
#include "lib/stacks/python/value_layout.h"
#include "tests/fuzz/read_one.h"
#include "tests/unit/stacks/python_image.h"

namespace dlprobe {
namespace {

template <class T>
std::string bytes_of(const T& value) {
  std::string text(sizeof value, '\0');
  std::memcpy(text.data(), &value, sizeof value);
  return text;
}

/// As fill_memory() takes it.
std::string bytes_of(const FakeMemory& memory) {
  std::map<uint64_t, std::string> pages;
  memory.for_each_page([&](uint64_t address, std::span<const std::byte> bytes) {
    const auto is_set = [](std::byte byte) { return byte != std::byte{}; };
    const auto first = std::ranges::find_if(bytes, is_set);
    auto last = bytes.end();
    while (last != first && !is_set(*(last - 1)))
      --last;
    const auto lead = static_cast<uint64_t>(first - bytes.begin());
    std::string text(static_cast<size_t>(last - first), '\0');
    if (!text.empty()) std::memcpy(text.data(), bytes.data() + lead, text.size());
    pages[address + (text.empty() ? 0 : lead)] = text;
  });
  std::string result;
  for (const auto& [address, text] : pages) {
    result += bytes_of(static_cast<uint32_t>(address)) + bytes_of(uint16_t{1}) +
              bytes_of(static_cast<uint16_t>(text.size())) + text;
  }
  return result;
}

/// A Python that says where its fields lie.
std::string described_python(PythonImage::Kind kind, bool has_symbols) {
  PythonImage image(kind);
  const uint64_t outer = image.code("a.py", "outer", 10);
  const uint64_t inner = image.code("a.py", "inner", 20);
  const uint64_t bottom = image.frame_at(0, image.object_of_type("NoneType"), 0, 3);
  const uint64_t outer_frame = image.frame(outer, 0, bottom);
  const uint64_t inner_frame = image.frame(inner, 2, outer_frame);
  if (kind.free_threaded) image.run_copy(inner_frame, inner, 0x120000);
  image.set_innermost_frame(inner_frame);
  image.add_second_thread();
  image.lock_gil(PythonImage::kSecondThread);
  return (has_symbols ? '\0' : '\1') + bytes_of(image.memory());
}

/// A Python of a version whose fields are in a table.
class TabledPython {
 public:
  TabledPython(int minor, PythonLayout layout, PythonValueLayout values)
      : layout_(layout),
        values_(values),
        has_old_values_(values.old_keys),
        has_tagged_ints_(minor >= 12) {
    memory_.map(fuzz::kRuntime, 0x1000);
    memory_.set(fuzz::kPyVersion, 0x03000000U | static_cast<uint32_t>(minor) << 16U | 0x5f0U);
    memory_.set(fuzz::kRuntime + layout.runtime.interpreters_head, kInterpreter);
    // The main interpreter stands behind the newest one: here it is the same.
    memory_.set(fuzz::kRuntime + layout.runtime.interpreters_head + 8, kInterpreter);
    memory_.map(kInterpreter, 0x4000);
    memory_.set(kInterpreter + layout.interpreter.threads_head, kThread);
    memory_.map(kThread, 0x200);
    memory_.set(kThread + layout.thread.interpreter, kInterpreter);
    memory_.set(kThread + layout.thread.thread_id, uint64_t{0x7f00});
    add_frames();
    memory_.set(kInterpreter + layout.interpreter.modules, modules());
  }
  const FakeMemory& memory() const { return memory_; }

 private:
  static constexpr uint64_t kInterpreter = 0x20000;
  static constexpr uint64_t kThread = 0x40000;

  uint64_t allocate(uint64_t count) {
    const uint64_t address = next_;
    memory_.map(address, count);
    next_ += (count + 15) / 16 * 16;
    return address;
  }
  // The bits of tp_flags that tell what it is.
  enum Flag : unsigned { kNone, kInt = 24, kList, kTuple, kStr = 28, kDict, kException, kType };

  uint64_t object(const std::string& type, Flag flag = kNone) {
    const uint64_t address = allocate(0x100);
    memory_.set(address + layout_.object.type, type_named(type, flag));
    return address;
  }
  // All have one class, whose own class it is itself.
  uint64_t type_named(const std::string& type, Flag flag) {
    uint64_t& address = types_[type];
    if (address != 0) return address;
    address = allocate(0x380);
    const uint64_t name = allocate(32);
    memory_.set_text(name, type);
    memory_.set(address + layout_.object.type,
                type == "type" ? address : type_named("type", kType));
    memory_.set(address + layout_.object.type_name, name);
    memory_.set(address + kFlags, uint64_t{1} << flag);
    return address;
  }
  // As names are: the same text is the same object.
  uint64_t text(const std::string& ascii) {
    uint64_t& address = texts_[ascii];
    if (address != 0) return address;
    address = object("str", kStr);
    memory_.set(address + layout_.unicode.length, uint64_t{ascii.size()});
    memory_.set(address + layout_.unicode.state, (1U | 1U << 3U | 1U << 4U)
                                                     << layout_.unicode.kind_bit);
    memory_.set_text(address + layout_.unicode.ascii_size, ascii);
    return address;
  }
  uint64_t sequence(const std::string& type, Flag flag, const std::vector<uint64_t>& items) {
    const uint64_t address = object(type, flag);
    const uint64_t place = flag == kTuple ? address + 24 : allocate(0x40);
    memory_.set(address + 16, uint64_t{items.size()});
    if (flag == kList) memory_.set(address + 24, place);
    for (size_t i = 0; i < items.size(); ++i)
      memory_.set(place + 8 * i, items[i]);
    return address;
  }
  uint64_t dict(const std::map<std::string, uint64_t>& items) {
    const uint64_t address = object("dict", kDict);
    const uint64_t keys = allocate(0x100);
    memory_.set(address + 16, uint64_t{items.size()});
    memory_.set(address + 32, keys);
    memory_.set(keys + 8, has_old_values_ ? uint64_t{8} : uint64_t{3} << 8U);
    memory_.set(keys + (has_old_values_ ? 32 : 24), uint64_t{items.size()});
    uint64_t entry = keys + (has_old_values_ ? 48 : 40);
    for (const auto& [key, value] : items) {
      memory_.set(entry, std::array<uint64_t, 3>{1, text(key), value});
      entry += 24;
    }
    return address;
  }
  // One of a class whose instances have a dict, behind their head.
  uint64_t instance(const std::string& type, const std::map<std::string, uint64_t>& attributes) {
    const uint64_t address = object(type);
    memory_.set(type_named(type, kNone) + 288, uint64_t{16});
    memory_.set(address + 16, dict(attributes));
    return address;
  }
  uint64_t module(const std::map<std::string, uint64_t>& names) {
    const uint64_t address = object("module");
    memory_.set(address + 16, dict(names));
    return address;
  }
  uint64_t counter() {
    const uint64_t address = object("itertools.count");
    memory_.set(address + 16, uint64_t{5});
    return address;
  }
  // An exception with a traceback of one frame, which an object has from 3.11 on.
  uint64_t raised() {
    uint64_t place = frame(code(), 0);
    if (!has_old_values_) {
      const uint64_t object_of_frame = object("frame");
      memory_.set(object_of_frame + 24, place);
      place = object_of_frame;
    }
    const uint64_t traceback = object("traceback");
    memory_.set(traceback + 24, place);
    memory_.set(traceback + 32, int32_t{2});
    const uint64_t error = object("ValueError", kException);
    memory_.set(error + (has_old_values_ ? 32 : 40), traceback);
    return error;
  }
  // A program with a list, a future that failed, and processes of multiprocessing.
  uint64_t modules() {
    const uint64_t error = raised();
    const uint64_t seen = sequence("list", kList, {text("a"), sequence("tuple", kTuple, {error})});
    const uint64_t ended = instance("Future", {{"_exception", error}});
    return dict({{"__main__", module({{"ended", ended}, {"seen", seen}})},
                 {"multiprocessing.process", module({{"_process_counter", counter()}})}});
  }
  // Two batches were taken from a loader.
  uint64_t loop() {
    const uint64_t two = object("int", kInt);
    memory_.set(two + 16, std::array<uint64_t, 2>{has_tagged_ints_ ? 8U : 1U, 2});
    const uint64_t address = object("enumerate");
    memory_.set(address + 24, instance("_MultiProcessingDataLoaderIter", {{"_num_yielded", two}}));
    return address;
  }
  uint64_t code() {
    const uint64_t address = object("code");
    const uint64_t names = sequence("tuple", kTuple, {text("loop")});
    memory_.set(address + values_.locals_names, names);
    memory_.set(address + values_.code_names, names);
    memory_.set(address + layout_.code.file, text("a.py"));
    memory_.set(address + layout_.code.name, text("work"));
    if (layout_.code.qualified_name) {
      memory_.set(address + *layout_.code.qualified_name, text("A.work"));
    }
    memory_.set(address + layout_.code.first_line, int32_t{7});
    memory_.set(address + layout_.code.stack_size, int32_t{1});
    if (layout_.code.locals_count) memory_.set(address + *layout_.code.locals_count, int32_t{1});
    const uint64_t lines = allocate(0x40);
    memory_.set(lines + layout_.object.bytes_size, uint64_t{6});
    memory_.set(lines + layout_.object.bytes_data, std::array<uint8_t, 6>{0xd1, 0, 0, 0xd9, 0, 0});
    memory_.set(address + layout_.code.line_table, lines);
    return address;
  }
  uint64_t frame(uint64_t code, uint64_t previous) {
    const uint64_t address = allocate(0x200);
    memory_.set(address + values_.frame_globals, dict({{"loop", text("data/a.bin")}}));
    memory_.set(address + values_.frame_locals, loop());
    memory_.set(address + layout_.frame.code, code);
    memory_.set(address + layout_.frame.previous, previous);
    if (layout_.code.instructions) {
      memory_.set(address + layout_.frame.position, code + *layout_.code.instructions + 2);
    } else {
      memory_.set(address + layout_.frame.position, int32_t{2});
    }
    return address;
  }
  void add_frames() {
    const uint64_t outer = frame(code(), 0);
    const uint64_t inner = frame(code(), outer);
    uint64_t place = kThread + layout_.thread.frame;
    if (layout_.thread.frame_in_cframe) {
      const uint64_t c_frame = allocate(0x40);
      memory_.set(place, c_frame);
      place = c_frame + *layout_.thread.frame_in_cframe;
    }
    memory_.set(place, inner);
  }

  static constexpr uint64_t kFlags = 168;  ///< tp_flags

  PythonLayout layout_;
  PythonValueLayout values_;
  bool has_old_values_;
  bool has_tagged_ints_;
  FakeMemory memory_;
  uint64_t next_ = fuzz::kObjects;
  std::map<std::string, uint64_t> types_;
  std::map<std::string, uint64_t> texts_;
};

/// An executable's .eh_frame_hdr and .eh_frame: one function, whose frame is found by `program`.
std::string unwind_process(const std::string& program, bool knows_registers) {
  constexpr uint64_t kFrames = 0x402000;
  constexpr uint64_t kEntry = kFrames + 24;
  const auto distance = [](uint64_t to, uint64_t from) { return static_cast<int32_t>(to - from); };
  FakeMemory memory;
  memory.set(fuzz::kUnwindTable, std::array<uint8_t, 4>{1, 0x1b, 0x03, 0x3b});
  memory.set(fuzz::kUnwindTable + 4, distance(kFrames, fuzz::kUnwindTable + 4));
  memory.set(fuzz::kUnwindTable + 8, uint32_t{1});
  memory.set(fuzz::kUnwindTable + 12, distance(fuzz::kCode, fuzz::kUnwindTable));
  memory.set(fuzz::kUnwindTable + 16, distance(kEntry, fuzz::kUnwindTable));
  // The common part: version 1, "zR", addresses relative, return address in register 16; the frame
  // is 8 above the stack pointer, the return address below it.
  memory.set(kFrames, std::array<uint32_t, 2>{20, 0});
  memory.set(kFrames + 8, std::array<uint8_t, 16>{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8,
                                                  0x90, 1, 0, 0});
  memory.set(kEntry, static_cast<uint32_t>(13 + program.size()));
  memory.set(kEntry + 4, distance(kEntry + 4, kFrames));
  memory.set(kEntry + 8, distance(fuzz::kCode, kEntry + 8));
  memory.set(kEntry + 12, uint32_t{0x1000});
  memory.set_text(kEntry + 16, '\0' + program);
  memory.map(kEntry + 16, 0x100);
  for (uint64_t i = 0; i < 16; ++i)
    memory.set(fuzz::kStack + 8 * i, fuzz::kCode + 0x20 + 16 * i);
  memory.set(fuzz::kStack + 8 * 16, uint64_t{0});
  return (knows_registers ? '\0' : '\1') + bytes_of(memory);
}

std::string locks_process() {
  FakeMemory memory;
  memory.map(fuzz::kRuntime, 0x1000);
  uint64_t at = 0x110000;
  for (const char* type : {"_thread.lock", "_thread.RLock", "_multiprocessing.SemLock"}) {
    memory.map(at, 0x100);
    memory.set_text(at, type);
    memory.set(at + 0x40 + 24, at);
    at += 0x100;
    memory.set(at, std::array<uint64_t, 6>{1, at - 0x100 + 0x40, fuzz::kSemaphore, 0x7f00, 1, 1});
    at += 0x100;
  }
  memory.set(fuzz::kRuntime + 0x100, at - 0x100);
  memory.map(fuzz::kRuntime + 0x1000, 0x1000);
  return bytes_of(memory);
}

/// The code of omp_get_max_threads() as GCC 12 made it, and a pool of four threads.
std::string openmp_process() {
  constexpr uint64_t kThread = fuzz::kThreadPointer - 0xE0;
  const std::array<uint8_t, 48> code = {
      0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 0xfd, 0x0f, 0x00, 0x00, 0x64, 0x48, 0x8b,
      0x50, 0x58, 0x48, 0x85, 0xd2, 0x48, 0x8d, 0x82, 0x98, 0x00, 0x00, 0x00, 0x48, 0x8d,
      0x15, 0xdf, 0x1f, 0x00, 0x00, 0x48, 0x0f, 0x44, 0xc2, 0x8b, 0x00, 0xc3, 0x0f, 0x1f};
  FakeMemory memory;
  memory.set(fuzz::kGetMaxThreads, code);
  memory.set(fuzz::kGetMaxThreads + 11 + 0xffd, kThread - fuzz::kThreadPointer);
  memory.set(fuzz::kGetMaxThreads + 33 + 0x1fdf, uint32_t{8});
  memory.map(kThread, 0x100);
  memory.set(kThread + 0x58, uint64_t{0x20000});
  memory.set(uint64_t{0x20000} + 0x98, uint32_t{3});
  memory.set(kThread + 0x58 + 16, uint64_t{0x30000});
  memory.set(uint64_t{0x30000}, uint64_t{0x40000});
  memory.set(uint64_t{0x30008}, std::array<uint32_t, 2>{5, 4});
  memory.set(uint64_t{0x40000}, kThread);
  return bytes_of(memory);
}

/// A group of NCCL with one collective pending, which its watchdog leads to.
std::string process_groups() {
  constexpr uint64_t kGroup = fuzz::kObjects + 0x100;
  constexpr uint64_t kStatus = fuzz::kObjects + 0x1010;
  constexpr uint64_t kWatchdog = fuzz::kObjects + 0x2000;
  FakeMemory memory;
  memory.map(fuzz::kObjects, 0x3000);
  memory.set(fuzz::kStack + 0x40, kWatchdog);
  memory.set(kWatchdog + 16, kGroup);
  memory.set(kGroup, fuzz::kCode + 16);
  memory.set(kGroup + 16, std::array<int32_t, 2>{1, 2});
  memory.set(kGroup + 32, std::array<uint64_t, 2>{kGroup + 48, 1});
  memory.set_text(kGroup + 48, "0");
  memory.set(kGroup + 1080, std::array<uint64_t, 2>{kStatus, kStatus - 16});
  memory.set(kStatus, std::array<int64_t, 3>{1, -1, -1});
  memory.set(kStatus + 24, std::array<uint64_t, 2>{kStatus + 40, 9});
  memory.set_text(kStatus + 40, "ALLREDUCE");
  memory.set(kStatus + 56, kStatus + 72);
  memory.set(kStatus + 88, kStatus + 104);
  memory.set(kStatus + 120, uint64_t{4096});
  return bytes_of(memory);
}

std::string futex_process(uint64_t operation, uint64_t expected, uint8_t functions,
                          const std::array<uint32_t, 6>& words) {
  FakeMemory memory;
  memory.set(fuzz::kSemaphore, words);
  memory.map(fuzz::kSemaphore - 64, 256);
  const std::array<uint64_t, 6> arguments = {fuzz::kSemaphore, operation, expected, 0, 0, 0};
  return bytes_of(arguments) + bytes_of(functions) + bytes_of(memory);
}

std::string unix_sockets() {
  struct {
    nlmsghdr head{};
    unix_diag_msg body{};
    rtattr peer_head{.rta_len = 8, .rta_type = UNIX_DIAG_PEER};
    uint32_t peer = 4712;
    rtattr clients_head{.rta_len = 12, .rta_type = UNIX_DIAG_ICONS};
    std::array<uint32_t, 2> clients = {4713, 4714};
  } socket;
  socket.head = {.nlmsg_len = sizeof socket, .nlmsg_type = SOCK_DIAG_BY_FAMILY};
  socket.body.udiag_ino = 4711;
  socket.body.udiag_state = TCP_LISTEN;
  struct {
    nlmsghdr head{};
    nlmsgerr body{};
  } refusal;
  refusal.head = {.nlmsg_len = sizeof refusal, .nlmsg_type = NLMSG_ERROR};
  refusal.body.error = -EPERM;
  return bytes_of(socket) + bytes_of(socket) + bytes_of(refusal);
}

std::map<std::string, std::string> seeds() {
  std::map<std::string, std::string> all = {
      {"python/3.14", described_python({}, true)},
      {"python/3.14-stripped", described_python({}, false)},
      {"python/3.14-free-threaded", described_python({.free_threaded = true}, true)},
      {"python/3.15", described_python({.version_hex = 0x030f00f0}, true)},
      {"python/later", described_python({.version_hex = 0x031000f0}, true)},
      {"python/3.13", described_python({.version_hex = 0x030d00f0, .as_released = true}, true)},
      {"unwind/frames", unwind_process({}, true)},
      // DW_CFA_def_cfa_expression: DW_OP_breg7 8.
      {"unwind/expression", unwind_process(std::string("\x0f\x02\x77\x08", 4), false)},
      // DW_OP_skip to itself: without end.
      {"unwind/odd/endless-expression", unwind_process("\x0f\x03\x2f\xfd\xff", true)},
      {"locks/objects", locks_process()},
      {"locks/openmp", openmp_process()},
      {"process_groups/nccl", process_groups()},
      {"futex/mutex", futex_process(FUTEX_WAIT, 2, 1, {2, 1, 4711, 1, 0, 0})},
      {"futex/semaphore",
       futex_process(FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, 4, {0, 1, 128, 0, 0, 0})},
      {"futex/rwlock", futex_process(FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 3, 3, {3, 0, 0, 0, 4711, 0})},
      {"unix_sockets/listening", unix_sockets()}};
  for (const int minor : {8, 10, 11, 12}) {
    const PythonVersion version{.major = 3, .minor = minor, .micro = 5};
    const auto layout = python_layout(version);
    const auto values = python_value_layout(version);
    if (!layout || !values) continue;
    all["python/3." + std::to_string(minor)] =
        '\0' + bytes_of(TabledPython(minor, *layout, *values).memory());
  }
  return all;
}

}  // namespace
}  // namespace dlprobe

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder(argv[1]);
  for (const auto& [name, bytes] : dlprobe::seeds()) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  return 0;
}
