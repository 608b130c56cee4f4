#include "lib/stacks/native/live_environment.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/foreign/libraries.h"

namespace dlprobe {
namespace {

constexpr size_t kMostVariables = 4096;
constexpr size_t kLongestEntry = 1024;  // the path of a file

/// The variable that points to the table. A program that names it has a copy of its own, which the
/// C library then uses (R_X86_64_COPY, R_AARCH64_COPY).
std::optional<uint64_t> environ_variable(const AddressSpace& space, SymbolSource& symbols) {
  const Mapping* library = nullptr;
  const Mapping* program = nullptr;
  for (const Mapping& mapping : space.mappings()) {
    if (!mapping.executable || mapping.inode == 0) continue;
    if (program == nullptr) program = &mapping;
    if (library == nullptr && is_libc(mapping.path)) library = &mapping;
  }
  for (const Mapping* each : {program, library}) {
    if (each == nullptr) continue;
    if (const auto address = symbols.symbol(*each, "environ")) return address;
  }
  return std::nullopt;
}

/// The text at `address`, up to its end or to kLongestEntry; empty where it cannot be read.
std::string read_entry(const Memory& memory, uint64_t address) {
  std::string text;
  constexpr size_t kPart = 64;
  while (text.size() < kLongestEntry) {
    std::array<char, kPart> part = {};
    // Not beyond the end of a page: the next one may not be there.
    const uint64_t at = address + text.size();
    const size_t left = ProcessMemory::kPageBytes - at % ProcessMemory::kPageBytes;
    const auto bytes = std::span(part).first(std::min(kPart, left));
    if (!memory.read(at, std::as_writable_bytes(bytes))) return {};
    const auto end = std::ranges::find(bytes, '\0');
    text.append(bytes.begin(), end);
    if (end != bytes.end()) break;
  }
  return text;
}

}  // namespace

std::string read_live_environment(const Memory& memory, const AddressSpace& space,
                                  SymbolSource& symbols,
                                  bool (*is_wanted)(std::string_view entry)) {
  std::string found;
  const auto variable = environ_variable(space, symbols);
  if (!variable) return found;
  const auto table = memory.value<uint64_t>(*variable);
  if (!table || *table == 0) return found;
  for (size_t i = 0; i < kMostVariables; ++i) {
    const auto entry = memory.value<uint64_t>(*table + i * sizeof(uint64_t));
    if (!entry || *entry == 0) break;
    const std::string text = read_entry(memory, *entry);
    if (is_wanted(text)) found += text + '\0';
  }
  return found;
}

}  // namespace dlprobe
