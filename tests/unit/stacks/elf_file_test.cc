#include "lib/stacks/native/elf_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/must.h"
#include "tests/support/read_text.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

std::shared_ptr<ElfFile> open_elf(const std::string& path) {
  auto file = ElfFile::open(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
  EXPECT_TRUE(file) << to_string(file.error());
  return file.value_or(nullptr);
}

class ElfFiles : public testing::Test {
 protected:
  void SetUp() override {
    whole_ = open_elf(DLPROBE_SYMBOL_PROGRAM);
    ASSERT_NE(whole_, nullptr);
    hidden_ = must(whole_->symbol("_ZN6sample12_GLOBAL__N_16hiddenEi"));
  }
  std::string name_in(const ElfFile& file) const {
    return file.functions(std::array{hidden_ + 1})[0].name;
  }

  std::shared_ptr<ElfFile> whole_;
  uint64_t hidden_ = 0;
};

constexpr const char* kHidden = "_ZN6sample12_GLOBAL__N_16hiddenEi";

TEST_F(ElfFiles, NameManyAddressesInTheirOrder) {
  const auto main_address = must(whole_->symbol("main"));
  const auto found = whole_->functions(std::array{hidden_ + 3, uint64_t{0x10}, main_address});
  EXPECT_EQ(found[0], (ElfSymbol{.name = kHidden, .offset = 3}));
  EXPECT_EQ(found[1].name, "");
  EXPECT_EQ(found[2], (ElfSymbol{.name = "main", .offset = 0}));
}

TEST(ElfFile, FindsWhatALibraryExports) {
  Dl_info info{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the interface of dladdr
  if (::dladdr(reinterpret_cast<void*>(&::getenv), &info) == 0)
    GTEST_SKIP() << "this program is static, as for aarch64: it has no libraries";
  const auto library = open_elf(info.dli_fname);
  ASSERT_NE(library, nullptr);
  const auto address = must(library->symbol("getenv"));
  EXPECT_EQ(library->functions(std::array{address + 1})[0].offset, 1);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as above
  EXPECT_EQ(address, reinterpret_cast<uint64_t>(&::getenv) -
                         // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as above
                         reinterpret_cast<uint64_t>(info.dli_fbase));
  EXPECT_FALSE(library->symbol("getenv_of_nobody"));
}

TEST_F(ElfFiles, FindASymbolByItsWholeNameAlone) {
  EXPECT_FALSE(whole_->symbol("hiddenEi"));
  EXPECT_FALSE(whole_->symbol("_ZN6sample12_GLOBAL__N_16hiddenE"));
}

TEST_F(ElfFiles, HaveABuildIdAndSections) {
  EXPECT_GE(whole_->build_id().size(), 16U);
  EXPECT_EQ(whole_->build_id().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_TRUE(whole_->section(".text")->contains(hidden_));
  EXPECT_TRUE(whole_->eh_frame_hdr());
  EXPECT_FALSE(whole_->section(".no_such_section"));
}

TEST_F(ElfFiles, OfAStrippedFileTheDebugFileHasTheNames) {
  const auto stripped = open_elf(DLPROBE_SYMBOL_PROGRAM ".stripped");
  EXPECT_EQ(stripped->build_id(), whole_->build_id());
  EXPECT_NE(name_in(*stripped), kHidden);
  stripped->set_debug_file(open_elf(DLPROBE_SYMBOL_PROGRAM ".debug"));
  EXPECT_EQ(name_in(*stripped), kHidden);
}

TEST_F(ElfFiles, CompressedSymbolsInAStrippedFileAreRead) {
  const std::string path = DLPROBE_SYMBOL_PROGRAM ".mini";
  if (::access(path.c_str(), R_OK) != 0)
    GTEST_SKIP() << "needs xz (package xz-utils) at build time";
  EXPECT_EQ(name_in(*open_elf(path)), kHidden);
}

TEST_F(ElfFiles, BiasIsThatOfTheSegmentThatIsMapped) {
  const auto text = must(whole_->section(".text"));
  constexpr uint64_t kAt = 0x7F00'0000'0000;
  // The program is linked so that addresses and offsets are the same there, but for the bias.
  const Mapping mapping{.begin = kAt, .end = kAt + 0x1000, .offset = text.begin / 4096 * 4096};
  const auto bias = must(whole_->bias(mapping));
  EXPECT_EQ(bias % 4096, 0U);
  EXPECT_FALSE(whole_->bias({.begin = kAt, .end = kAt + 0x1000, .offset = 1 << 30}));
}

// Two segments, the end of the first and the begin of the second in one page of the file.
std::vector<std::byte> image_of_lld() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
#if defined(__x86_64__)
  header.e_machine = EM_X86_64;
#else
  header.e_machine = EM_AARCH64;
#endif
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  std::array<Elf64_Phdr, 2> segments{};
  segments[0] = {.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x1e00};
  segments[1] = {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_X,
                 .p_offset = 0x1e00,
                 .p_vaddr = 0x2e00,
                 .p_filesz = 0x1000};
  std::vector<std::byte> image(0x3000);
  std::memcpy(image.data(), &header, sizeof header);
  std::memcpy(image.data() + sizeof header, segments.data(), sizeof segments);
  return image;
}

TEST(ElfFile, BiasOfAPageThatTwoSegmentsShare) {
  const auto file = must(ElfFile::from_image(image_of_lld(), "lld"));
  constexpr uint64_t kAt = 0x7F00'0000'0000;
  EXPECT_EQ(file->bias({.begin = kAt, .end = kAt + 0x2000}), kAt);
  // As the loader maps the second: its page of the file, at its page of the addresses.
  EXPECT_EQ(file->bias(
                {.begin = kAt + 0x2000, .end = kAt + 0x4000, .offset = 0x1000, .executable = true}),
            kAt);
  // As a kernel with pages of 64 KiB maps it, for which linkers leave more room.
  EXPECT_EQ(file->bias({.begin = kAt, .end = kAt + 0x10000, .executable = true}, 0x10000),
            kAt - 0x1000);
}

TEST_F(ElfFiles, DamagedOnesAreRefusedOrGiveNothing) {
  const std::string bytes = read_text(DLPROBE_SYMBOL_PROGRAM);
  const TemporaryFolder folder;
  folder.write("text", "#!/bin/sh\n");
  const auto text =
      ElfFile::open(UniqueFd(::open((folder / "text").c_str(), O_RDONLY | O_CLOEXEC)), "text");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kMalformed);
  for (size_t length = 0; length < bytes.size(); length += 97) {
    folder.write("cut", bytes.substr(0, length));
    const auto cut =
        ElfFile::open(UniqueFd(::open((folder / "cut").c_str(), O_RDONLY | O_CLOEXEC)), "cut");
    if (!cut) continue;
    (*cut)->functions(std::array{hidden_});
    (*cut)->build_id();
    (*cut)->section(".text");
  }
}

}  // namespace
}  // namespace dlprobe
