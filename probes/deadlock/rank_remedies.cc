#include "probes/deadlock/rank_remedies.h"

#include <optional>
#include <utility>

#include "lib/model/rank_words.h"
#include "probes/deadlock/ranks.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {

bool is_in(const RankState& rank, MeetingKind kind) {
  return rank.meeting && rank.meeting->kind == kind;
}

bool is_in_message(const RankState& rank) {
  return is_in(rank, MeetingKind::kMessage);
}

bool is_at_barrier(const RankState& rank) {
  return rank.meeting && rank.meeting->operation == kBarrierWait;
}

bool is_in_mpi(const RankState& rank) {
  return rank.meeting && rank.meeting->operation.starts_with("MPI_");
}

namespace {

// For a rank that is at something else while `waiter` waits for it.
Remedy remedy_to_meet(const RankState& waiter) {
  if (is_in(waiter, MeetingKind::kCall))
    return {.title = "Let a call end by a timeout: the caller's traceback then names it",
            .commands = {"rpc.rpc_sync(to, func, args, timeout=SECONDS)"}};
  const Message title =
      "Do that work on every rank, or outside of the part in which the others wait; or let ";
  if (is_in_mpi(waiter))
    return {.title = title + "all meet in a barrier after it", .commands = {"comm.Barrier()"}};
  if (is_at_barrier(waiter))
    return {.title = title + "the wait end by a timeout", .commands = {"barrier.wait(timeout=60)"}};
  return {.title = title + "them wait in a barrier with a timeout of its own",
          .commands = {"group = torch.distributed.new_group(backend='gloo')",
                       "torch.distributed.monitored_barrier(group, timeout=...)"}};
}

Remedy remedy_for_groups() {
  return {.title =
              "Was that operation meant for a group of fewer ranks? Each rank of a group has "
              "to call it, and every rank of the job new_group()",
          .commands = {"torch.distributed.all_reduce(tensor, group=group)"}};
}

}  // namespace

Remedy remedy_to_look(const RankState& rank) {
  const Message where = rank.node.empty() ? Message("there") : "there, on " + as_host(rank.node);
  return {.title = "Look at what that rank does " + where,
          .commands = {"dlprobe stacks " + own(rank.process.pid)}};
}

Remedy remedy_for_loader(const RankState& rank) {
  return {.title =
              "Find out why its loader is late: more workers, or less work for each sample, if "
              "nothing in it is stuck",
          .commands = {"dlprobe attach " + own(rank.process.pid)}};
}

// By what the rank does while the others wait for it.
std::optional<Remedy> remedy_for(const RankState& rank, const RankState& waiter) {
  if (rank.cause) {
    const OwnWords code = own(info(rank.cause->code).code);
    return Remedy{.title = "Mend what holds that rank: " + code + " says what it is",
                  .commands = {"dlprobe explain " + code}};
  }
  switch (rank.doing) {
    case RankDoing::kWorks:
    case RankDoing::kSleeps:
      return remedy_to_meet(waiter);
    case RankDoing::kPolls:
      return Remedy{.title =
                        "Find out what that loop waits for (a file, a flag, another process) and "
                        "who was to bring it about; let it raise after a deadline"};
    case RankDoing::kWaitsForBatch:
      return remedy_for_loader(rank);
    case RankDoing::kWaitsForChild:
      return Remedy{.title =
                        "Run that process before the others begin to wait (a compiler: fill "
                        "its cache beforehand), or do not wait for it there"};
    case RankDoing::kMeets:
      if (rank.goes_on_meeting()) return remedy_for_groups();
      break;
    case RankDoing::kWaits:
      if (rank.other.has_no_end)
        return Remedy{
            .title =
                "Let no thread or rank keep a lock, or anything else that this one needs, "
                "while it waits for the other ranks"};
      break;
    case RankDoing::kEnded:
      break;
  }
  return std::nullopt;
}

// Of a collective on the GPU the stacks do not tell which it is.
Remedy remedy_to_see_the_gpu() {
  return {.title =
              "Let each call wait for its own work: the traceback then names the kernel that "
              "does not end; if none does, see whether NCCL's connections work",
          .commands = {"CUDA_LAUNCH_BLOCKING=1", "NCCL_DEBUG=INFO"}};
}

void add_remedy_to_record(Finding& finding) {
  finding.advise(
      "Let each rank keep its last collectives, and write them when one times out: "
      "torchfrtrace then says which rank is missing in which",
      {"TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"});
}

Remedy same_number_of_batches() {
  return {.title = "Give every rank the same number of batches",
          .commands = {"DistributedSampler(dataset, drop_last=True)",
                       "DataLoader(..., drop_last=True)"}};
}

void add_remedies_for_uneven_data(Finding& finding, bool is_mpi) {
  if (is_mpi) {
    finding.advise(
        "Let every rank take part in the same operations, and an exception in one end all",
        {"mpirun -n N python -m mpi4py train.py"});
    return;
  }
  finding.remedies.push_back(same_number_of_batches());
  finding.advise(
      "Or let ranks that are through take part until the last one is (PyTorch: "
      "torch.distributed.algorithms.join)",
      {"with Join([model]): ..."});
}

void add_remedies_for_gone(Finding& finding, const RankState& waiter, const RankState* ended) {
  if (finding.code == FindingCode::kUnevenData)
    return add_remedies_for_uneven_data(finding, is_in_mpi(waiter));
  if (ended != nullptr && ended->wait_status == 0) {
    finding.advise("Let every rank come to where they meet, also one that has no data",
                   {"torch.distributed.init_process_group(...)  # before anything that may end "
                    "the rank"});
    return;
  }
  const bool is_elsewhere = finding.code == FindingCode::kRankBehind;
  finding.advise(
      is_elsewhere ? "See whether that rank was started, or has ended; look at those of other nodes"
                   : "Find out how that rank ended: its own log, the launcher's",
      {is_elsewhere ? "dlprobe attach PID" : "dlprobe run -- COMMAND"});
}

Remedy remedy_to_match(const RankState& rank) {
  const bool is_mpi = is_in_mpi(rank);
  if (rank.meeting && rank.meeting->operation.contains("Store.")) {
    return {.title =
                "Let a rank set that key before it waits for the others, or the others wait "
                "for it, too",
            .commands = {"store.set(key, value)", "torch.distributed.barrier()"}};
  }
  if (is_at_barrier(rank)) {
    return {.title = "Make the barrier for as many as come to it: each party has to call wait()",
            .commands = {"multiprocessing.Barrier(parties)"}};
  }
  if (is_in_message(rank)) {
    return {.title =
                "Each receive needs a send of the rank that it names, and each send a receive; "
                "where two ranks exchange something, let one call do both",
            .commands = {is_mpi ? "comm.sendrecv(data, dest=other, source=other)"
                                : "torch.distributed.batch_isend_irecv([send, receive])"}};
  }
  Remedy remedy = {.title =
                       "Every rank has to call the same collective operations in the same "
                       "order: look for a branch on the rank, or a loop that is shorter on "
                       "one of them"};
  if (!is_mpi) remedy.commands.emplace_back("TORCH_DISTRIBUTED_DEBUG=DETAIL");
  return remedy;
}

}  // namespace dlprobe::probes::deadlock
