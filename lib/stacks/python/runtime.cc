#include "lib/stacks/python/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/stacks/python/debug_offsets.h"
#include "lib/stacks/python/objects.h"

namespace dlprobe {
namespace {

constexpr size_t kInterpreterLimit = 1000;
constexpr uint64_t kDataLimit = uint64_t{64} << 20;  ///< of writable data of one program, to search

std::string_view file_name(const Mapping& mapping) {
  return base_name(mapping.path);
}

bool is_of_file(const Mapping& mapping) {
  return mapping.inode != 0 && !mapping.shared;
}

/// The first mapping of each file that may hold Python: libpython3.N.so, then the programs named
/// python, then the lowest file of the address space, which is the program itself.
std::vector<const Mapping*> candidate_files(const AddressSpace& space) {
  std::vector<const Mapping*> files;
  const auto add_if = [&](const std::function<bool(const Mapping&)>& wanted) {
    for (const Mapping& mapping : space.mappings()) {
      const auto is_same = [&](const Mapping* file) {
        return file->inode == mapping.inode && file->device == mapping.device;
      };
      if (is_of_file(mapping) && wanted(mapping) && std::ranges::none_of(files, is_same)) {
        files.push_back(&mapping);
      }
    }
  };
  add_if([](const Mapping& mapping) { return file_name(mapping).starts_with("libpython"); });
  add_if([](const Mapping& mapping) { return file_name(mapping).starts_with("python"); });
  const auto program = std::ranges::find_if(space.mappings(), is_of_file);
  if (program != space.mappings().end()) {
    add_if([&](const Mapping& mapping) { return &mapping == &*program; });
  }
  return files;
}

/// The version that a file name speaks of: libpython3.11.so.1.0, python3.8.
std::optional<PythonVersion> version_in_name(std::string_view name) {
  constexpr std::string_view kPython = "python3.";
  const size_t at = name.find(kPython);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + kPython.size());
  const auto minor = parse_int<int>(rest.substr(0, rest.find_first_not_of("0123456789")));
  if (!minor) return std::nullopt;
  return PythonVersion{.major = 3, .minor = *minor};
}

/// "3.8.18 (default, ...": what Py_GetVersion() made (Python/getversion.c) and left in .bss.
std::optional<PythonVersion> version_in_text(std::string_view text) {
  const auto number = [&text](char after) -> std::optional<int> {
    const size_t end = text.find_first_not_of("0123456789");
    if (end > 3 || text[end] != after) return std::nullopt;  // npos, too
    const auto value = parse_int<int>(text.substr(0, end));
    text.remove_prefix(end + 1);
    return value;
  };
  const auto major = number('.');
  const auto minor = major == 3 ? number('.') : std::nullopt;
  const auto micro = minor ? number(' ') : std::nullopt;
  if (!micro || !text.starts_with('(')) return std::nullopt;
  return PythonVersion{.major = 3, .minor = *minor, .micro = *micro};
}

/// The writable data of one file: what is in the file, and .bss behind it.
struct DataRange {
  uint64_t begin = 0;
  std::vector<std::byte> bytes;  ///< zero where it could not be read

  uint64_t word(size_t offset) const {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  std::string_view text(size_t offset, size_t length) const {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as text
    return {reinterpret_cast<const char*>(bytes.data()) + offset,
            std::min(length, bytes.size() - offset)};
  }
};

DataRange read_range(const Memory& memory, const Mapping& mapping) {
  DataRange range{.begin = mapping.begin};
  range.bytes.resize(std::min(mapping.end - mapping.begin, kDataLimit));
  for (uint64_t offset = 0; offset < range.bytes.size(); offset += ProcessMemory::kPageBytes) {
    const auto page = std::span(range.bytes).subspan(offset, ProcessMemory::kPageBytes);
    if (!memory.read(range.begin + offset, page)) std::ranges::fill(page, std::byte{});
  }
  return range;
}

std::vector<DataRange> read_data(const Memory& memory, const AddressSpace& space,
                                 const Mapping& file) {
  std::vector<DataRange> ranges;
  uint64_t end = 0;
  for (const Mapping& mapping : space.mappings()) {
    const bool is_same = mapping.inode == file.inode && mapping.device == file.device;
    const bool is_bss = mapping.inode == 0 && mapping.begin == end;
    if (mapping.readable && mapping.writable && (is_same || is_bss)) {
      ranges.push_back(read_range(memory, mapping));
    }
    if (is_same) end = mapping.end;
  }
  return ranges;
}

/// Looks for the runtime in one file of one process.
class RuntimeSearch {
 public:
  RuntimeSearch(const Memory& memory, const AddressSpace& space, SymbolSource& symbols,
                const Mapping& file)
      : memory_(memory), space_(space), symbols_(symbols), file_(file) {}

  /// Nothing: the file holds no Python.
  Expected<std::optional<PythonRuntime>> run() {
    std::optional<uint64_t> address = symbols_.symbol(file_, "_PyRuntime");
    if (!address) {
      const auto section = symbols_.section(file_, ".PyRuntime");
      if (section) address = section->begin;
    }
    if (address) return confirmed(at(*address));
    return searched();
  }

 private:
  const std::vector<DataRange>& data() {
    if (!data_) data_ = read_data(memory_, space_, file_);
    return *data_;
  }

  /// The runtime at an address that is known. What it says of itself in memory counts; where that
  /// is damaged, the table of its version may still fit.
  Expected<PythonRuntime> at(uint64_t address) {
    auto described = by_description(address);
    if (described || described.error().code == ErrorCode::kUnsupported ||
        described.error().code == ErrorCode::kInsufficient) {
      return described;
    }
    auto runtime = by_table(address);
    if (!runtime || !list_python_interpreters(memory_, *runtime)) return described;
    runtime->notes.push_back(to_string(described.error()));
    return runtime;
  }

  /// By _Py_DebugOffsets (3.13 on), or by the table of its version where there are none.
  Expected<PythonRuntime> by_description(uint64_t address) {
    const auto offsets = read_python_debug_offsets(memory_, address);
    if (!offsets && offsets.error().code == ErrorCode::kNotFound) return by_table(address);
    if (!offsets) return std::unexpected(offsets.error());
    PythonRuntime runtime{.version = offsets->version,
                          .free_threaded = offsets->free_threaded,
                          .address = address,
                          .layout = offsets->layout};
    DLP_TRY(const auto interpreters, list_python_interpreters(memory_, runtime));
    if (runtime.version.minor > kNewestKnownPython.minor) {
      DLP_CHECK(check_objects(interpreters.back(), runtime));
      runtime.notes.push_back("this dlprobe is older than Python " + to_string(runtime.version) +
                              ", and reads it as that describes itself");
    }
    return runtime;
  }

  /// A table that was only searched for has to find a known object, too: sys.modules.
  Status check_objects(uint64_t interpreter, const PythonRuntime& runtime) const {
    DLP_TRY(const uint64_t modules,
            memory_.value<uint64_t>(interpreter + runtime.layout.interpreter.modules));
    DLP_TRY(const std::string type, python_type_name(memory_, runtime.layout.object, modules));
    if (type == "dict") return {};
    return failure(ErrorCode::kUnsupported,
                   "read the frames of Python " + to_string(runtime.version) +
                       ": sys.modules is no dict where its _Py_DebugOffsets have it");
  }

  Expected<PythonRuntime> by_table(uint64_t address) {
    const auto found = version();
    if (!found) return failure(ErrorCode::kUnsupported, "tell the version of " + file_.path);
    DLP_TRY(const PythonLayout layout, python_layout(*found));
    if (layout.runtime.interpreters_head == 0) {
      return failure(ErrorCode::kUnsupported,
                     "read Python " + to_string(*found) + " without its offsets");
    }
    return PythonRuntime{.version = *found, .address = address, .layout = layout};
  }

  /// Of Py_Version (3.11 on), the text of Py_GetVersion(), or the name of the file.
  std::optional<PythonVersion> version() {
    if (const auto symbol = symbols_.symbol(file_, "Py_Version")) {
      const auto hex = memory_.value<uint32_t>(*symbol);
      if (hex) return python_version_from_hex(*hex);
    }
    const auto named = version_in_name(file_name(file_));
    const auto written = version_in_data();
    const bool agree = !named || !written || named->minor == written->minor;
    return written && agree ? written : named;
  }

  std::optional<PythonVersion> version_in_data() {
    constexpr size_t kLongest = 16;
    for (const DataRange& range : data()) {
      for (size_t i = 0; i + kLongest <= range.bytes.size(); ++i) {
        if (range.bytes[i] != std::byte{'3'} || range.bytes[i + 1] != std::byte{'.'}) continue;
        if (const auto version = version_in_text(range.text(i, kLongest))) return version;
      }
    }
    return std::nullopt;
  }

  Expected<std::optional<PythonRuntime>> confirmed(Expected<PythonRuntime> runtime) const {
    if (!runtime) return std::unexpected(std::move(runtime).error());
    DLP_CHECK(list_python_interpreters(memory_, *runtime));
    return std::optional(std::move(*runtime));
  }

  /// No symbols: _PyRuntime is where its cookie is, or where a pointer leads to an interpreter.
  Expected<std::optional<PythonRuntime>> searched() {
    for (const DataRange& range : data()) {
      for (size_t i = 0; i + sizeof(uint64_t) <= range.bytes.size(); i += sizeof(uint64_t)) {
        if (range.text(i, sizeof(uint64_t)) != kPythonDebugCookie) continue;
        auto runtime = confirmed(at(range.begin + i));
        if (runtime) return runtime;
      }
    }
    const auto model = by_table(0);
    if (!model) return std::nullopt;
    for (const DataRange& range : data()) {
      if (auto runtime = by_pointers(range, *model)) return runtime;
    }
    return std::nullopt;
  }

  /// In the runtime the newest interpreter comes first, then the main one.
  std::optional<PythonRuntime> by_pointers(const DataRange& range, PythonRuntime runtime) const {
    constexpr size_t kPointer = sizeof(uint64_t);
    const uint32_t head = runtime.layout.runtime.interpreters_head;
    for (size_t i = head; i + 2 * kPointer <= range.bytes.size(); i += kPointer) {
      runtime.address = range.begin + i - head;
      if (!is_interpreter(range.word(i), runtime.layout)) continue;
      if (!is_interpreter(range.word(i + kPointer), runtime.layout)) continue;
      if (list_python_interpreters(memory_, runtime)) return runtime;
    }
    return std::nullopt;
  }

  bool is_interpreter(uint64_t address, const PythonLayout& layout) const {
    if (!is_data(address)) return false;
    const auto thread = memory_.value<uint64_t>(address + layout.interpreter.threads_head);
    if (!thread || !is_data(*thread)) return false;
    const auto back = memory_.value<uint64_t>(*thread + layout.thread.interpreter);
    if (!back || *back != address) return false;
    const auto modules = memory_.value<uint64_t>(address + layout.interpreter.modules);
    if (!modules || !is_data(*modules)) return false;
    const auto type = python_type_name(memory_, layout.object, *modules);
    return type && *type == "dict";
  }

  bool is_data(uint64_t address) const {
    if (address == 0 || address % sizeof(uint64_t) != 0) return false;
    const Mapping* mapping = space_.find(address);
    return mapping != nullptr && mapping->readable && mapping->writable;
  }

  const Memory& memory_;
  const AddressSpace& space_;
  SymbolSource& symbols_;
  const Mapping& file_;
  std::optional<std::vector<DataRange>> data_;
};

/// Whether its first thread points back to it; an interpreter without threads cannot be told.
Expected<bool> points_back(const Memory& memory, uint64_t interpreter, const PythonLayout& layout) {
  DLP_TRY(const uint64_t thread,
          memory.value<uint64_t>(interpreter + layout.interpreter.threads_head));
  if (thread == 0) return false;
  DLP_TRY(const uint64_t back, memory.value<uint64_t>(thread + layout.thread.interpreter));
  if (back == interpreter) return true;
  return failure(ErrorCode::kMalformed, fmt::format("read a Python interpreter at {:#x}: its first "
                                                    "thread does not belong to it",
                                                    interpreter));
}

}  // namespace

Expected<std::vector<uint64_t>> list_python_interpreters(const Memory& memory,
                                                         const PythonRuntime& runtime) {
  const PythonLayout& layout = runtime.layout;
  std::vector<uint64_t> interpreters;
  bool has_threads = false;
  PythonListGuard guard("Python interpreters", kInterpreterLimit);
  DLP_TRY(uint64_t address,
          memory.value<uint64_t>(runtime.address + layout.runtime.interpreters_head));
  while (address != 0) {
    DLP_CHECK(guard.enter(address));
    DLP_TRY(const bool is_proven, points_back(memory, address, layout));
    has_threads = has_threads || is_proven;
    interpreters.push_back(address);
    DLP_TRY(address, memory.value<uint64_t>(address + layout.interpreter.next));
  }
  if (has_threads) return interpreters;
  return failure(ErrorCode::kInsufficient, "find a Python interpreter with threads");
}

Expected<std::optional<PythonRuntime>> find_python(const Memory& memory, const AddressSpace& space,
                                                   SymbolSource& symbols) {
  std::optional<Error> first_error;
  for (const Mapping* file : candidate_files(space)) {
    auto found = RuntimeSearch(memory, space, symbols, *file).run();
    if (found && *found) return found;
    if (!found && !first_error) first_error = std::move(found).error();
  }
  if (first_error) return std::unexpected(std::move(*first_error));
  return std::nullopt;
}

}  // namespace dlprobe
