#pragma once

#include <string>
#include <string_view>

#include "lib/model/snapshot.h"
#include "reports/model/objects/stacks.h"

namespace dlprobe {

/// The function of a frame for people; empty if it has no name. Hostile text.
std::string display_name(const StackFrame& frame);

/// What a thread waits for, in words: "mutex 0x7f12 held by thread 4711", "read of pipe 81234"; ""
/// for one that runs. `machine` is uname's, for the numbers of system calls.
std::string describe_wait(const ThreadSnapshot& thread, std::string_view machine);

/// A frame: kind, function, name for people where it is another, file, line or offset.
report::Frame frame_of(const StackFrame& frame);

/// What a snapshot says of a process beside its identity.
report::LastLook last_look_of(const ProcessSnapshot& process, std::string_view machine);

}  // namespace dlprobe
