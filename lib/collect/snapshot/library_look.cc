#include "lib/collect/snapshot/library_look.h"

#include <algorithm>

#include "lib/foreign/libraries.h"
#include "lib/stacks/locks/openmp_pool.h"

namespace dlprobe {
namespace {

std::optional<OpenMpPool> pool_of(const LibraryImage& image, const Mapping& mapping,
                                  ModuleCache& modules) {
  if (!image.main_thread) return std::nullopt;
  const auto& file = modules.file_of(image.process, mapping);
  if (!file) return std::nullopt;
  const auto bias = (*file)->bias(mapping);
  const auto function = (*file)->symbol("omp_get_max_threads");
  if (!bias || !function) return std::nullopt;
  return read_openmp_pool(image.memory, *bias + *function, *image.main_thread);
}

}  // namespace

std::vector<MappedLibrary> look_at_libraries(const LibraryImage& image, ModuleCache& modules) {
  std::vector<MappedLibrary> libraries;
  for (const Mapping& mapping : image.space.mappings()) {
    if (!mapping.executable || mapping.inode == 0) continue;
    const ThreadKeeper keeper = thread_keeper(mapping.path);
    if (keeper == ThreadKeeper::kNone) continue;
    const bool is_known = std::ranges::any_of(libraries, [&](const MappedLibrary& each) {
      return each.device == mapping.device && each.inode == mapping.inode;
    });
    if (is_known) continue;
    MappedLibrary library{.file = mapping.path,
                          .device = mapping.device,
                          .inode = mapping.inode,
                          .pool = std::nullopt};
    if (keeper == ThreadKeeper::kGnuOpenMp) library.pool = pool_of(image, mapping, modules);
    libraries.push_back(std::move(library));
  }
  return libraries;
}

}  // namespace dlprobe
