#include "lib/stacks/address_space.h"

#include <algorithm>

namespace dlprobe {
namespace {

constexpr size_t kMapsLimit = size_t{64} << 20;  ///< the text of 65 530 mappings takes about 8 MiB

}  // namespace

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
