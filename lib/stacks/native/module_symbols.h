#pragma once

#include <optional>
#include <string_view>

#include "lib/os/file_system.h"
#include "lib/stacks/native/module_cache.h"
#include "lib/stacks/native/symbol_source.h"

namespace dlprobe {

/// The symbols of what one process has mapped, from the files of a cache.
class ModuleSymbols final : public SymbolSource {
 public:
  /// Both must outlive it; `process` is its /proc directory.
  ModuleSymbols(const Directory& process, ModuleCache& modules)
      : process_(&process), modules_(&modules) {}

  std::optional<uint64_t> symbol(const Mapping& mapping, std::string_view name) override;
  std::optional<AddressRange> section(const Mapping& mapping, std::string_view name) override;

 private:
  const Directory* process_;
  ModuleCache* modules_;
};

}  // namespace dlprobe
