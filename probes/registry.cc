#include <algorithm>
#include <array>

#include "probes/probe.h"

namespace dlprobe {
namespace {

constexpr std::array kProbes = {
#define DLP_PROBE(name) &probes::name::kProbe,
#include "probes/probes.def"
#undef DLP_PROBE
};

}  // namespace

std::span<const Probe* const> all_probes() {
  return kProbes;
}

const Probe* find_probe(std::string_view name) {
  const auto found = std::ranges::find(kProbes, name, &Probe::name);
  return found == kProbes.end() ? nullptr : *found;
}

}  // namespace dlprobe
