#include "tests/fuzz/read_one.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/foreign/flight_dump.h"
#include "lib/os/process_access.h"
#include "lib/os/socket_table.h"
#include "lib/stacks/locks/futex_wait.h"
#include "lib/stacks/locks/lock_users.h"
#include "lib/stacks/locks/openmp_pool.h"
#include "lib/stacks/locks/parking_lot.h"
#include "lib/stacks/locks/pointer_scan.h"
#include "lib/stacks/locks/python_locks.h"
#include "lib/stacks/native/elf_file.h"
#include "lib/stacks/native/process_group.h"
#include "lib/stacks/native/symbol_source.h"
#include "lib/stacks/native/unwinder.h"
#include "lib/stacks/python/containers.h"
#include "lib/stacks/python/frame_texts.h"
#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/futures.h"
#include "lib/stacks/python/line_table.h"
#include "lib/stacks/python/loading.h"
#include "lib/stacks/python/runtime.h"
#include "lib/stacks/python/tasks.h"
#include "lib/stacks/python/values.h"
#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

using Bytes = std::span<const std::byte>;

/// The next value of `bytes`, zero where they end.
template <class T>
T take(Bytes& bytes) {
  T value{};
  const size_t count = std::min(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), count);
  bytes = bytes.subspan(count);
  return value;
}

/// A file in memory that holds `bytes`.
UniqueFd file_of(Bytes bytes) {
  UniqueFd file(::memfd_create("fuzz", MFD_CLOEXEC));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  return file;
}

size_t ask(const ElfFile& elf) {
  const Mapping mapping{.begin = 0x7f0000000000, .end = 0x7f0000010000, .executable = true};
  const auto bias = elf.bias(mapping);
  const auto section = elf.section(".PyRuntime");
  const uint64_t address = elf.symbol("_PyRuntime").value_or(0x1000);
  [[maybe_unused]] const auto id = elf.build_id();
  [[maybe_unused]] const auto linking = elf.linking();
  const std::array addresses = {address, uint64_t{0x259}, uint64_t{0x1010}, bias.value_or(0),
                                section.value_or(AddressRange{}).begin};
  const auto names = elf.functions(addresses);
  return static_cast<size_t>(
      std::ranges::count_if(names, [](const ElfSymbol& symbol) { return !symbol.name.empty(); }));
}

/// As a file, which is how those of a process are read, and as an image, as the vdso is.
size_t read_elf(Bytes bytes) {
  if (const auto elf = ElfFile::open(file_of(bytes), "file")) ask(**elf);
  const auto image = ElfFile::from_image({bytes.begin(), bytes.end()}, "image");
  return image ? ask(**image) : 0;
}

/// A file of one executable segment, whose bytes do not matter: the unwinder reads the process's
/// memory.
UniqueFd program_with_unwind_table() {
  struct {
    Elf64_Ehdr head{};
    std::array<Elf64_Phdr, 2> segments{};
  } file;
  constexpr uint64_t kBytes = 0x10000;
  std::memcpy(file.head.e_ident, ELFMAG, SELFMAG);
  file.head.e_ident[EI_CLASS] = ELFCLASS64;
  file.head.e_ident[EI_DATA] = ELFDATA2LSB;
  file.head.e_ident[EI_VERSION] = EV_CURRENT;
  file.head.e_type = ET_DYN;
#if defined(__aarch64__)
  file.head.e_machine = EM_AARCH64;
#else
  file.head.e_machine = EM_X86_64;
#endif
  file.head.e_version = EV_CURRENT;
  file.head.e_phoff = sizeof file.head;
  file.head.e_ehsize = sizeof file.head;
  file.head.e_phentsize = sizeof(Elf64_Phdr);
  file.head.e_phnum = 2;
  file.segments[0] = {
      .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = kBytes, .p_memsz = kBytes};
  file.segments[1] = {
      .p_type = PT_GNU_EH_FRAME, .p_vaddr = fuzz::kUnwindTable - fuzz::kCode, .p_memsz = 0x1000};
  return file_of(std::as_bytes(std::span(&file, 1)));
}

/// The /proc directory of a process that has mapped that program.
class UnwindProcess final : public FakeFiles {
 public:
  Expected<UniqueFd> open_file(std::string_view name) const override {
    if (name.starts_with("map_files/")) return program_with_unwind_table();
    return failure(ErrorCode::kNotFound, "");
  }
};

/// One byte: whether all registers are known.
size_t unwind(Bytes bytes) {
  static const UnwindProcess process;
  static ModuleCache modules;
  constexpr size_t kRegisters = 17;
  const bool knows_all = take<uint8_t>(bytes) % 2 == 0;
  FakeMemory memory;
  fill_memory(memory, bytes);
  const AddressSpace space(
      {{.begin = fuzz::kCode,
        .end = fuzz::kCode + 0x10000,
        .readable = true,
        .executable = true,
        .inode = 1,
        .path = "/program"},
       {.begin = fuzz::kStack, .end = fuzz::kStack + 0x10000, .readable = true, .writable = true}});
  Registers registers{.program_counter = fuzz::kCode + 0x10, .stack_pointer = fuzz::kStack};
  if (knows_all) registers.others.assign(kRegisters, fuzz::kStack + 0x40);
  Unwinder unwinder(memory, space, process, modules);
  return unwinder.unwind(registers).program_counters.size() - 1;
}

/// The symbols of a program; without any of them the runtime is searched for.
class Symbols final : public SymbolSource {
 public:
  explicit Symbols(bool present) : present_(present) {}
  std::optional<uint64_t> symbol(const Mapping& /*mapping*/, std::string_view name) override {
    if (present_ && name == "_PyRuntime") return fuzz::kRuntime;
    if (present_ && name == "Py_Version") return fuzz::kPyVersion;
    return std::nullopt;
  }
  std::optional<AddressRange> section(const Mapping& /*mapping*/,
                                      std::string_view /*name*/) override {
    return std::nullopt;
  }

 private:
  bool present_;
};

AddressSpace python_space() {
  return AddressSpace(
      {{.begin = fuzz::kRuntime,
        .end = fuzz::kProgramEnd,
        .readable = true,
        .writable = true,
        .device = 1,
        .inode = 1,
        .path = "/usr/bin/python3.11"},
       {.begin = fuzz::kObjects, .end = fuzz::kObjectsEnd, .readable = true, .writable = true}});
}

/// Of any bytes as a line table, in each format.
void read_lines(Bytes bytes) {
  constexpr std::array kFormats = {PythonLineTable::kDeltas, PythonLineTable::kRanges,
                                   PythonLineTable::kLocations};
  for (const PythonLineTable format : kFormats) {
    for (const int64_t position : {0, 7, 1000}) [[maybe_unused]]
      const auto line = python_line_at(format, bytes, 1, position);
  }
}

/// What the names of the program and of its frames lead to.
void ask_values(const Memory& memory, const PythonRuntime& runtime, PythonCodeCache& cache,
                const std::vector<PythonThread>& threads) {
  const auto layout = python_value_layout(runtime.version);
  if (!layout) return;
  PythonContainers containers(memory, runtime, *layout);
  for (const PythonContainer& container : containers.list(threads)) {
    [[maybe_unused]] const auto name = containers.name_of(container);
    [[maybe_unused]] const auto type = containers.type_of(container);
    [[maybe_unused]] const auto user = containers.user_of(container);
    [[maybe_unused]] const auto size = containers.newest_item_bytes(container);
  }
  PythonFrameTexts texts(memory, runtime, *layout);
  for (const PythonThread& thread : threads) {
    [[maybe_unused]] const auto loading = read_python_loading(memory, runtime, *layout, thread);
    for (const PythonFramePlace& place : thread.places)
      texts.add(place);
  }
  const uint64_t object = PythonValues(memory, runtime, *layout).global("__main__", "ended");
  [[maybe_unused]] const auto failed = read_failed_task(memory, runtime, cache, object);
  [[maybe_unused]] const auto how = PythonFutures(memory, runtime, *layout, cache).read(object);
}

/// One byte: whether the program has symbols.
size_t read_python(Bytes bytes) {
  read_lines(bytes);
  Symbols symbols(take<uint8_t>(bytes) % 2 == 0);
  FakeMemory memory;
  fill_memory(memory, bytes);
  const auto runtime = find_python(memory, python_space(), symbols);
  if (!runtime || !*runtime) return 0;
  PythonCodeCache cache;
  const auto stacks = read_python_stacks(memory, **runtime, cache);
  if (!stacks) return 0;
  [[maybe_unused]] const auto again = read_python_stacks(memory, **runtime, cache, stacks->threads);
  ask_values(memory, **runtime, cache, stacks->threads);
  if (stacks->threads.empty()) return 0;
  const PythonThread& thread = stacks->threads.front();
  [[maybe_unused]] const auto task = read_waiting_task(memory, **runtime, cache, thread.main_task);
  return thread.frames.size();
}

/// process_vm_readv of a made-up memory.
class FakeAccess final : public ProcessAccess {
 public:
  explicit FakeAccess(const Memory& memory) : memory_(memory) {}
  Status read_memory(pid_t /*pid*/, uint64_t address, std::span<std::byte> bytes) const override {
    return memory_.read(address, bytes);
  }

 private:
  const Memory& memory_;
};

/// Python's locks, and the pool of an OpenMP.
size_t read_locks(Bytes bytes) {
  FakeMemory memory;
  fill_memory(memory, bytes);
  const AddressSpace space = python_space();
  const FakeAccess access(memory);
  PythonLockPlaces places;
  const PythonLayout::Object layout;
  find_place_on_stack(memory, space, layout, {fuzz::kSemaphore, fuzz::kRuntime + 8}, places);
  const auto parked =
      read_parked_wait(memory, space, layout, fuzz::kRuntime + 64, fuzz::kRuntime + 8);
  const std::array semaphores = {fuzz::kSemaphore, fuzz::kSemaphore + 32};
  const PointerScan scan(access, 1, space);
  for (int i = 0; i < 2; ++i) [[maybe_unused]]
    const auto locks = find_python_locks(scan, memory, layout, semaphores, places);
  const std::map<int32_t, PythonThread> threads = {
      {1,
       {.tstate = fuzz::kRuntime,
        .pthread_id = fuzz::kThreadPointer,
        .frames = {{}},
        .value_stacks = {{.begin = fuzz::kRuntime, .end = fuzz::kRuntime + 512}}}}};
  const LockUsers users(memory, layout, threads, {fuzz::kSemaphore});
  const bool is_used = users.holder_of(fuzz::kSemaphore, {}) ||
                       users.joined_by_lock(fuzz::kSemaphore) ||
                       users.joined_by_event(fuzz::kRuntime + 128);
  const auto pool = read_openmp_pool(memory, fuzz::kGetMaxThreads, fuzz::kThreadPointer);
  return places.size() + (pool ? 1 : 0) + (parked ? 1 : 0) + (is_used ? 1 : 0);
}

/// Six words: the call's arguments; a byte: which functions the thread is in.
size_t read_futex(Bytes bytes) {
  constexpr std::array<std::pair<const char*, const char*>, 8> kFunctions = {
      {{"__lll_lock_wait", "/lib/libc.so.6"},
       {"pthread_mutex_lock", "/lib/libc.so.6"},
       {"pthread_cond_wait", "/lib/libc.so.6"},
       {"__pthread_rwlock_wrlock", "/lib/libc.so.6"},
       {"sem_wait", "/lib/libc.so.6"},
       {"", "/lib/libgomp.so.1"},
       {"syscall", "/lib/libc.so.6"},
       {"___", "/lib/libc.so.6"}}};
  SyscallFile call{.number = SYS_futex};
  for (uint64_t& argument : call.args)
    argument = take<uint64_t>(bytes);
  const auto choice = take<uint8_t>(bytes);
  FakeMemory memory;
  fill_memory(memory, bytes);
  auto wait = decode_futex_wait(call, memory, python_space());
  if (!wait) return 0;
  std::vector<StackFrame> stack;
  for (const unsigned index : {choice % 8U, choice / 8U % 8U}) {
    const auto& [function, file] = kFunctions.at(index);
    stack.push_back({.function = function, .file = file});
  }
  refine_by_stack(*wait, stack, memory);
  return wait->kind == LockKind::kUnknown ? 0 : 1;
}

size_t read_unix_sockets(Bytes bytes) {
  std::vector<UnixSocket> sockets;
  [[maybe_unused]] const auto is_last = parse_unix_sockets(bytes, sockets);
  return sockets.size();
}

size_t read_flight_dump(Bytes bytes) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes of a file
  const auto dump = parse_flight_dump({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return dump ? dump->collectives.size() : 0;
}

/// The vtables of libtorch_cuda.so.
class GroupSymbols final : public SymbolSource {
 public:
  std::optional<uint64_t> symbol(const Mapping& /*mapping*/, std::string_view name) override {
    return name.contains("NCCL") ? fuzz::kCode : fuzz::kCode + 0x100;
  }
  std::optional<AddressRange> section(const Mapping& /*mapping*/,
                                      std::string_view /*name*/) override {
    return std::nullopt;
  }
};

size_t read_process_groups(Bytes bytes) {
  FakeMemory memory;
  fill_memory(memory, bytes);
  const AddressSpace space(
      {{.begin = fuzz::kObjects, .end = fuzz::kObjectsEnd, .readable = true, .writable = true},
       {.begin = fuzz::kCode,
        .end = fuzz::kCode + 0x10000,
        .readable = true,
        .inode = 1,
        .path = "/usr/lib/libtorch_cuda.so"},
       {.begin = fuzz::kStack, .end = fuzz::kStack + 0x10000, .readable = true, .writable = true}});
  GroupSymbols symbols;
  const auto groups = find_process_groups(memory, space, symbols, {fuzz::kStack});
  [[maybe_unused]] const auto rank = rank_of_default_group(groups, space);
  return progress_of(memory, groups).size();
}

constexpr std::array<std::pair<std::string_view, size_t (*)(Bytes)>, 8> kReaders = {{
    {"elf", read_elf},
    {"flight_dump", read_flight_dump},
    {"futex", read_futex},
    {"locks", read_locks},
    {"process_groups", read_process_groups},
    {"python", read_python},
    {"unix_sockets", read_unix_sockets},
    {"unwind", unwind},
}};

}  // namespace

void fill_memory(FakeMemory& memory, std::span<const std::byte> bytes) {
  constexpr uint64_t kPageBytes = 4096;
  constexpr size_t kHeadBytes = 8;
  uint64_t pages_left = 64;
  while (bytes.size() >= kHeadBytes) {
    const uint64_t address = take<uint32_t>(bytes);
    const uint64_t pages = std::min<uint64_t>(take<uint16_t>(bytes), pages_left);
    const size_t told = take<uint16_t>(bytes);
    const size_t count = std::min(told, bytes.size());
    pages_left -= pages;
    memory.map(address / kPageBytes * kPageBytes, pages * kPageBytes);
    memory.write(address, bytes.first(count));
    bytes = bytes.subspan(count);
  }
}

std::optional<size_t> read_one(std::string_view reader, std::span<const std::byte> bytes) {
  for (const auto& [name, read] : kReaders) {
    if (name == reader) return read(bytes);
  }
  return std::nullopt;
}

}  // namespace dlprobe
