#include "lib/collect/deaths/mapped_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kMappedBytes = 8192;

/// One file, /data/x, of which 8 KiB are mapped.
class MappedFiles : public testing::Test {
 protected:
  MappedFiles() {
    files_.alias("/proc/1/root", "");
    files_.add("/proc/1/maps", "");
    set_file(kMappedBytes, kMappedBytes);
    set_free(0);
  }
  void set_file(uint64_t size, uint64_t allocated) {
    files_.set_stat(
        "/data/x",
        {.inode = 7, .mode = S_IFREG | 0644U, .size_bytes = size, .allocated_bytes = allocated});
  }
  void set_free(uint64_t bytes) {
    files_.set_use("/data/x",
                   {.size_bytes = uint64_t{1} << 20, .used_bytes = (uint64_t{1} << 20) - bytes});
  }
  std::vector<Event> events() const { return events_of({mapping_}); }
  std::vector<Event> events_of(std::vector<Mapping> mappings) const {
    return faulty_mapped_files(**files_.open_directory("/proc/1"),
                               AddressSpace(std::move(mappings)));
  }

  FakeFiles files_;
  Mapping mapping_{.begin = 4096,
                   .end = 4096 + kMappedBytes,
                   .readable = true,
                   .writable = true,
                   .shared = true,
                   .inode = 7,
                   .path = "/data/x"};
};

TEST_F(MappedFiles, AWholeFileIsNone) {
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(MappedFiles, OneWithHolesOnAFullFileSystemIs) {
  set_file(kMappedBytes, 4096);
  ASSERT_THAT(events(), SizeIs(1));
  EXPECT_EQ(events().front().kind, "mapped-file-without-room");
  EXPECT_THAT(events().front().text.plain(), HasSubstr("/data/x is full: 0 B of 1.0 MiB free"));
  mapping_.shared = false;
  EXPECT_THAT(events(), IsEmpty()) << "what is written goes to memory";
  mapping_.shared = true;
  set_free(uint64_t{1} << 19);
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(MappedFiles, OneThatEndsBeforeItsMappingIs) {
  set_file(4096, 4096);
  ASSERT_THAT(events(), SizeIs(1));
  EXPECT_EQ(events().front().kind, "mapped-file-cut-short");
  EXPECT_THAT(events().front().text.plain(), HasSubstr("/data/x has 4.0 KiB, and 8.0 KiB"));
  mapping_.readable = mapping_.writable = false;
  EXPECT_THAT(events(), IsEmpty()) << "a gap between the parts of a library";
  mapping_.readable = true;
  mapping_.inode = 8;
  EXPECT_THAT(events(), IsEmpty()) << "another file has its name by now";
}

TEST_F(MappedFiles, ALibraryThatIsMappedInPartsIsOneFile) {
  set_file(4096, 4096);
  Mapping next = mapping_;
  next.begin = mapping_.end;
  next.end = next.begin + kMappedBytes;
  next.offset = kMappedBytes;
  EXPECT_THAT(events_of({mapping_, next}), SizeIs(1));
}

TEST_F(MappedFiles, ThePartOfAPageAfterTheEndIsThere) {
  set_file(4097, kMappedBytes);
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(MappedFiles, OfOneThatIsGoneTheFileSystemThatIsFullIsKnown) {
  files_.add("/proc/1/mountinfo",
             "36 35 98:0 / /data/x rw shared:1 - tmpfs none rw,size=1024k\n"
             "37 35 99:0 / /sys/x rw - efivarfs none rw\n");
  const auto full = [&] { return full_file_systems(**files_.open_directory("/proc/1")); };
  ASSERT_THAT(full(), SizeIs(1));
  EXPECT_THAT(full().front().text.plain(), HasSubstr("at /data/x is full: 0 B of 1.0 MiB free"));
  set_free(uint64_t{1} << 19);
  EXPECT_THAT(full(), IsEmpty());
}

}  // namespace
}  // namespace dlprobe
