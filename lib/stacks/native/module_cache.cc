#include "lib/stacks/native/module_cache.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/auxv.h>

#include <cstddef>
#include <span>

namespace dlprobe {
namespace {

Expected<UniqueFd> open_mapped(const Directory& process, const Mapping& mapping) {
  const std::string by_path = "root" + mapping.path;
  const auto stat = process.stat(by_path);
  // The device in maps and that of stat differ on btrfs and overlayfs; the inode does not.
  if (stat && stat->inode == mapping.inode) return process.open_file(by_path);
  return process.open_file(fmt::format("map_files/{:x}-{:x}", mapping.begin, mapping.end));
}

/// With the symbols that a distribution keeps apart (Debian's *-dbg and *-dbgsym packages).
Expected<std::shared_ptr<const ElfFile>> open_with_symbols(const Directory& process, UniqueFd file,
                                                           const std::string& path) {
  DLP_TRY(auto elf, ElfFile::open(std::move(file), path));
  const std::string id = elf->build_id();
  if (id.size() < 3) return elf;
  auto separate = process.open_file(
      fmt::format("root/usr/lib/debug/.build-id/{}/{}.debug", id.substr(0, 2), id.substr(2)));
  if (!separate) return elf;
  if (auto debug = ElfFile::open(std::move(*separate), path)) elf->set_debug_file(*debug);
  return elf;
}

/// The image of a few kilobytes that the kernel maps into every process, the same for all.
Expected<std::shared_ptr<const ElfFile>> own_vdso() {
  const unsigned long address = ::getauxval(AT_SYSINFO_EHDR);
  if (address == 0) return failure(ErrorCode::kUnsupported, "find the vdso: the kernel has none");
  // NOLINTBEGIN(performance-no-int-to-ptr,cppcoreguidelines-pro-type-reinterpret-cast)
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(address);
  const auto* begin = reinterpret_cast<const std::byte*>(address);
  // NOLINTEND(performance-no-int-to-ptr,cppcoreguidelines-pro-type-reinterpret-cast)
  const size_t sections = size_t{header->e_shentsize} * header->e_shnum;
  const std::span image(begin, header->e_shoff + sections);  // the section headers come last
  return ElfFile::from_image({image.begin(), image.end()}, "[vdso]");
}

}  // namespace

const Expected<std::shared_ptr<const ElfFile>>& ModuleCache::file_of(const Directory& process,
                                                                     const Mapping& mapping) {
  if (mapping.path == "[vdso]") {
    if (!vdso_) vdso_ = own_vdso();
    return *vdso_;
  }
  const auto [entry, is_new] = files_.try_emplace(Id(mapping.device, mapping.inode));
  if (is_new && mapping.inode == 0) {
    entry->second = failure(ErrorCode::kNotFound, "open the file of memory without a file");
  } else if (is_new) {
    auto file = open_mapped(process, mapping);
    if (file) {
      entry->second = open_with_symbols(process, std::move(*file), mapping.path);
    } else {
      entry->second = std::unexpected(std::move(file.error()));
    }
  }
  return entry->second;
}

}  // namespace dlprobe
