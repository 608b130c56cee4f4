#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/deadlock/facts.h"

namespace dlprobe::probes::deadlock {

/// A trainer, one of the ranks of a job, and its workers: main threads, indices into
/// Facts::threads.
struct Rank {
  size_t trainer = 0;
  std::vector<size_t> workers;
};

/// The trainers that the last snapshot shows, each with its workers. A process that is a member of
/// a process group (torch.distributed) is one, whatever started it.
std::vector<Rank> ranks_of(const Facts& facts);

/// An operation in which the ranks of a job wait for one another.
struct Collective {
  /// What the program called: "all_reduce", "Tensor.backward", "MPI_Allreduce".
  std::string operation;
  /// Ranks find one another: init_process_group, whose members may not be there yet.
  bool is_rendezvous = false;
  /// A message from one rank to another (send, recv, MPI_Recv), or a key of the store that one of
  /// them sets: the other ranks have no part in it.
  bool is_message = false;
  /// The program is over, and its library takes leave of the others (MPI_Finalize).
  bool is_end = false;
  /// The result of a function that another rank carries out (rpc_sync), or of something else that
  /// has a torch.futures.Future. The stack does not tell which.
  bool is_call = false;
  /// It waits for the GPU (cudaStreamSynchronize): for its own work, or for a collective of NCCL
  /// that was put into a stream before. The stack does not tell which.
  bool is_on_gpu = false;

  bool operator==(const Collective&) const = default;
};

/// The operation of one that stands at a multiprocessing.Barrier.
inline constexpr std::string_view kBarrierWait = "Barrier.wait";

/// The operation in which a thread is, by the frames of the library that it is in: those of
/// torch/distributed, its RPC and c10d (Gloo, NCCL, MPI and its stores below them), of an MPI
/// library, of NCCL itself, or of the runtime of a GPU; or a barrier of multiprocessing. Nothing if
/// it is in none.
std::optional<Collective> collective_of(const ThreadSnapshot& thread);

/// Whether it is the main thread of the process that multiprocessing.Manager() starts: it has no
/// task, and asks for its end once a second. What clients ask for its other threads do.
bool serves_a_manager(const ThreadSnapshot& thread);
/// Whether it is the thread by which that server answers one client.
bool answers_for_a_manager(const ThreadSnapshot& thread);

/// Whether it is in a call that waits for the GPU: asleep, or asking again and again.
bool waits_for_gpu(const ThreadSnapshot& thread);

/// Whether a native frame of the stack is in a function whose name begins so.
bool calls(const ThreadSnapshot& thread, std::string_view function);

/// Whether the process carries out calls of other ranks (torch.distributed.rpc), by the stacks of
/// the threads of its agent.
bool has_rpc_agent(const ProcessSnapshot& process);

/// What a rank waits in with others of its job.
struct RankWait {
  Collective in;
  /// The thread that stands in it, an index into Facts::threads: the main thread, one that carries
  /// out a call of another rank, or one in which autograd carries out the backward pass that the
  /// main thread waits for.
  size_t thread = 0;
  /// The thread whose stack shows the user's own code.
  size_t place = 0;
};

/// Nothing where the rank is in no collective. A wait for the GPU is one where the process is a
/// member of a group of NCCL.
std::optional<RankWait> wait_of(const Facts& facts, const Rank& rank);

/// The thread whose state is the rank's: the one that wait_of names; of a rank that waits for no
/// other one that carries out a call of another rank, or the main thread.
size_t thread_of(const Facts& facts, const Rank& rank);

}  // namespace dlprobe::probes::deadlock
