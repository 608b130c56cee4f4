#include "lib/foreign/python_code.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

TEST(PythonCode, MultiprocessingIsKnownWhereverItsLibraryIs) {
  for (const char* file : {
           "/usr/lib/python3.11/multiprocessing/queues.py",
           "/opt/conda/envs/x/lib/python3.9/multiprocessing/queues.py",
           "/usr/lib64/python3.12/multiprocessing/queues.py",
           "/opt/app/python311.zip/multiprocessing/queues.py",
           "/src/cpython/Lib/multiprocessing/queues.py",
           "multiprocessing/queues.py",
           "<frozen multiprocessing.queues>",
           "/v/lib/python3.11/site-packages/multiprocess/queues.py",
           "/v/lib/python3.11/site-packages/billiard/queues.py",
       }) {
    EXPECT_TRUE(is_of_multiprocessing(file, "queues.py")) << file;
    EXPECT_TRUE(is_of_multiprocessing(file)) << file;
    EXPECT_FALSE(is_of_multiprocessing(file, "connection.py")) << file;
  }
  EXPECT_TRUE(is_of_multiprocessing("/v/site-packages/torch/multiprocessing/spawn.py", "spawn.py"));
  EXPECT_TRUE(is_of_multiprocessing("/src/pytorch/torch/multiprocessing/queue.py"));
}

TEST(PythonCode, AUsersFileOfTheSameNameIsNot) {
  for (const char* file : {
           "/srv/queues.py",
           "/srv/multiprocessing/queues.py",
           "/srv/lib/multiprocessing/queues.py",
           "/srv/data.zip/multiprocessing/queues.py",
           "/v/lib/python3.11/site-packages/acme/multiprocessing/queues.py",
           "/usr/lib/python3/dist-packages/multiprocessing/queues.py",
           "queues.py",
           "<string>",
           "<frozen multiprocessing_of_mine>",
       }) {
    EXPECT_FALSE(is_of_multiprocessing(file, "queues.py")) << file;
  }
  EXPECT_FALSE(is_of_standard_library("/srv/threading.py", "threading.py"));
  EXPECT_FALSE(is_of_torch("/srv/torch/train.py"));
}

TEST(PythonCode, FilesAndFoldersOfTheStandardLibrary) {
  EXPECT_TRUE(is_of_standard_library("/usr/lib/python3.11/threading.py", "threading.py"));
  EXPECT_TRUE(is_of_standard_library("<frozen threading>", "threading.py"));
  EXPECT_TRUE(is_of_standard_library("/usr/lib/python3.8/concurrent/futures/_base.py",
                                     "concurrent/futures/"));
  EXPECT_FALSE(
      is_of_standard_library("/v/lib/python3.8/site-packages/threading.py", "threading.py"));
}

TEST(PythonCode, WhatPytorchHasWhereverItIsInstalled) {
  EXPECT_TRUE(is_of_torch("/usr/lib/python3/dist-packages/torch/worker.py"));
  EXPECT_TRUE(is_of_torch("/srv/build/pytorch/torch/utils/data/dataloader.py"));
  EXPECT_TRUE(is_of_torch("torch/utils/data/dataloader.py"));
}

TEST(PythonCode, PathsFromThePackageOn) {
  EXPECT_EQ(path_in_library("/v/lib/python3.11/site-packages/torch/a.py"), "torch/a.py");
  EXPECT_EQ(path_in_library("/usr/lib/python3.11/threading.py"), "threading.py");
  EXPECT_EQ(path_in_library("/srv/train.py"), std::nullopt);
  EXPECT_TRUE(is_of_a_library("<frozen runpy>"));
  EXPECT_FALSE(is_of_a_library("/srv/train.py"));
  EXPECT_FALSE(is_of_a_library("<dynamic-code>"));
}

}  // namespace
}  // namespace dlprobe
