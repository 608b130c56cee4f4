#include "lib/foreign/libraries.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

TEST(LibraryName, WhoKeepsThreads) {
  EXPECT_EQ(thread_keeper("/x/torch/lib/libgomp.so.1"), ThreadKeeper::kGnuOpenMp);
  EXPECT_EQ(thread_keeper("/x/libs/libgomp-a34b3233.so.1.0.0"), ThreadKeeper::kGnuOpenMp);
  EXPECT_EQ(thread_keeper("/x/libiomp5.so"), ThreadKeeper::kOtherOpenMp);
  EXPECT_EQ(thread_keeper("/x/cv2/cv2.abi3.so"), ThreadKeeper::kOpenCv);
  EXPECT_EQ(thread_keeper("/x/polars/polars.abi3.so"), ThreadKeeper::kPolars);
  EXPECT_EQ(thread_keeper("/x/_polars_runtime_32/_polars_runtime.abi3.so"), ThreadKeeper::kPolars);
  EXPECT_EQ(thread_keeper("/x/grpc/_cython/cygrpc.cpython-311-x86_64-linux-gnu.so"),
            ThreadKeeper::kGrpc);
  EXPECT_EQ(thread_keeper("/x/libopenblas.so.0"), ThreadKeeper::kNone);
  EXPECT_EQ(thread_keeper(""), ThreadKeeper::kNone);
}

TEST(LibraryName, WhoEndsForkedCopies) {
  EXPECT_TRUE(ends_forked_copies("/x/numba/np/ufunc/omppool.cpython-311-x86_64-linux-gnu.so"));
  EXPECT_FALSE(ends_forked_copies("/x/numba/np/ufunc/workqueue.cpython-311-x86_64-linux-gnu.so"));
}

}  // namespace
}  // namespace dlprobe
