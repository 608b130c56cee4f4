#pragma once

#include <string>

#include "lib/os/host_facts.h"
#include "lib/os/machine.h"
#include "lib/session/judge.h"
#include "lib/session/notices.h"
#include "lib/session/process_control.h"

namespace dlprobe {

/// What a session works with and for. All of it outlives the session.
struct Surroundings {
  Machine machine;
  ProcessControl& control;
  const Judge& judge;
  Notices& notices;
  EnvironmentLookup environment;  ///< of dlprobe itself
  std::string version;            ///< of dlprobe, for the recording
};

}  // namespace dlprobe
