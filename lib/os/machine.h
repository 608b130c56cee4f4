#pragma once

#include <memory>

#include "lib/os/clock.h"
#include "lib/os/file_system.h"
#include "lib/os/kernel_events.h"
#include "lib/os/process_access.h"
#include "lib/os/socket_table.h"

namespace dlprobe {

/// The machine that is looked at: the live one, a recorded one, or one made up by a test. Cheap to
/// copy; what it points to outlives every copy.
struct Machine {
  std::shared_ptr<const Directory> root;
  std::shared_ptr<const Clock> clock;
  std::shared_ptr<const ProcessAccess> processes;
  std::shared_ptr<const SocketTable> sockets;  ///< may be null: nothing is known of sockets
  std::shared_ptr<const KernelEvents> events;  ///< may be null: the kernel tells nothing by itself
};

/// This machine. Fails only if "/" cannot be opened.
Expected<Machine> live_machine();

}  // namespace dlprobe
