#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/model/snapshot.h"
#include "lib/os/file_system.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/native/module_cache.h"

namespace dlprobe {

/// What of a process is read to see which libraries with threads of their own it has.
struct LibraryImage {
  const AddressSpace& space;
  const Memory& memory;
  const Directory& process;  ///< the /proc directory by which its files are reached
  /// pthread_self() of its main thread; nothing: pools are not read.
  std::optional<uint64_t> main_thread;
};

/// The mapped libraries that keep threads, by address, each file once; of a libgomp what the main
/// thread has of its pool.
std::vector<MappedLibrary> look_at_libraries(const LibraryImage& image, ModuleCache& modules);

}  // namespace dlprobe
