#include "lib/stacks/native/module_symbols.h"

namespace dlprobe {

std::optional<uint64_t> ModuleSymbols::symbol(const Mapping& mapping, std::string_view name) {
  const auto& file = modules_->file_of(*process_, mapping);
  if (!file) return std::nullopt;
  const auto address = (*file)->symbol(name);
  const auto bias = (*file)->bias(mapping);
  if (!address || !bias) return std::nullopt;
  return *address + *bias;
}

std::optional<AddressRange> ModuleSymbols::section(const Mapping& mapping, std::string_view name) {
  const auto& file = modules_->file_of(*process_, mapping);
  if (!file) return std::nullopt;
  const auto range = (*file)->section(name);
  const auto bias = (*file)->bias(mapping);
  if (!range || !bias) return std::nullopt;
  return AddressRange{.begin = range->begin + *bias, .end = range->end + *bias};
}

}  // namespace dlprobe
