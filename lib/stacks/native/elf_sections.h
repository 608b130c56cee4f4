#pragma once

#include <gelf.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlprobe {

/// An ELF file and where it is read; -1: it is in memory.
struct ReadFrom {
  Elf* elf = nullptr;
  int file = -1;
};

/// Calls `visit(section, header)` for each section, until it gives false.
template <class Visit>
void for_each_section(Elf* elf, Visit&& visit) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header{};
    if (gelf_getshdr(section, &header) != nullptr && !visit(section, header)) return;
  }
}

/// A section, of which only what is asked for is read: libelf would read all, and the names of
/// torch 2.13's symbols have 76 MB.
class SectionReader {
 public:
  SectionReader(const ReadFrom& from, Elf_Scn* section);

  const GElf_Shdr& header() const { return header_; }
  uint64_t size() const { return size_; }

  /// How much of `into` was filled with what the section has from `offset` on.
  size_t read(uint64_t offset, std::span<std::byte> into) const;

  template <class T>
  std::optional<T> value(uint64_t offset) const {
    std::array<std::byte, sizeof(T)> bytes{};
    if (read(offset, bytes) != bytes.size()) return std::nullopt;
    return std::bit_cast<T>(bytes);
  }

  /// The text that begins at `offset`; empty if there is none.
  std::string text(uint64_t offset) const;

 private:
  int file_;
  GElf_Shdr header_{};
  uint64_t size_ = 0;  ///< 0: it cannot be read
  std::span<const std::byte> bytes_;
};

/// The first section of that type. Of symbols a file has at most one of each kind (System V gABI,
/// chapter 4): thousands that lie over one another are no such file, and would take for ever.
std::optional<SectionReader> section_of_type(const ReadFrom& from, GElf_Word type);

/// Calls `visit(symbol)` for each symbol of a table, until it gives false.
template <class Visit>
void for_each_symbol(const SectionReader& table, Visit&& visit) {
  constexpr size_t kAtOnce = 2048;
  std::vector<Elf64_Sym> symbols(kAtOnce);
  for (uint64_t offset = 0; offset < table.size();) {
    const size_t got = table.read(offset, std::as_writable_bytes(std::span(symbols)));
    const size_t count = got / sizeof(Elf64_Sym);
    if (count == 0) return;
    for (const Elf64_Sym& symbol : std::span(symbols).first(count))
      if (!visit(symbol)) return;
    offset += count * sizeof(Elf64_Sym);
  }
}

/// The address of a symbol that the file exports (.dynsym).
std::optional<uint64_t> exported_symbol(const ReadFrom& from, std::string_view name);

/// The address of any symbol that it defines (.symtab); reads all names.
std::optional<uint64_t> any_symbol(const ReadFrom& from, std::string_view name);

}  // namespace dlprobe
