#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/foreign/syscalls.h"
#include "lib/model/process.h"
#include "lib/model/snapshot.h"

namespace dlprobe {

/// The kind of `wait` on a machine of that uname name; kOther where its numbers are not known.
WaitKind kind_of(const ThreadWait& wait, std::string_view machine);

/// The timeout of a thread in poll(2): -1 is "for ever", nothing where it cannot be told (ppoll has
/// it in the target's memory).
std::optional<int32_t> poll_timeout_ms(const ThreadWait& wait, std::string_view machine);

/// Whether a thread in poll(2), select(2), epoll_wait(2) or one of their kin wakes by itself.
bool has_timeout(const ThreadWait& wait, std::string_view machine);

/// Whether who is woken from that wait may have got nothing: a timeout was over, or a sleep. From
/// one without an end of its own it is woken by what it waited for alone.
bool may_wake_for_nothing(const ThreadSnapshot& thread, std::string_view machine);

}  // namespace dlprobe
