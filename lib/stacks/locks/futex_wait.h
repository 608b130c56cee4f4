#pragma once

#include <optional>
#include <span>

#include "lib/model/snapshot.h"
#include "lib/proc/syscall_file.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"

namespace dlprobe {

/// What a thread that is in futex(2) waits on; nothing if the call is not one that waits.
///
/// The kind comes from the call's operation and value and from the words around the futex (glibc
/// 2.31 to 2.41, x86_64 and aarch64; measured with 2.36), and is unknown where two kinds look the
/// same.
std::optional<FutexWait> decode_futex_wait(const SyscallFile& call, const Memory& memory,
                                           const AddressSpace& space);

/// Tells the kind by the function of libc or libgomp that the thread is in, which says more than
/// the words; `stack` is innermost first.
void refine_by_stack(FutexWait& wait, std::span<const StackFrame> stack, const Memory& memory);

}  // namespace dlprobe
