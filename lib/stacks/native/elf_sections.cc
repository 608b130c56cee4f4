#include "lib/stacks/native/elf_sections.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

namespace dlprobe {
namespace {

/// Where a section of texts has `name`, at the begin of a text or at its end: linkers let names
/// share their ends.
std::set<uint64_t> places_of(const SectionReader& strings, std::string_view name) {
  constexpr size_t kAtOnce = size_t{64} << 10;
  constexpr size_t kMostPlaces = 1024;  // a file may be made to have millions
  const std::string wanted = std::string(name) + '\0';
  std::set<uint64_t> places;
  std::string part;
  for (uint64_t offset = 0; offset < strings.size() && places.size() < kMostPlaces;) {
    const size_t kept = std::min(part.size(), wanted.size() - 1);
    part.erase(0, part.size() - kept);
    part.resize(kept + kAtOnce);
    const size_t got = strings.read(offset, std::as_writable_bytes(std::span(part).subspan(kept)));
    if (got == 0) break;
    part.resize(kept + got);
    for (size_t at = part.find(wanted); at != std::string::npos; at = part.find(wanted, at + 1))
      places.insert(offset - kept + at);
    offset += got;
  }
  return places;
}

SectionReader names_of(const ReadFrom& from, const SectionReader& symbols) {
  return {from, elf_getscn(from.elf, symbols.header().sh_link)};
}

/// The symbol of a name in a table that is searched from its begin to its end.
std::optional<uint64_t> search_symbol(const ReadFrom& from, GElf_Word type, std::string_view name) {
  const auto table = section_of_type(from, type);
  if (!table) return std::nullopt;
  const std::set<uint64_t> places = places_of(names_of(from, *table), name);
  std::optional<uint64_t> found;
  if (places.empty()) return found;
  for_each_symbol(*table, [&](const Elf64_Sym& symbol) {
    if (symbol.st_shndx != SHN_UNDEF && places.contains(symbol.st_name)) found = symbol.st_value;
    return !found;
  });
  return found;
}

/// What the dynamic linker's hash function makes of a name (`dl_new_hash` of glibc 2.36).
uint32_t gnu_hash(std::string_view name) {
  uint32_t hash = 5381;
  for (const char c : name)
    hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

/// The symbol that a file exports by a name, as the dynamic linker finds it: by .gnu.hash, of which
/// few words are read. Its layout: four words, `bloom_words` of 8 bytes, the buckets, and a word
/// for each symbol from `first_symbol` on, whose last bit ends a bucket.
class GnuHash {
 public:
  GnuHash(SectionReader table, SectionReader symbols, SectionReader strings)
      : table_(table), symbols_(symbols), strings_(strings) {}

  std::optional<uint64_t> find(std::string_view name) const {
    constexpr int kLongestChain = 4096;
    struct Header {
      uint32_t buckets;
      uint32_t first_symbol;
      uint32_t bloom_words;
      uint32_t bloom_shift;
    };
    const auto header = table_.value<Header>(0);
    if (!header || header->buckets == 0) return std::nullopt;
    const uint32_t hash = gnu_hash(name);
    const uint64_t buckets = sizeof(Header) + header->bloom_words * sizeof(uint64_t);
    const uint64_t chains = buckets + header->buckets * sizeof(uint32_t);
    const auto first = table_.value<uint32_t>(buckets + hash % header->buckets * sizeof(uint32_t));
    if (!first || *first < header->first_symbol) return std::nullopt;
    for (uint32_t i = 0; i < kLongestChain; ++i) {
      const uint64_t link = *first - header->first_symbol + i;
      const auto value = table_.value<uint32_t>(chains + link * sizeof(uint32_t));
      if (!value) return std::nullopt;
      if ((*value | 1) == (hash | 1))
        if (const auto address = defined(uint64_t{*first} + i, name)) return address;
      if ((*value & 1) != 0) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  std::optional<uint64_t> defined(uint64_t index, std::string_view name) const {
    const auto symbol = symbols_.value<Elf64_Sym>(index * sizeof(Elf64_Sym));
    if (!symbol || symbol->st_shndx == SHN_UNDEF || strings_.text(symbol->st_name) != name)
      return std::nullopt;
    return symbol->st_value;
  }

  SectionReader table_;
  SectionReader symbols_;
  SectionReader strings_;
};

}  // namespace

SectionReader::SectionReader(const ReadFrom& from, Elf_Scn* section) : file_(from.file) {
  if (gelf_getshdr(section, &header_) == nullptr) return;
  if (header_.sh_type == SHT_NOBITS || (header_.sh_flags & SHF_COMPRESSED) != 0) return;
  if (file_ >= 0) {
    size_ = header_.sh_size;
  } else if (const Elf_Data* data = elf_rawdata(section, nullptr);
             data != nullptr && data->d_buf != nullptr) {
    bytes_ = {static_cast<const std::byte*>(data->d_buf), data->d_size};
    size_ = bytes_.size();
  }
}

size_t SectionReader::read(uint64_t offset, std::span<std::byte> into) const {
  if (offset >= size_) return 0;
  into = into.first(std::min<uint64_t>(into.size(), size_ - offset));
  if (file_ < 0) {
    std::ranges::copy(bytes_.subspan(offset, into.size()), into.begin());
    return into.size();
  }
  const ssize_t got =
      ::pread(file_, into.data(), into.size(), static_cast<off_t>(header_.sh_offset + offset));
  return got < 0 ? 0 : static_cast<size_t>(got);
}

std::string SectionReader::text(uint64_t offset) const {
  constexpr size_t kStep = 256;
  constexpr size_t kLongest = size_t{16} << 10;
  std::string text;
  while (text.size() < kLongest) {
    std::array<std::byte, kStep> part{};
    const size_t got = read(offset, part);
    if (got == 0) return {};
    const auto chars = std::bit_cast<std::array<char, kStep>>(part);
    const std::string_view piece(chars.data(), got);
    text += piece.substr(0, piece.find('\0'));
    if (piece.contains('\0')) return text;
    offset += got;
  }
  return {};
}

std::optional<SectionReader> section_of_type(const ReadFrom& from, GElf_Word type) {
  std::optional<SectionReader> found;
  for_each_section(from.elf, [&](Elf_Scn* section, const GElf_Shdr& header) {
    if (header.sh_type == type) found.emplace(from, section);
    return !found;
  });
  return found;
}

std::optional<uint64_t> exported_symbol(const ReadFrom& from, std::string_view name) {
  const auto hashes = section_of_type(from, SHT_GNU_HASH);
  const auto symbols = section_of_type(from, SHT_DYNSYM);
  if (!hashes || !symbols) return search_symbol(from, SHT_DYNSYM, name);
  return GnuHash(*hashes, *symbols, names_of(from, *symbols)).find(name);
}

std::optional<uint64_t> any_symbol(const ReadFrom& from, std::string_view name) {
  return search_symbol(from, SHT_SYMTAB, name);
}

}  // namespace dlprobe
