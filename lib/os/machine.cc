#include "lib/os/machine.h"

namespace dlprobe {

Expected<Machine> live_machine() {
  DLP_TRY(auto root, open_root("/"));
  return Machine{.root = std::move(root),
                 .clock = std::make_shared<SystemClock>(),
                 .processes = std::make_shared<SystemProcesses>(),
                 .sockets = std::make_shared<SystemSocketTable>(),
                 .events = std::make_shared<SystemKernelEvents>()};
}

}  // namespace dlprobe
