#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/proc/maps.h"
#include "lib/stacks/native/elf_file.h"

namespace dlprobe {

/// The symbols and sections of the files that a process has mapped. Addresses are the process's.
class SymbolSource {
 public:
  virtual ~SymbolSource() = default;
  SymbolSource() = default;
  SymbolSource(const SymbolSource&) = delete;
  SymbolSource& operator=(const SymbolSource&) = delete;

  /// A symbol that the file behind `mapping` defines (not one that it only asks for).
  virtual std::optional<uint64_t> symbol(const Mapping& mapping, std::string_view name) = 0;

  /// A section of that file.
  virtual std::optional<AddressRange> section(const Mapping& mapping, std::string_view name) = 0;
};

}  // namespace dlprobe
