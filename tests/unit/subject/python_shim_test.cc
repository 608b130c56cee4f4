#include "lib/subject/python_shim.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/must.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string folder_of(const PythonShim& shim) {
  const std::string path = shim.environment().front().second;
  return path.substr(0, path.find(':'));
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void say(const std::string& folder, std::string_view text) {
  const int fifo = ::open((folder + "/events").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(fifo, 0);
  ASSERT_EQ(::write(fifo, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(fifo);
}

constexpr std::string_view kStarted = R"({"kind":"started","at":1,"pid":2,"start_ticks":3})";

unsigned mode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

TEST(PythonShim, ItsFolderIsPrivateAndGoesWithIt) {
  std::string folder;
  {
    const auto shim =
        must(PythonShim::prepare({.overrides = {.start_method = StartMethod::kSpawn}}));
    folder = folder_of(shim);
    const std::string outer = std::filesystem::path(folder).parent_path();
    if (::geteuid() == 0) {
      // Programs of root become other users, who reach it by its name alone.
      EXPECT_EQ(mode_of(outer), 0711U);
      EXPECT_EQ(mode_of(folder), 0755U);
      EXPECT_EQ(mode_of(folder + "/options"), 0644U);
      EXPECT_EQ(mode_of(folder + "/events"), 0622U);
      EXPECT_EQ(std::filesystem::path(folder).filename().native().size(), 32U);
    } else {
      EXPECT_EQ(mode_of(folder), 0700U);
    }
    EXPECT_EQ(text_of(folder + "/options"), "start_method=spawn\n");
    EXPECT_THAT(text_of(folder + "/sitecustomize.py"), HasSubstr("dlprobe_start"));
    std::ofstream(folder + "/left-by-python.pyc") << "x";
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  if (::geteuid() == 0) {
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(folder).parent_path()));
  }
}

TEST(PythonShim, TellsEveryOverride) {
  const auto shim =
      PythonShim::prepare({.overrides = {.start_method = StartMethod::kForkserver,
                                         .sharing_strategy = SharingStrategy::kFileSystem,
                                         .num_workers = 0,
                                         .prefetch_factor = 3,
                                         .force = true},
                           .tells_batches = true});
  ASSERT_TRUE(shim);
  EXPECT_EQ(text_of(folder_of(*shim) + "/options"),
            "start_method=forkserver\nsharing_strategy=file_system\nnum_workers=0\n"
            "prefetch_factor=3\nforce=1\nbatches=1\n");
}

TEST(PythonShim, ThePathThatWasSetComesAfterIts) {
  ::setenv("PYTHONPATH", "/a:/b", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const auto shim = must(PythonShim::prepare({}));
  const std::string path = shim.environment().front().second;
  ::unsetenv("PYTHONPATH");  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_TRUE(path.ends_with(":/a:/b")) << path;
}

TEST(PythonShim, EventsComeInOrderAndInPieces) {
  auto shim = must(PythonShim::prepare({}));
  const std::string folder = folder_of(shim);
  EXPECT_THAT(shim.read_new(), IsEmpty());
  const std::string line = std::string(kStarted) + "\n";
  say(folder, line + "not an event\n" + line + line.substr(0, 10));
  EXPECT_EQ(shim.read_new().size(), 2U);
  say(folder, line.substr(10));
  ASSERT_EQ(shim.read_new().size(), 1U);
  EXPECT_THAT(shim.read_new(), IsEmpty());
}

TEST(PythonShim, AProcessWithoutADescriptorLeavesALink) {
  auto shim = must(PythonShim::prepare({}));
  const std::string note = folder_of(shim) + "/note-2-1";
  std::filesystem::create_symlink(std::string(kStarted) + "\n", note);
  EXPECT_EQ(shim.read_new().size(), 1U);
  EXPECT_THAT(shim.read_new(), IsEmpty());
}

TEST(PythonShim, AnEndlessLineIsGivenUp) {
  auto shim = must(PythonShim::prepare({}));
  const std::string folder = folder_of(shim);
  for (int i = 0; i < 40; ++i) {
    say(folder, std::string(4000, 'x'));
    EXPECT_THAT(shim.read_new(), IsEmpty());
  }
  say(folder, "\n" + std::string(kStarted) + "\n");
  EXPECT_EQ(shim.read_new().size(), 1U);
}

TEST(PythonShim, SaysWhatWouldKeepItOut) {
  const auto why = [](std::vector<std::string> argv) {
    const auto command = parse_python_command(argv);
    return command ? why_shim_is_not_loaded(*command).value_or("") : "no Python";
  };
  EXPECT_EQ(why({"python3", "train.py", "-I"}), "");
  EXPECT_THAT(why({"python3", "-I", "train.py"}), HasSubstr("-I"));
  EXPECT_THAT(why({"python3", "-E", "train.py"}), HasSubstr("-E"));
  EXPECT_THAT(why({"python3", "-S", "train.py"}), HasSubstr("-S"));
  EXPECT_THAT(why({"env", "-i", "python3", "train.py"}), HasSubstr("env -i"));
  EXPECT_THAT(why({"env", "PYTHONPATH=/x", "python3", "train.py"}), HasSubstr("PYTHONPATH"));
  EXPECT_EQ(why({"env", "A=b", "python3", "train.py"}), "");
}

}  // namespace
}  // namespace dlprobe
