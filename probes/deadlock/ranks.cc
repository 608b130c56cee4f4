#include "probes/deadlock/ranks.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <set>
#include <string_view>

#include "lib/base/function_name.h"
#include "lib/base/path_name.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/rules.h"

namespace dlprobe::probes::deadlock {
namespace {

bool is_of_c10d(const StackFrame& frame) {
  return !frame.python && frame.file.contains("torch") &&
         short_function_name(frame.function).starts_with("c10d::");
}

// It has threads that carry out a process group's operations, or answer calls of other ranks.
bool is_member_of_job(const ProcessSnapshot& process) {
  return std::ranges::any_of(
             process.threads,
             [](const ThreadSnapshot& thread) { return calls(thread, "c10d::ProcessGroup"); }) ||
         has_rpc_agent(process);
}

// multiprocessing.Barrier is threading's class with a condition of multiprocessing's. Further out
// threading.py may be what started the process.
bool is_at_barrier(const ThreadSnapshot& thread) {
  const StackFrame* asker = asker_of(thread);
  const StackFrame* inner = python_frame(thread);
  return asker != nullptr && asker != inner && base_name(asker->file) == "threading.py";
}

// The main threads of processes that share a multiprocessing.Barrier at which some of them stand,
// but not who waits for the ends of the others. Empty where all have come to it.
std::vector<size_t> parties_of_barriers(const Facts& facts) {
  std::set<uint64_t> barriers;
  for (const ThreadFacts& thread : facts.threads) {
    const auto in = collective_of(*thread.thread);
    if (thread.is_main() && in && in->operation == kBarrierWait)
      barriers.insert(futex_of(thread).inode);
  }
  std::vector<size_t> parties;
  bool all_have_come = true;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    const bool shares = std::ranges::any_of(
        thread.process->sem_locks,
        [&](const SemLockState& state) { return barriers.contains(state.inode); });
    const bool is_launcher = thread.need.kind == NeedKind::kChild || waits_for_ends(*thread.thread);
    if (!shares || !thread.is_main() || is_launcher) continue;
    parties.push_back(i);
    all_have_come = all_have_come && collective_of(*thread.thread).has_value();
  }
  return all_have_come ? std::vector<size_t>() : parties;
}

std::vector<size_t> trainers_of(const Facts& facts) {
  const std::vector<size_t> parties = parties_of_barriers(facts);
  std::vector<size_t> members;
  std::vector<size_t> trainers;
  bool all_are_trainers = true;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (!thread.is_main()) continue;
    const bool is_trainer = thread.role() == Role::kTrainer;
    if (is_trainer) trainers.push_back(i);
    const auto in = collective_of(*thread.thread);
    const bool is_member = is_member_of_job(*thread.process) || (in && in->is_rendezvous) ||
                           std::ranges::count(parties, i) > 0;
    if (!is_member) continue;
    members.push_back(i);
    all_are_trainers = all_are_trainers && is_trainer;
  }
  return all_are_trainers ? trainers : members;
}

// The trainer that a worker comes from, be it by a fork server; null: none that is here.
Rank* rank_above(const Facts& facts, const ThreadFacts& worker, std::vector<Rank>& ranks) {
  constexpr int kMostLevels = 4;
  const ProcessInfo* process = worker.info;
  for (int level = 0; level < kMostLevels && process != nullptr; ++level) {
    const int32_t parent = process->ppid;
    const auto rank = std::ranges::find_if(ranks, [&](const Rank& each) {
      return facts.threads[each.trainer].process->key.pid == parent;
    });
    if (rank != ranks.end()) return &*rank;
    const auto found = std::ranges::find_if(
        facts.run->processes, [&](const ProcessInfo& each) { return each.key.pid == parent; });
    process = found == facts.run->processes.end() ? nullptr : &*found;
  }
  return nullptr;
}

// "_no_grad.<locals>._no_grad_wrapper", "Module._wrapped_call_impl": nobody calls these by name.
bool is_wrapper(const StackFrame& frame) {
  const size_t dot = frame.function.rfind('.');
  const size_t name = dot == std::string::npos ? 0 : dot + 1;
  return frame.function.contains("<locals>") || frame.function.substr(name).starts_with('_');
}

// Of the frames that the program has called, the outermost of torch's own Python; a wrapper only
// where there is nothing else.
const StackFrame* outermost_of_torch(std::span<const StackFrame> called) {
  const StackFrame* wrapper = nullptr;
  for (const StackFrame& frame : called | std::views::reverse) {
    if (!frame.python || !is_of_torch(frame.file)) continue;
    if (!is_wrapper(frame)) return &frame;
    if (wrapper == nullptr) wrapper = &frame;
  }
  return wrapper;
}

bool is_of_mpi(const StackFrame& frame) {
  return !frame.python && base_name(frame.file).starts_with("libmpi") &&
         (frame.function.starts_with("MPI_") || frame.function.starts_with("PMPI_") ||
          frame.function == "ompi_mpi_finalize");
}

Collective operation_of_mpi(const StackFrame& frame) {
  const size_t name = frame.function.find("MPI_");
  if (name == std::string::npos) return {.operation = "MPI_Finalize", .is_end = true};
  constexpr auto kMessages = std::to_array<std::string_view>(
      {"MPI_Recv", "MPI_Send", "MPI_Ssend", "MPI_Bsend", "MPI_Rsend", "MPI_Sendrecv", "MPI_Probe",
       "MPI_Mprobe", "MPI_Mrecv", "MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"});
  Collective found{.operation = frame.function.substr(name)};
  found.is_message = std::ranges::count(kMessages, found.operation) > 0;
  found.is_end = found.operation == "MPI_Finalize";
  return found;
}

// Where launchers of torchrun, one of each node, find one another.
bool is_of_launchers_meeting(const StackFrame& frame) {
  return frame.python && is_of_torch(frame.file) &&
         frame.file.contains("torch/distributed/elastic/rendezvous/") &&
         frame.function.ends_with("next_rendezvous");
}

// NCCL, and what takes its place on other GPUs. Torch may carry it within libtorch_cuda.so.
bool is_of_nccl(const StackFrame& frame) {
  const std::string_view file = base_name(frame.file);
  return !frame.python && (file.starts_with("libnccl.") || file.starts_with("librccl."));
}

// The runtime and the driver of a GPU: who asks them to wait for it sleeps there, or, as they do if
// not told otherwise, asks again and again.
bool is_of_gpu(const StackFrame& frame) {
  constexpr auto kLibraries = std::to_array<std::string_view>(
      {"libcuda.so", "libcudart.so", "libcudart-", "libamdhip64.so", "libhsa-runtime64.so"});
  return !frame.python && std::ranges::any_of(kLibraries, [&](std::string_view each) {
    return base_name(frame.file).starts_with(each);
  });
}

// "c10d::ProcessGroupNCCL::WorkNCCL::wait" is "WorkNCCL.wait".
std::string name_of_method(std::string_view function) {
  const size_t method = function.rfind("::");
  if (method == std::string_view::npos) return std::string(function);
  const size_t before = function.substr(0, method).rfind("::");
  const size_t type = before == std::string_view::npos ? 0 : before + 2;
  return std::string(function.substr(type, method - type)) + "." +
         std::string(function.substr(method + 2));
}

Collective operation_of_c10d(const StackFrame& frame) {
  const std::string function = short_function_name(frame.function);
  return {.operation = name_of_method(function),
          .is_message = function.contains("::SendWork::") || function.contains("::RecvWork::") ||
                        function.contains("Store::")};
}

// Of a call into a library: drivers have names of few of their functions.
std::string name_of_call(const StackFrame& frame, std::string_view library) {
  return frame.function.empty() ? std::string(library) : short_function_name(frame.function);
}

Collective operation_of_torch(const std::string& function) {
  constexpr auto kMessages = std::to_array<std::string_view>(
      {"send", "recv", "isend", "irecv", "send_object_list", "recv_object_list"});
  return {.operation = function,
          .is_rendezvous = function == "init_process_group",
          .is_message = std::ranges::count(kMessages, function) > 0,
          .is_end = function == "destroy_process_group"};
}

// Of torch.distributed.rpc, in Python: what the program asked for, outermost. Its decorator of all
// functions has the name `wrapper`.
std::optional<Collective> operation_of_rpc(std::span<const StackFrame> called) {
  const auto outwards = called | std::views::reverse;
  const auto asked = std::ranges::find_if(outwards, [](const StackFrame& frame) {
    return frame.python && is_of_torch(frame.file) &&
           (frame.file.ends_with("torch/distributed/rpc/api.py") ||
            frame.file.ends_with("torch/distributed/rpc/__init__.py")) &&
           !frame.function.ends_with("wrapper");
  });
  if (asked == outwards.end()) return std::nullopt;
  const bool is_init = asked->function == "init_rpc";
  const bool is_end = asked->function == "shutdown";
  return Collective{.operation = asked->function,
                    .is_rendezvous = is_init,
                    .is_end = is_end,
                    .is_call = !is_init && !is_end};
}

// The same where the program asks for the result itself: Future.wait(), RRef.to_here().
std::optional<Collective> wait_for_result(std::span<const StackFrame> called) {
  for (const StackFrame& frame : called) {
    const std::string function = frame.python ? std::string() : short_function_name(frame.function);
    if (function.starts_with("torch::jit::PythonFutureWrapper::wait"))
      return Collective{.operation = "Future.wait", .is_call = true};
    if (function.starts_with("torch::distributed::rpc::PyRRef::toHere"))
      return Collective{.operation = "RRef.to_here", .is_call = true};
  }
  return std::nullopt;
}

}  // namespace

namespace {

bool is_in_manager(const ThreadSnapshot& thread, std::string_view method) {
  return std::ranges::any_of(thread.stack, [&](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "managers.py") &&
           frame.function.ends_with(method);
  });
}

}  // namespace

bool serves_a_manager(const ThreadSnapshot& thread) {
  return is_in_manager(thread, "serve_forever");
}

bool answers_for_a_manager(const ThreadSnapshot& thread) {
  return is_in_manager(thread, "serve_client");
}

bool waits_for_gpu(const ThreadSnapshot& thread) {
  const auto in = collective_of(thread);
  return in && in->is_on_gpu;
}

bool calls(const ThreadSnapshot& thread, std::string_view function) {
  return std::ranges::any_of(thread.stack, [&](const StackFrame& frame) {
    return !frame.python && short_function_name(frame.function).starts_with(function);
  });
}

bool has_rpc_agent(const ProcessSnapshot& process) {
  return std::ranges::any_of(process.threads, [](const ThreadSnapshot& thread) {
    return calls(thread, "torch::distributed::rpc::RpcAgent::");
  });
}

std::vector<Rank> ranks_of(const Facts& facts) {
  std::vector<Rank> ranks;
  for (const size_t each : trainers_of(facts))
    ranks.push_back({.trainer = each, .workers = {}});
  for (size_t i = 0; i < facts.threads.size() && !ranks.empty(); ++i) {
    const ThreadFacts& worker = facts.threads[i];
    const bool is_rank = std::ranges::count(ranks, i, &Rank::trainer) > 0;
    if (!worker.is_main() || worker.role() != Role::kWorker || is_rank) continue;
    if (serves_a_manager(*worker.thread)) continue;
    Rank* rank = ranks.size() > 1 ? rank_above(facts, worker, ranks) : &ranks.front();
    if (rank != nullptr) rank->workers.push_back(i);
  }
  return ranks;
}

std::optional<Collective> collective_of(const ThreadSnapshot& thread) {
  const auto end = std::ranges::find_if(thread.stack, is_of_user);
  const std::span<const StackFrame> called(thread.stack.begin(), end);
  const auto outwards = called | std::views::reverse;
  // What the program asked of torch.distributed; its other functions only look something up.
  const auto asked = std::ranges::find_if(outwards, [](const StackFrame& frame) {
    return frame.python && is_of_torch(frame.file) &&
           frame.file.ends_with("torch/distributed/distributed_c10d.py");
  });
  if (asked != outwards.end()) return operation_of_torch(asked->function);
  if (std::ranges::any_of(called, is_of_launchers_meeting))
    return Collective{.operation = "next_rendezvous", .is_rendezvous = true};
  if (auto of_rpc = operation_of_rpc(called)) return of_rpc;
  const auto of_mpi = std::ranges::find_if(outwards, is_of_mpi);
  if (of_mpi != outwards.end()) return operation_of_mpi(*of_mpi);
  const auto of_c10d = std::ranges::find_if(outwards, is_of_c10d);
  if (of_c10d != outwards.end()) {
    const StackFrame* asker = outermost_of_torch(called);
    return asker == nullptr ? operation_of_c10d(*of_c10d)
                            : Collective{.operation = asker->function};
  }
  if (auto result = wait_for_result(called)) return result;
  if (is_at_barrier(thread)) return Collective{.operation = std::string(kBarrierWait)};
  const auto of_nccl = std::ranges::find_if(outwards, is_of_nccl);
  if (of_nccl != outwards.end()) return Collective{.operation = name_of_call(*of_nccl, "NCCL")};
  const auto of_gpu = std::ranges::find_if(outwards, is_of_gpu);
  if (of_gpu == outwards.end()) return std::nullopt;
  return Collective{.operation = name_of_call(*of_gpu, "the GPU"), .is_on_gpu = true};
}

}  // namespace dlprobe::probes::deadlock
