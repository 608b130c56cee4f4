#include "probes/probe.h"

namespace dlprobe {
namespace {

Verdict examine(const Recording& /*recording*/) {
  return {};
}

}  // namespace

extern const Probe k_spawn;
const Probe k_spawn = {
    .name = "spawn-recursion",
    .summary = "start methods: what breaks under spawn and forkserver, where, and how to mend it",
    .examine = examine};

}  // namespace dlprobe
