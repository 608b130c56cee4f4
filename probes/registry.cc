#include <array>

#include "probes/probe.h"

namespace dlprobe {

#define DLP_PROBE(name) extern const Probe k_##name;
#include "probes/probes.def"
#undef DLP_PROBE

namespace {

constexpr std::array kProbes = {
#define DLP_PROBE(name) &k_##name,
#include "probes/probes.def"
#undef DLP_PROBE
};

}  // namespace

std::span<const Probe* const> all_probes() {
  return kProbes;
}

const Probe* find_probe(std::string_view name) {
  for (const Probe* probe : kProbes) {
    if (probe->name == name) return probe;
  }
  return nullptr;
}

}  // namespace dlprobe
