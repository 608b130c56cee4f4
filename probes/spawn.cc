#include "probes/probe.h"
#include "probes/spawn_script.h"

namespace dlprobe {
namespace {

Verdict examine(const Recording& recording) {
  Verdict verdict;
  find_in_script(recording, verdict);
  return verdict;
}

}  // namespace

extern const Probe k_spawn;
const Probe k_spawn = {
    .name = "spawn-recursion",
    .summary = "start methods: what breaks under spawn and forkserver, where, and how to mend it",
    .examine = examine};

}  // namespace dlprobe
