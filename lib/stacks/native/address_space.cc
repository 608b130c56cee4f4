#include "lib/stacks/native/address_space.h"

#include <algorithm>

namespace dlprobe {
Expected<AddressSpace> AddressSpace::read(const Directory& process) {
  DLP_TRY(const std::string text, process.read("maps", kMapsLimit));
  DLP_TRY(auto mappings, parse_maps(text));
  return AddressSpace(std::move(mappings));
}

const Mapping* AddressSpace::find(uint64_t address) const {
  const auto after = std::ranges::upper_bound(mappings_, address, {}, &Mapping::begin);
  if (after == mappings_.begin()) return nullptr;
  const Mapping& mapping = *std::prev(after);
  return address < mapping.end ? &mapping : nullptr;
}

}  // namespace dlprobe
