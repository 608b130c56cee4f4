#include "lib/stacks/native/elf_file.h"

#include <fmt/format.h>
#include <gelf.h>
#include <lzma.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/stacks/native/elf_sections.h"

namespace dlprobe {
namespace {

#ifdef __x86_64__
constexpr GElf_Half kMachine = EM_X86_64;
#elifdef __aarch64__
constexpr GElf_Half kMachine = EM_AARCH64;
#else
#error "dlprobe reads ELF files of x86_64 and aarch64"
#endif

/// Calls `visit(tag, text)` for each entry of .dynamic whose value is a text.
template <class Visit>
void for_each_dynamic_text(Elf* elf, Visit&& visit) {
  const auto is_text = [](Elf64_Sxword tag) {
    return tag == DT_NEEDED || tag == DT_SONAME || tag == DT_RUNPATH || tag == DT_RPATH;
  };
  for_each_section(elf, [&](Elf_Scn* section, const GElf_Shdr& header) {
    if (header.sh_type != SHT_DYNAMIC) return true;
    Elf_Data* data = elf_getdata(section, nullptr);
    const size_t count =
        data == nullptr || header.sh_entsize == 0 ? 0 : data->d_size / header.sh_entsize;
    GElf_Dyn entry{};
    for (size_t i = 0; i < count; ++i) {
      if (gelf_getdyn(data, static_cast<int>(i), &entry) == nullptr) break;
      if (entry.d_tag == DT_NULL) break;
      const char* text =
          is_text(entry.d_tag) ? elf_strptr(elf, header.sh_link, entry.d_un.d_val) : nullptr;
      if (text != nullptr) visit(entry.d_tag, text);
    }
    return false;
  });
}

bool is_function(const Elf64_Sym& symbol) {
  const unsigned type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
         (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/// The symbol that names an address best so far.
struct Candidate {
  ReadFrom from;
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

/// Names for many addresses at once.
class FunctionSearch {
 public:
  explicit FunctionSearch(std::span<const uint64_t> addresses)
      : addresses_(addresses), order_(addresses.size()), best_(addresses.size()) {
    for (size_t i = 0; i < order_.size(); ++i)
      order_[i] = i;
    std::ranges::sort(order_, {}, [&](size_t i) { return addresses[i]; });
  }

  void look_in(const ReadFrom& from) {
    for (const GElf_Word type : {SHT_SYMTAB, SHT_DYNSYM}) {
      const auto table = section_of_type(from, type);
      if (table) look_in(from, *table);
    }
  }

  /// Each address lies within a function whose size is known.
  bool all_sure() const { return std::ranges::all_of(best_, &Candidate::sized); }

  std::vector<ElfSymbol> found() const {
    std::vector<ElfSymbol> symbols(addresses_.size());
    for (size_t i = 0; i < addresses_.size(); ++i) {
      const Candidate& best = best_[i];
      if (!best.found) continue;
      symbols[i] = {
          .name = SectionReader(best.from, elf_getscn(best.from.elf, best.strings)).text(best.name),
          .offset = addresses_[i] - best.begin};
    }
    return symbols;
  }

 private:
  void look_in(const ReadFrom& from, const SectionReader& table) {
    for_each_symbol(table, [&](const Elf64_Sym& symbol) {
      if (!is_function(symbol)) return true;
      offer({.from = from,
             .begin = symbol.st_value,
             .strings = table.header().sh_link,
             .name = symbol.st_name,
             .sized = symbol.st_size > 0,
             .global = GELF_ST_BIND(symbol.st_info) != STB_LOCAL,
             .found = true},
            symbol.st_size);
      return true;
    });
  }

  void offer(const Candidate& candidate, uint64_t size) {
    const auto address_of = [&](size_t i) { return addresses_[i]; };
    auto at = std::ranges::lower_bound(order_, candidate.begin, {}, address_of);
    for (; at != order_.end(); ++at) {
      if (candidate.sized && addresses_[*at] - candidate.begin >= size) return;
      if (candidate.is_better_than(best_[*at])) best_[*at] = candidate;
    }
  }

  std::span<const uint64_t> addresses_;
  std::vector<size_t> order_;  ///< by address
  std::vector<Candidate> best_;
};

std::span<const uint8_t> section_bytes(Elf* elf, std::string_view name) {
  size_t strings = 0;
  std::span<const uint8_t> bytes;
  if (elf_getshdrstrndx(elf, &strings) != 0) return bytes;
  for_each_section(elf, [&](Elf_Scn* section, const GElf_Shdr& header) {
    const char* text = elf_strptr(elf, strings, header.sh_name);
    if (text == nullptr || text != name) return true;
    // One that has no bytes in the file (SHT_NOBITS) has a size all the same.
    if (const Elf_Data* data = elf_rawdata(section, nullptr);
        data != nullptr && data->d_buf != nullptr) {
      bytes = {static_cast<const uint8_t*>(data->d_buf), data->d_size};
    }
    return false;
  });
  return bytes;
}

/// Empty if it is damaged, or larger than symbols are.
std::vector<std::byte> decompress_xz(std::span<const uint8_t> compressed) {
  constexpr size_t kLimit = size_t{256} << 20;
  lzma_stream stream = LZMA_STREAM_INIT;
  std::vector<std::byte> bytes(compressed.size() * 4);
  if (lzma_stream_decoder(&stream, kLimit, 0) != LZMA_OK) return {};
  stream.next_in = compressed.data();
  stream.avail_in = compressed.size();
  lzma_ret status = LZMA_OK;
  while (status == LZMA_OK && stream.total_out < kLimit) {
    if (stream.total_out == bytes.size()) bytes.resize(bytes.size() * 2);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): liblzma's bytes are uint8_t
    stream.next_out = reinterpret_cast<uint8_t*>(bytes.data()) + stream.total_out;
    stream.avail_out = bytes.size() - stream.total_out;
    status = lzma_code(&stream, LZMA_FINISH);
  }
  bytes.resize(stream.total_out);
  lzma_end(&stream);
  if (status != LZMA_STREAM_END) bytes.clear();
  return bytes;
}

}  // namespace

struct ElfFile::Handle {
  UniqueFd file;
  std::vector<std::byte> image;  ///< of one that is in memory
  Elf* elf = nullptr;
  /// What .gnu_debugdata holds, once it was asked for; null: there is none.
  std::optional<std::shared_ptr<const ElfFile>> small_symbols;

  explicit Handle(UniqueFd opened) : file(std::move(opened)) {
    if (elf_version(EV_CURRENT) != EV_NONE) elf = elf_begin(file.get(), ELF_C_READ, nullptr);
  }
  explicit Handle(std::vector<std::byte> bytes) : image(std::move(bytes)) {
    if (elf_version(EV_CURRENT) == EV_NONE) return;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): libelf's bytes are char
    elf = elf_memory(reinterpret_cast<char*>(image.data()), image.size());
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { elf_end(elf); }
};

ElfFile::ElfFile(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
ElfFile::~ElfFile() = default;

Expected<std::shared_ptr<ElfFile>> ElfFile::open(UniqueFd file, std::string path) {
  return make(std::make_unique<Handle>(std::move(file)), std::move(path));
}

Expected<std::shared_ptr<ElfFile>> ElfFile::from_image(std::vector<std::byte> image,
                                                       std::string path) {
  return make(std::make_unique<Handle>(std::move(image)), std::move(path));
}

Expected<std::shared_ptr<ElfFile>> ElfFile::make(std::unique_ptr<Handle> handle, std::string path) {
  Elf* elf = handle->elf;
  GElf_Ehdr header{};
  if (elf == nullptr || elf_kind(elf) != ELF_K_ELF || gelf_getehdr(elf, &header) == nullptr) {
    return failure(ErrorCode::kMalformed, path + ": not an ELF file");
  }
  if (header.e_machine != kMachine || gelf_getclass(elf) != ELFCLASS64) {
    return failure(ErrorCode::kMalformed, path + ": an ELF file for another machine");
  }
  std::shared_ptr<ElfFile> result(new ElfFile(std::move(handle)));
  result->path_ = std::move(path);
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) count = 0;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr program{};
    if (gelf_getphdr(elf, static_cast<int>(i), &program) == nullptr) break;
    if (program.p_type == PT_INTERP) result->is_library_ = false;
    if (program.p_type == PT_GNU_EH_FRAME) {
      result->eh_frame_hdr_ = {.begin = program.p_vaddr, .end = program.p_vaddr + program.p_memsz};
    }
  }
  return result;
}

uint64_t ElfFile::own_page_bytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::optional<uint64_t> ElfFile::bias(const Mapping& mapping, uint64_t page_bytes) const {
  size_t count = 0;
  if (elf_getphdrnum(handle_->elf, &count) != 0) return std::nullopt;
  std::optional<uint64_t> bias;
  bool is_sure = false;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr program{};
    if (gelf_getphdr(handle_->elf, static_cast<int>(i), &program) == nullptr) break;
    const uint64_t start = program.p_offset / page_bytes * page_bytes;
    if (program.p_type != PT_LOAD || mapping.offset < start ||
        mapping.offset >= program.p_offset + program.p_filesz) {
      continue;
    }
    // One page of the file may hold the end of a segment and the begin of the next (lld links so),
    // each mapped elsewhere.
    const bool same_rights = ((program.p_flags & PF_X) != 0) == mapping.executable;
    if (is_sure && !same_rights) continue;
    bias = mapping.begin - (program.p_vaddr - program.p_offset + mapping.offset);
    is_sure = same_rights;
  }
  return bias;
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
  const ReadFrom from = {.elf = handle_->elf, .file = handle_->file.get()};
  const auto exported = exported_symbol(from, name);
  return exported || is_library_ ? exported : any_symbol(from, name);
}

ElfFile::Linking ElfFile::linking() const {
  Linking linking;
  std::string old_search;
  for_each_dynamic_text(handle_->elf, [&](Elf64_Sxword tag, const char* text) {
    if (tag == DT_NEEDED) linking.needed.emplace_back(text);
    if (tag == DT_SONAME) linking.name = text;
    if (tag == DT_RUNPATH) linking.search = text;
    if (tag == DT_RPATH) old_search = text;
  });
  if (linking.search.empty()) linking.search = old_search;
  return linking;
}

std::string ElfFile::build_id() const {
  std::string id;
  for_each_section(handle_->elf, [&](Elf_Scn* section, const GElf_Shdr& header) {
    Elf_Data* data = header.sh_type == SHT_NOTE ? elf_getdata(section, nullptr) : nullptr;
    if (data == nullptr) return true;
    GElf_Nhdr note{};
    size_t name = 0;
    size_t text = 0;
    for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name, &text)) > 0;) {
      const std::span bytes(static_cast<const uint8_t*>(data->d_buf), data->d_size);
      if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof ELF_NOTE_GNU) continue;
      for (const uint8_t byte : bytes.subspan(text, note.n_descsz))
        id += fmt::format("{:02x}", byte);
      return false;
    }
    return true;
  });
  return id;
}

std::vector<const ElfFile*> ElfFile::companions() const {
  auto& small = handle_->small_symbols;
  if (!small) {
    small = nullptr;
    const auto bytes = section_bytes(handle_->elf, ".gnu_debugdata");
    auto image = bytes.empty() ? std::vector<std::byte>() : decompress_xz(bytes);
    auto file = image.empty() ? nullptr : from_image(std::move(image), path_).value_or(nullptr);
    small = std::move(file);
  }
  std::vector<const ElfFile*> files;
  if (debug_file_) files.push_back(debug_file_.get());
  if (*small) files.push_back(small->get());
  return files;
}

std::vector<ElfSymbol> ElfFile::functions(std::span<const uint64_t> addresses) const {
  FunctionSearch search(addresses);
  const auto look_in = [&](const ElfFile& each) {
    search.look_in({.elf = each.handle_->elf, .file = each.handle_->file.get()});
  };
  look_in(*this);
  if (!search.all_sure()) {
    for (const ElfFile* file : companions())
      look_in(*file);
  }
  return search.found();
}

}  // namespace dlprobe
