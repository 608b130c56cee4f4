#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tests/support/fake_memory.h"

namespace dlprobe {

/// Gives `bytes` to the reader of that name, nothing if there is none: how much it understood
/// (names, callers, frames, locks, sockets). To a fuzzer that does not matter: only that it comes
/// back, soon and with little memory.
///
/// "elf" takes an ELF file, "unix_sockets" a datagram of sock_diag(7). The others read a process:
/// its memory as `memory_of` makes it from what follows the first few bytes, which are said at
/// each.
std::optional<size_t> read_one(std::string_view reader, std::span<const std::byte> bytes);

/// A memory as the corpus has it, one part behind the other: an address (32 bits), how many whole
/// pages are mapped from there on (16 bits; 64 in all at the most), how many bytes are not zero
/// (16 bits), these bytes. Little-endian. What is cut off is left out.
void fill_memory(FakeMemory& memory, std::span<const std::byte> bytes);

/// Where the readers of a process look in its memory.
namespace fuzz {
inline constexpr uint64_t kRuntime = 0x10000;  ///< "python": _PyRuntime
inline constexpr uint64_t kPyVersion = 0x18000;
inline constexpr uint64_t kProgramEnd = 0x1c000;
inline constexpr uint64_t kHeap = 0x20000;
inline constexpr uint64_t kHeapEnd = 0x50000;
inline constexpr uint64_t kObjects = 0x100000;
inline constexpr uint64_t kObjectsEnd = 0x112000;
inline constexpr uint64_t kSemaphore = 0x107000;  ///< "locks"
inline constexpr uint64_t kGetMaxThreads = 0x10000;
inline constexpr uint64_t kThreadPointer = 0x100000;
inline constexpr uint64_t kCode = 0x400000;  ///< "unwind", "process_groups": 64 KiB of a file
inline constexpr uint64_t kUnwindTable = 0x401000;
inline constexpr uint64_t kStack = 0x500000;
}  // namespace fuzz

}  // namespace dlprobe
