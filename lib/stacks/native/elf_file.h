#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/proc/maps.h"

namespace dlprobe {

struct AddressRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool contains(uint64_t address) const { return begin <= address && address < end; }
  bool operator==(const AddressRange&) const = default;
};

/// What a name is looked up for: the function that holds an address.
struct ElfSymbol {
  std::string name;     ///< as it stands in the file; empty: none holds the address
  uint64_t offset = 0;  ///< of the address in the function
  bool operator==(const ElfSymbol&) const = default;
};

/// An ELF file: a program or a shared library. Addresses are those of the file (virtual addresses
/// as in its program headers); bias() leads to those of a process.
///
/// By libelf, which reads what is asked for and no more: a libtorch has 400 MB. Not thread-safe.
class ElfFile {
 public:
  /// kMalformed for a file that is not ELF for this machine.
  static Expected<std::shared_ptr<ElfFile>> open(UniqueFd file, std::string path);
  /// An ELF image in dlprobe's own memory, which it takes over.
  static Expected<std::shared_ptr<ElfFile>> from_image(std::vector<std::byte> image,
                                                       std::string path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  const std::string& path() const { return path_; }

  /// What has to be added to a file address where a process has mapped the file so; nothing if the
  /// mapping fits none of its segments.
  std::optional<uint64_t> bias(const Mapping& mapping,
                               uint64_t page_bytes = own_page_bytes()) const;

  /// In what the kernel maps files: 4096 bytes, on some aarch64 machines 65536.
  static uint64_t own_page_bytes();

  /// What tells this build of the file from every other, in hex digits; empty if it has none.
  std::string build_id() const;

  /// The symbols of a debug file of the same build id serve where this one has no name.
  void set_debug_file(std::shared_ptr<const ElfFile> file) { debug_file_ = std::move(file); }

  /// The section of that name.
  std::optional<AddressRange> section(std::string_view name) const;
  /// The segment that holds the search table of the unwind information (PT_GNU_EH_FRAME).
  std::optional<AddressRange> eh_frame_hdr() const { return eh_frame_hdr_; }

  /// What the dynamic linker is told of the file.
  struct Linking {
    std::string name;                 ///< DT_SONAME; empty: none
    std::vector<std::string> needed;  ///< DT_NEEDED
    std::string search;               ///< DT_RUNPATH, else DT_RPATH
  };
  Linking linking() const;

  /// The address of a symbol that the file exports; in a program of any that it has.
  std::optional<uint64_t> symbol(std::string_view name) const;

  /// The functions that hold `addresses`, in their order: by .symtab and .dynsym, and where these
  /// have no name by the debug file and .gnu_debugdata. One pass over the symbols, however many
  /// addresses there are: ask for all of them at once.
  std::vector<ElfSymbol> functions(std::span<const uint64_t> addresses) const;

 private:
  struct Handle;
  explicit ElfFile(std::unique_ptr<Handle> handle);
  static Expected<std::shared_ptr<ElfFile>> make(std::unique_ptr<Handle> handle, std::string path);
  /// The symbol tables of a stripped file: its debug file, and .gnu_debugdata, decompressed now.
  std::vector<const ElfFile*> companions() const;

  std::unique_ptr<Handle> handle_;
  std::string path_;
  std::shared_ptr<const ElfFile> debug_file_;
  std::optional<AddressRange> eh_frame_hdr_;
  bool is_library_ = true;  ///< it names no dynamic linker (PT_INTERP)
};

}  // namespace dlprobe
