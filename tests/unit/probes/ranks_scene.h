#pragma once

#include <cstdint>
#include <string>

#include "tests/unit/probes/hang_scene.h"

namespace dlprobe {

inline constexpr int32_t kFirst = HangScene::kTrainer;
inline constexpr const char* kC10d =
    "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";
inline constexpr int kLong = 12;  // looks
inline constexpr int kAMinute = 62;

// Rank 0 is pid 100, ranks 1 and 2 are 101 and 102; each trains without workers.
class Ranks {
 public:
  Ranks() {
    for (int32_t rank = 0; rank < 3; ++rank) {
      ProcessInfo& info = scene.info(kFirst + rank);
      info.role = Role::kTrainer;
      info.start_method.reset();
      info.ppid = 50;
      info.rank = JobRank{.job = "10.0.0.1:29500", .rank = rank, .world_size = 3, .source = "RANK"};
      waits(rank, "all_reduce", 41);
    }
  }

  ThreadSnapshot& main(int32_t rank) { return scene.main(kFirst + rank); }

  void waits(int32_t rank, const std::string& operation, int line) {
    scene.wait_in_futex(main(rank), futex(LockKind::kCondition, 0x7000));
    scene.stack(main(rank), {native("_ZN4c10d4Work4waitE", "/usr/lib/libtorch_cpu.so"),
                             python(operation, kC10d, 5), python("main", "/srv/train.py", line)});
  }

  void works(int32_t rank) {
    scene.run(main(rank));
    scene.stack(main(rank), {python("evaluate", "/srv/train.py", 20)});
  }

  void sleeps(int32_t rank) {
    scene.sleep(main(rank));
    scene.stack(main(rank), {python("upload", "/srv/train.py", 17)});
  }

  // It asks again and again whether others have come.
  void polls(int32_t rank) {
    scene.sleep(main(rank));
    scene.wakes(main(rank));
    scene.stack(main(rank), {python("poll", "/srv/train.py", 41)});
  }

  // A member of a group of NCCL, whose collectives are on the GPU; the stack is one of a report to
  // PyTorch (issue 95944): `_local_scalar_dense_cuda` is Tensor.item().
  void waits_for_gpu(int32_t rank, int line, const std::string& call = "cudaMemcpyAsync") {
    constexpr int32_t kWatchdogs = 200;
    const int32_t pid = kFirst + rank;
    ThreadSnapshot& watchdog = scene.add_thread(pid, kWatchdogs + rank);
    scene.stack(watchdog, {native("_ZN4c10d16ProcessGroupNCCL16ncclCommWatchdogEv",
                                  "/usr/lib/torch/lib/libtorch_cuda.so")});
    scene.run(main(rank));
    scene.stack(main(rank), {native("", "/lib64/libcuda.so.1"), native("", "/lib64/libcuda.so.1"),
                             native(call, "/usr/local/cuda/lib64/libcudart.so.12"),
                             native("_ZN2at6native25_local_scalar_dense_cudaERKNS_6TensorE",
                                    "/usr/lib/torch/lib/libtorch_cuda.so"),
                             python("main", "/srv/train.py", line)});
  }

  // In torch.distributed.rpc, whose agents have a thread that looks for calls to repeat.
  void answers_calls(int32_t rank) {
    const int32_t pid = kFirst + rank;
    scene.stack(scene.add_thread(pid, 400 + rank),
                {native("_ZN5torch11distributed3rpc8RpcAgent16retryExpiredRpcsEv", kTorch)});
    scene.wait_in_futex(main(rank), futex(LockKind::kCondition, 0x7200));
    scene.stack(main(rank), {python("_wait_all_workers", kRpc, 9), python("wrapper", kRpc, 5),
                             python("shutdown", kRpc, 9), python("wrapper", kRpc, 5),
                             python("main", "/srv/train.py", 50)});
  }

  void calls_another(int32_t rank) {
    answers_calls(rank);
    scene.stack(main(rank), {native("_ZN5torch3jit19PythonFutureWrapper4waitEv", kTorch),
                             python("rpc_sync", kRpc, 9), python("wrapper", kRpc, 5),
                             python("main", "/srv/train.py", 41)});
  }

  // The thread in which that rank carries out a call of another one.
  ThreadSnapshot& carries_out_a_call(int32_t rank) {
    const int32_t pid = kFirst + rank;
    ThreadSnapshot& thread = scene.add_thread(pid, 500 + rank);
    scene.stack(
        thread,
        {python("serve", "/srv/train.py", 16),
         python("_run_function", "/usr/lib/python3/dist-packages/torch/distributed/rpc/internal.py",
                9),
         native("_ZN5torch11distributed3rpc23RequestCallbackNoPython14processMessageEv", kTorch)});
    return thread;
  }

  static constexpr const char* kTorch = "/usr/lib/torch/lib/libtorch_cpu.so";
  static constexpr const char* kRpc = "/usr/lib/python3/dist-packages/torch/distributed/rpc/api.py";
  HangScene scene{2};
};

}  // namespace dlprobe
