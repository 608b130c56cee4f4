#pragma once

#include <cstdint>
#include <optional>

#include "lib/model/snapshot.h"
#include "lib/stacks/native/memory.h"

namespace dlprobe {

/// The pool of libgomp that a thread has, and how many threads its next parallel region asks for.
///
/// Where that lies is told by the library's own code: `get_max_threads` is the address of its
/// omp_get_max_threads(), which loads both the thread's task and the default (libgomp/icv.c; GCC 5
/// to 14). The pool's first thread is the thread itself, which proves that it is a pool.
/// `thread_pointer` is the thread's pthread_self(). Nothing where the code looks different (another
/// machine, another compiler) or the words do not make sense.
std::optional<OpenMpPool> read_openmp_pool(const Memory& memory, uint64_t get_max_threads,
                                           uint64_t thread_pointer);

}  // namespace dlprobe
