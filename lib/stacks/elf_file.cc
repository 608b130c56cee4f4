#include "lib/stacks/elf_file.h"

#include <gelf.h>

#include <algorithm>
#include <numeric>

namespace dlprobe {
namespace {

constexpr uint64_t kPageBytes = 4096;

#if defined(__x86_64__)
constexpr GElf_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr GElf_Half kMachine = EM_AARCH64;
#else
#error "dlprobe reads ELF files of x86_64 and aarch64"
#endif

/// Calls `visit(section, header)` for each section, until it gives false.
template <class Visit>
void for_each_section(Elf* elf, Visit&& visit) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header{};
    if (gelf_getshdr(section, &header) != nullptr && !visit(section, header)) return;
  }
}

/// Calls `visit(symbol, strings)` for each symbol of both tables; `strings` is for elf_strptr.
template <class Visit>
void for_each_symbol(Elf* elf, Visit&& visit) {
  for_each_section(elf, [&](Elf_Scn* section, const GElf_Shdr& header) {
    if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) return true;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || header.sh_entsize == 0) return true;
    const auto count = static_cast<int>(data->d_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Sym symbol{};
      if (gelf_getsym(data, i, &symbol) == nullptr) break;
      visit(symbol, header.sh_link);
    }
    return true;
  });
}

bool is_function(const GElf_Sym& symbol) {
  const unsigned type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
         (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/// The symbol that names an address best so far.
struct Candidate {
  uint64_t begin = 0;
  size_t strings = 0;
  size_t name = 0;
  bool sized = false;
  bool global = false;
  bool found = false;

  /// Of a symbol without a size all that can be said is that no other begins in between; one that
  /// spans the address is better, and of two names for one function the exported one.
  bool is_better_than(const Candidate& other) const {
    if (!other.found || sized != other.sized) return !other.found || sized;
    return begin > other.begin || (begin == other.begin && global && !other.global);
  }
};

}  // namespace

struct ElfFile::Handle {
  UniqueFd file;
  Elf* elf = nullptr;

  Handle(UniqueFd opened, Elf* begun) : file(std::move(opened)), elf(begun) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { elf_end(elf); }
};

ElfFile::ElfFile(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
ElfFile::~ElfFile() = default;

Expected<std::shared_ptr<const ElfFile>> ElfFile::open(UniqueFd file, std::string path) {
  static const unsigned version = elf_version(EV_CURRENT);
  Elf* elf = version == EV_NONE ? nullptr : elf_begin(file.get(), ELF_C_READ, nullptr);
  auto handle = std::make_unique<Handle>(std::move(file), elf);
  GElf_Ehdr header{};
  if (elf == nullptr || elf_kind(elf) != ELF_K_ELF || gelf_getehdr(elf, &header) == nullptr) {
    return failure(ErrorCode::kMalformed, path + ": not an ELF file");
  }
  if (header.e_machine != kMachine || gelf_getclass(elf) != ELFCLASS64) {
    return failure(ErrorCode::kMalformed, path + ": an ELF file for another machine");
  }
  const std::shared_ptr<ElfFile> result(new ElfFile(std::move(handle)));
  result->path_ = std::move(path);
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) count = 0;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr program{};
    if (gelf_getphdr(elf, static_cast<int>(i), &program) == nullptr) break;
    if (program.p_type == PT_GNU_EH_FRAME) {
      result->eh_frame_hdr_ = {.begin = program.p_vaddr, .end = program.p_vaddr + program.p_memsz};
    }
  }
  return result;
}

std::optional<uint64_t> ElfFile::bias(const Mapping& mapping) const {
  size_t count = 0;
  if (elf_getphdrnum(handle_->elf, &count) != 0) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr program{};
    if (gelf_getphdr(handle_->elf, static_cast<int>(i), &program) == nullptr) break;
    const uint64_t start = program.p_offset / kPageBytes * kPageBytes;
    if (program.p_type != PT_LOAD || mapping.offset < start ||
        mapping.offset >= program.p_offset + program.p_filesz) {
      continue;
    }
    return mapping.begin - (program.p_vaddr - program.p_offset + mapping.offset);
  }
  return std::nullopt;
}

std::optional<AddressRange> ElfFile::section(std::string_view name) const {
  size_t strings = 0;
  if (elf_getshdrstrndx(handle_->elf, &strings) != 0) return std::nullopt;
  std::optional<AddressRange> found;
  for_each_section(handle_->elf, [&](Elf_Scn* /*section*/, const GElf_Shdr& header) {
    const char* text = elf_strptr(handle_->elf, strings, header.sh_name);
    if (header.sh_addr != 0 && text != nullptr && text == name) {
      found = AddressRange{.begin = header.sh_addr, .end = header.sh_addr + header.sh_size};
    }
    return !found;
  });
  return found;
}

std::optional<uint64_t> ElfFile::symbol(std::string_view name) const {
  std::optional<uint64_t> found;
  for_each_symbol(handle_->elf, [&](const GElf_Sym& symbol, size_t strings) {
    if (found || symbol.st_shndx == SHN_UNDEF) return;
    const char* text = elf_strptr(handle_->elf, strings, symbol.st_name);
    if (text != nullptr && text == name) found = symbol.st_value;
  });
  return found;
}

std::vector<ElfSymbol> ElfFile::functions(std::span<const uint64_t> addresses) const {
  std::vector<size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto address_of = [&](size_t i) { return addresses[i]; };
  std::ranges::sort(order, {}, address_of);
  std::vector<Candidate> best(addresses.size());
  for_each_symbol(handle_->elf, [&](const GElf_Sym& symbol, size_t strings) {
    if (!is_function(symbol)) return;
    const Candidate candidate{.begin = symbol.st_value,
                              .strings = strings,
                              .name = symbol.st_name,
                              .sized = symbol.st_size > 0,
                              .global = GELF_ST_BIND(symbol.st_info) != STB_LOCAL,
                              .found = true};
    auto at = std::ranges::lower_bound(order, candidate.begin, {}, address_of);
    for (; at != order.end(); ++at) {
      const bool spans = addresses[*at] - candidate.begin < symbol.st_size;
      if (candidate.sized && !spans) break;
      if (candidate.is_better_than(best[*at])) best[*at] = candidate;
    }
  });
  std::vector<ElfSymbol> found(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!best[i].found) continue;
    const char* text = elf_strptr(handle_->elf, best[i].strings, best[i].name);
    found[i] = {.name = text == nullptr ? "" : text, .offset = addresses[i] - best[i].begin};
  }
  return found;
}

}  // namespace dlprobe
