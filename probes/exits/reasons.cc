// What else is known of what the system refused a process that raised an exception for it.

#include <algorithm>
#include <cerrno>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

std::optional<Reason> full_file_system(const StartEvent& event) {
  constexpr uint64_t kHardlyAnything = uint64_t{64} << 10U;
  if (event.path.empty() || !event.free_bytes) return std::nullopt;
  const Message path = as_path(event.path);
  const bool is_inodes = lacks_inodes(event);
  const bool is_quota = event.error_number == EDQUOT;
  if (!is_quota && !is_inodes && *event.free_bytes >= kHardlyAnything) return std::nullopt;
  Reason reason;
  if (is_quota) {
    reason.clause = say("; the user's quota on the file system of {} is full", path);
  } else if (is_inodes) {
    reason.clause = say("; the file system of {} has no free inodes", path);
  } else {
    reason.clause =
        say("; the file system of {} is full: {}{} free", path, format_bytes(*event.free_bytes),
            event.bytes ? " of " + format_bytes(*event.bytes) : OwnWords());
  }
  reason.evidence.push_back(text_fact("file", path, kShimSource, event.at));
  reason.evidence.push_back(bytes_fact("free", *event.free_bytes, "statvfs, afterwards", event.at));
  const OwnWords look = is_inodes ? "df -i " : "df -h ";
  reason.remedy = {.title = "Make room there, or write to a file system with more room",
                   .commands = {is_quota ? Message("quota -s") : look + path},
                   .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
                   .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> size_of_file(const StartEvent& event) {
  if (event.error_number != EFBIG || event.wanted != "file size" || !event.limit)
    return std::nullopt;
  Reason reason;
  reason.clause = say("; its files may have at most {} (RLIMIT_FSIZE)", format_bytes(*event.limit));
  if (!event.path.empty())
    reason.evidence.push_back(text_fact("file", as_path(event.path), kShimSource, event.at));
  reason.evidence.push_back(
      bytes_fact("file_size_limit", *event.limit, "/proc/PID/limits", event.at));
  reason.remedy = {
      .title = "Raise the limit in the shell that starts the job, or write smaller files",
      .commands = {"ulimit -f unlimited"},
      .applies_to = {"bare-host", "docker", "slurm"},
      .verify = "ulimit -f"};
  return reason;
}

std::optional<Reason> no_descriptor(const StartEvent& event) {
  if (event.error_number != EMFILE || event.wanted.empty() || !event.limit || !event.count)
    return std::nullopt;
  Reason reason;
  reason.clause = say("; the limit is that of {}, not of its descriptors: {} of {} were open",
                      as_text(event.wanted), own(*event.count), own(*event.limit));
  reason.evidence.push_back(
      count_fact("descriptors", static_cast<uint64_t>(*event.count), kShimSource, event.at));
  reason.evidence.push_back(count_fact("limit", *event.limit, kShimSource, event.at));
  if (event.wanted.starts_with("inotify ")) {
    reason.remedy = {.title =
                         "Watch more paths with one inotify instance, close those that are done "
                         "with, or raise the user's limit",
                     .commands = {"sudo sysctl -w fs.inotify.max_user_instances=1024"},
                     .applies_to = {"bare-host"},
                     .verify = "cat /proc/sys/fs/inotify/max_user_instances"};
    return reason;
  }
  const Message place = short_place(event);
  reason.remedy = {.title = say("See what is opened {}: inotify and fanotify have limits of their "
                                "own",
                                place.empty() ? Message("there") : "at " + place),
                   .commands = {"sysctl fs.inotify fs.fanotify"},
                   .verify = "dlprobe run -- COMMAND"};
  return reason;
}

// By its class, whatever its text says: torch.cuda's until torch 2.5.
bool is_gpu_memory(const StartEvent& event) {
  return event.type == "OutOfMemoryError" && event.message.starts_with("torch.");
}

std::optional<Reason> gpu_memory(const StartEvent& event) {
  if (!is_gpu_memory(event)) return std::nullopt;
  const bool keeps_graph = event.wanted == "graph";
  const Message caller = as_text(base_name(event.called_at));
  const bool is_raised_there = " at " + caller.plain() == place_of(event).plain();
  const bool has_caller = !event.called_at.empty() && event.ended != Ended::kTask;
  Reason reason;
  if (has_caller) {
    if (!is_raised_there) reason.clause = say(", called at {}", caller);
    reason.evidence.push_back(
        text_fact("called_at", as_text(event.called_at), kShimSource, event.at));
  }
  if (keeps_graph) reason.clause += "; the model is in eval() mode, and its graph is kept";
  const Message where = has_caller ? say(" at {}", caller) : Message("");
  reason.remedy = {
      .title = keeps_graph
                   ? say("Evaluate under torch.no_grad(){}, and keep loss.item(), not the loss "
                         "with its graph",
                         where)
                   : say("Make the batch smaller, or keep less: loss.item() and not the loss with "
                         "its graph, evaluation under torch.no_grad(). See what grows{}",
                         where),
      .commands = {"with torch.no_grad():", "print(torch.cuda.memory_summary())"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

// By its class (torch 2.8), which a CUDA call raises that heard of the failure of an earlier one.
std::optional<Reason> gpu_failed(const StartEvent& event) {
  if (event.type != "AcceleratorError" || !event.message.starts_with("torch.")) return std::nullopt;
  Reason reason;
  reason.clause = ", which may have heard there of a call that failed before";
  reason.remedy = {
      .title =
          "Run it so that each kernel ends before the next line: the line is that of the "
          "failure then. An index or a label out of range shows at once on the CPU",
      .commands = {"CUDA_LAUNCH_BLOCKING=1 python train.py"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> host_memory(const StartEvent& event) {
  if (event.type != "MemoryError") return std::nullopt;
  Reason reason;
  const Message place = short_place(event);
  reason.remedy = {
      .title = say("Ask for less memory{}: read data in parts, use smaller batches; or "
                   "raise what limits it",
                   place.empty() ? Message("") : " at " + place),
      .commands = {"np.load(path, mmap_mode='r')", "free -m; ulimit -v"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> long_socket_name(const StartEvent& event) {
  if (event.wanted != "socket" || !event.limit || !event.count) return std::nullopt;
  Reason reason;
  reason.clause =
      say("; the path of its socket has {} bytes, and {} are the most", *event.count, *event.limit);
  reason.evidence.push_back(text_fact("file", as_path(event.path), kShimSource, event.at));
  reason.remedy = {.title = "Point TMPDIR at a folder with a shorter path",
                   .commands = {"export TMPDIR=/tmp"},
                   .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> gone_sender(const StartEvent& event) {
  if (event.wanted != "sender") return std::nullopt;
  Reason reason;
  reason.clause = event.child_pid
                      ? say("; process {}, which sent the tensor, has ended", own(*event.child_pid))
                      : Message("; the process that sent it has ended");
  // Its socket is in its folder for temporary files, which may have been cleaned.
  if (event.error_number == ENOENT)
    reason.clause += ", or its folder for temporary files was removed";
  reason.remedy = {
      .title =
          "Keep the process that sends tensors alive until they are received: "
          "receive all before join(), or have it wait for an Event",
      .commands = {"done.wait()  # at the end of the sender; done.set() by the receiver",
                   "queue.put(tensor.cpu().numpy())  # a copy needs no sender"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

// Of a tensor whose sender lives, and keeps it until it is received.
std::optional<Reason> cleaned_up(const StartEvent& event) {
  if (event.wanted != "block" || !event.child_pid) return std::nullopt;
  Reason reason;
  reason.clause = say("; something removed {}, while process {}, which made it, lives",
                      as_path(event.path), own(*event.child_pid));
  reason.evidence.push_back(text_fact("file", as_path(event.path), kShimSource, event.at));
  reason.remedy = {
      .title =
          "Share tensors by descriptors, which need no name in /dev/shm, or find out what cleans "
          "up there: another job, a cron job, systemd-logind (RemoveIPC)",
      .commands = {"torch.multiprocessing.set_sharing_strategy('file_descriptor')",
                   "loginctl enable-linger $USER"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> gone_manager(const StartEvent& event) {
  const bool listens = event.error_number != ENOENT && event.error_number != ECONNREFUSED;
  if (event.wanted != "manager" || listens) return std::nullopt;
  Reason reason;
  reason.clause =
      "; it belongs to a multiprocessing.Manager that had been shut down, or whose process had "
      "ended: nobody listens at its address";
  reason.remedy = {
      .title =
          "Keep the Manager in a variable, and open, until all who use its objects have ended: "
          "the end of its with block shuts it down",
      .commands = {"manager = multiprocessing.Manager()  # in the main program, not in a function",
                   "manager.shutdown()  # at the end"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

// By what its resource tracker left a note of (dlprobe_ends.py).
std::optional<Reason> removed_block(const StartEvent& event) {
  if (event.wanted != "tracker" || !event.child_pid) return std::nullopt;
  const Message who = say("process {} ({})", own(*event.child_pid), as_text(event.path));
  Reason reason;
  reason.clause =
      say("; the resource tracker of {} removed that block when that process ended, "
          "which had only attached to it",
          who);
  reason.evidence.push_back(text_fact("removed_by", who, kShimSource, event.at));
  reason.remedy = {
      .title =
          "Attach without tracking: only the process that made the block is to remove it. "
          "Before Python 3.13, tell the tracker so after attaching",
      .commands = {"SharedMemory(name=name, track=False)  # Python 3.13",
                   "multiprocessing.resource_tracker.unregister(block._name, \"shared_memory\")"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> freed_lock(const StartEvent& event) {
  if (event.wanted != "lock") return std::nullopt;
  Reason reason;
  reason.clause =
      "; a lock (or Value, Queue, Event) that it was sent was gone: who made it had "
      "kept no reference to it, or had ended";
  reason.remedy = {
      .title = "Keep what a process is sent in a variable until that process ends",
      .commands = {"value = context.Value(\"i\", 0)  # not: args=(context.Value(...),)",
                   "process.join()  # before the variable goes"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> came_too_late(const StartEvent& event) {
  Reason reason;
  if (event.wanted == "interpreter") {
    reason.clause = "; the main thread had ended by then, and the interpreter starts no more work";
    reason.remedy = {
        .title =
            "Wait for the thread, or close what works in the background, before the main "
            "thread ends: not in atexit or __del__",
        .commands = {"thread.join()  # at the end of the program", "executor.shutdown(wait=True)"},
        .verify = "dlprobe run -- COMMAND"};
    return reason;
  }
  if (event.wanted != "executor") return std::nullopt;
  reason.clause = "; the pool or executor had been closed before";
  reason.remedy = {
      .title =
          "Give it all its work before it is closed (the end of its with block, "
          "shutdown(), close()), or make it once for the whole program",
      .commands = {"with ProcessPoolExecutor() as executor:  # around all that uses it"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> asked_nobody(const StartEvent& event) {
  if (event.wanted != "stdin") return std::nullopt;
  Reason reason;
  reason.clause = "; the standard input of a process of multiprocessing is empty";
  reason.remedy = {
      .title = "Ask in the main process and pass the answer on; see it in a debugger there, too",
      .commands = {"multiprocessing.Process(target=work, args=(answer,))",
                   "work(answer)  # in the main process, under pdb"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

// By the thread that copies batches into pinned memory, and no method of the program's own.
std::optional<Reason> not_pinned(const StartEvent& event) {
  constexpr std::string_view kFile = "torch/utils/data/_utils/pin_memory.py:";
  const bool is_it = event.ended == Ended::kThread && event.file.empty() &&
                     path_in_library(event.raised_in).value_or("").starts_with(kFile);
  if (!is_it) return std::nullopt;
  Reason reason;
  reason.remedy = {.title =
                       "Return tensors of the CPU from the workers, for no others can be "
                       "pinned, and copy them to the GPU in the loop; or do not pin them",
                   .commands = {"DataLoader(..., pin_memory=False)"},
                   .verify = "dlprobe run -- COMMAND"};
  return reason;
}

// By where torch raises what it says of samples that make no batch.
std::optional<Reason> no_batch(const StartEvent& event) {
  const bool are_unlike = event.wanted == "alike";
  if (!are_unlike && event.wanted != "batch") return std::nullopt;
  const Message samples = as_text(event.path);
  Reason reason;
  reason.clause =
      (are_unlike ? "; the samples of a batch are not alike: " : "; no batch is made of ") +
      samples;
  reason.evidence.push_back(text_fact("samples", samples, kShimSource, event.at));
  reason.remedy = {
      .title = are_unlike
                   ? "Make all samples alike where the data set makes them (pad, crop, resize; no "
                     "None), or make the batch yourself"
                   : "Return plain tensors, arrays, numbers or texts (transforms.ToTensor(), "
                     "tensor.clone()), or make the batch yourself",
      .commands = {"DataLoader(..., collate_fn=make_batch)"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

// The process that the event names.
Message describe_child(const Run& run, const StartEvent& event) {
  const auto process = std::ranges::find_if(run.processes, [&](const ProcessInfo& each) {
    return each.key.pid == event.child_pid && each.seen_at <= event.at;
  });
  if (process == run.processes.end()) return "process " + own(event.child_pid.value_or(0));
  const OwnWords name = describe(run, process->key);
  return process->role == Role::kOther ? name + " (" + as_name(process->comm) + ")" : name;
}

// By the table of the kernel's locks at the time of the exception.
std::optional<Reason> locked_file(const Run& run, const StartEvent& event) {
  if (event.wanted != "locked" || !event.child_pid) return std::nullopt;
  const bool is_database = event.type == "OperationalError";
  const Message file = as_path(base_name(event.path));
  const Message who = describe_child(run, event);
  Reason reason;
  reason.clause = say("; {} had {} locked", who, file);
  reason.evidence.push_back(text_fact("locked_by", who, "/proc/locks", event.at));
  reason.evidence.push_back(text_fact("file", as_path(event.path), "/proc/locks", event.at));
  if (is_database)
    reason.remedy = {.title =
                         "Commit each change at once, before slow work, or let one process write; "
                         "wait for longer for the lock; let readers go on meanwhile",
                     .commands = {"with connection: connection.execute(...)  # commits",
                                  "sqlite3.connect(path, timeout=60)",
                                  "connection.execute('PRAGMA journal_mode=WAL')"}};
  else
    reason.remedy = {
        .title =
            "Close the file in the process that has it before others open it, or let "
            "them read a copy",
        .commands = {"with h5py.File(path, 'a') as file: ...  # closes it",
                     "h5py.File(path, 'r', locking=False)  # if nobody writes it now"}};
  reason.remedy.verify = "dlprobe run -- COMMAND";
  return reason;
}

// Of a library that asks which process this is.
std::optional<Reason> made_before_fork(const Run& run, const StartEvent& event) {
  if (event.wanted != "creator" || !event.child_pid) return std::nullopt;
  const Message who = describe_child(run, event);
  Reason reason;
  reason.clause = say("; {} made that object before the fork, and its library uses no copies", who);
  reason.evidence.push_back(text_fact("made_by", who, kShimSource, event.at));
  reason.remedy = {
      .title =
          "Make it in the worker (in __getitem__ or worker_init_fn), or start workers without "
          "fork",
      .commands = {"if self.client is None: self.client = make_client()  # in __getitem__",
                   "DataLoader(..., multiprocessing_context='spawn')"},
      .verify = "dlprobe run -- COMMAND"};
  return reason;
}

// The program has a module of its own by that name, which is found first.
std::optional<Reason> hidden_module(const StartEvent& event) {
  if (event.wanted != "module") return std::nullopt;
  Reason reason;
  reason.clause = say("; {} hides Python's own module of that name", as_path(event.path));
  reason.evidence.push_back(text_fact("file", as_path(event.path), kShimSource, event.at));
  reason.remedy = {.title = "Give that file another name",
                   .commands = {say("mv {} ...", as_path(event.path))},
                   .verify = "dlprobe run -- COMMAND"};
  return reason;
}

}  // namespace

std::optional<Reason> reason_of(const Run& run, const StartEvent& event) {
  if (auto reason = locked_file(run, event)) return reason;
  if (auto reason = made_before_fork(run, event)) return reason;
  if (auto reason = hidden_module(event)) return reason;
  if (auto reason = gone_sender(event)) return reason;
  if (auto reason = gone_manager(event)) return reason;
  if (auto reason = gpu_memory(event)) return reason;
  if (auto reason = gpu_failed(event)) return reason;
  if (auto reason = host_memory(event)) return reason;
  if (auto reason = no_descriptor(event)) return reason;
  if (auto reason = long_socket_name(event)) return reason;
  if (auto reason = size_of_file(event)) return reason;
  if (auto reason = not_pinned(event)) return reason;
  if (auto reason = no_batch(event)) return reason;
  if (auto reason = removed_block(event)) return reason;
  if (auto reason = cleaned_up(event)) return reason;
  if (auto reason = freed_lock(event)) return reason;
  if (auto reason = asked_nobody(event)) return reason;
  if (auto reason = came_too_late(event)) return reason;
  return full_file_system(event);
}

}  // namespace dlprobe::probes::exits
