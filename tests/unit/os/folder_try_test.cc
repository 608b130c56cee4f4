#include "lib/os/folder_try.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

TEST(FolderTry, TellsInHowManyFoldersItLooked) {
  const TemporaryFolder folder;
  for (int i = 0; i < 1001; ++i)
    std::filesystem::create_directory(folder.path() + "/" + std::to_string(i));
  const auto tried = try_folder(folder.path(), FolderUse::kRead, 10'000);
  ASSERT_TRUE(tried);
  EXPECT_EQ(tried->trouble, "no file in the first 1000 folders below " + folder.path());
}

}  // namespace
}  // namespace dlprobe
