#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

// Whether it waits for one of those files from the same side.
bool waits_on_one_of(const ThreadFacts& thread, const std::vector<WaitedFile>& files) {
  return std::ranges::any_of(thread.thread->wait.files, [&](const WaitedFile& own) {
    return std::ranges::find(files, own.inode, &WaitedFile::inode) != files.end();
  });
}

// A thread of the provider's process that keeps it from the other end: one that waits for one of
// those files itself, or, where others wait for data, for data of another file.
const ThreadFacts* waiting_peer(const Facts& facts, const ThreadFacts& provider,
                                const std::vector<WaitedFile>& files, bool for_data) {
  const ThreadFacts* reader = nullptr;
  for (const ThreadFacts& each : facts.threads) {
    if (each.process != provider.process) continue;
    // A parked thread of a process that waits itself does not write either.
    if (waits_on_one_of(each, files)) return &each;
    if (for_data && waits_for_data(each)) reader = &each;
  }
  return reader;
}

// A thread of a library that waits to be told something by others of its process (as that of
// multiprocessing.pool which looks after the workers) may never be.
bool is_told_by_its_own(const Facts& facts, const ThreadFacts& waiter) {
  return !waiter.is_main() && user_frame(*waiter.thread) == nullptr &&
         !waiter.need.providers.empty() &&
         std::ranges::all_of(waiter.need.providers, [&](size_t each) {
           return facts.threads[each].process == waiter.process;
         });
}

// The other side waits, too, for data of this one: a circle (DLP0303).
bool is_in_a_talk(const Facts& facts, const ThreadFacts& waiter) {
  return waits_for_data(waiter) && std::ranges::any_of(waiter.need.providers, [&](size_t each) {
           const ThreadFacts& other = facts.threads[each];
           return waits_for_data(other) && are_of_one_connection(waiter, other) &&
                  !waits_for_task(facts, waiter) && !waits_for_task(facts, other);
         });
}

// Nobody has the other end of any file that it waits on, or those alone who wait for it themselves,
// or for data that none but they could write: of what fork copied to them they close nothing, and
// each keeps the end of file from the others.
std::optional<Confidence> has_no_peer(const Facts& facts, const ThreadFacts& waiter) {
  const Need& need = waiter.need;
  if (!waiter.doomed || need.kind != NeedKind::kChannel || need.object.empty() ||
      need.stopped_outside != nullptr) {
    return std::nullopt;
  }
  if (is_told_by_its_own(facts, waiter)) return std::nullopt;
  const std::vector<WaitedFile>& files = waiter.thread->wait.files;
  std::vector<const ThreadFacts*> readers = {&waiter};
  bool has_trainer = waiter.role() == Role::kTrainer;
  for (size_t i = 0; i < readers.size(); ++i) {
    for (const size_t each : readers[i]->need.providers) {
      if (facts.threads[each].thread->state == 'T') return std::nullopt;  // that is why
      const ThreadFacts* peer =
          waiting_peer(facts, facts.threads[each], files, waits_for_data(waiter));
      if (peer == nullptr || is_started_by_other(facts, *readers[i], *peer)) return std::nullopt;
      has_trainer = has_trainer || peer->role() == Role::kTrainer;
      const bool is_known = waits_on_one_of(*peer, files) || std::ranges::count(readers, peer) > 0;
      if (!is_known) readers.push_back(peer);
    }
  }
  if (readers.size() == 1) return Confidence::kCertain;
  // A trainer and its workers that wait for one another have lost a batch, or a task.
  if (has_trainer) return std::nullopt;
  return Confidence::kLikely;
}

// Its own process alone has the other end, and no thread there moves. One that serves a socket (as
// multiprocessing's resource_sharer) may do so for ever; that it would write, and that somebody
// outside is late, is less likely.
bool has_still_peers_alone(const Facts& facts, const ThreadFacts& waiter) {
  const Need& need = waiter.need;
  const bool is_worker = waiter.is_main() && waiter.role() == Role::kWorker;
  if (!is_worker || !waiter.still || waiter.doomed || need.others_may ||
      need.kind != NeedKind::kChannel || waiter.thread->wait.files.size() != 1) {
    return false;
  }
  const bool all_stand = std::ranges::all_of(need.providers, [&](size_t each) {
    const ThreadFacts& provider = facts.threads[each];
    return provider.process == waiter.process && provider.still &&
           provider.need.kind != NeedKind::kNothing;
  });
  return all_stand && trainer_waits_for_result(facts);
}

// Its own process has the other end of what it waits for.
bool has_other_end(const Facts& facts, const ThreadFacts& waiter) {
  const bool for_data = waiter.need.relation == "written by";
  const auto inode = other_end(waiter.thread->wait.files.front());
  return std::ranges::any_of(facts.last->channel_ends, [&](const ChannelEnd& end) {
    return end.pid == waiter.process->key.pid && end.inode == inode &&
           (for_data ? end.writes : end.reads);
  });
}

OwnWords who_has_other_end(const ThreadFacts& waiter, Confidence confidence) {
  if (!waiter.need.providers.empty()) {
    return confidence == Confidence::kCertain
               ? "only processes that wait for it themselves hold its other end"
               : "only processes that wait for data themselves hold its other end";
  }
  return "only its own process holds its other end";
}

// Of a trainer whose workers have all ended: they were the ones to write.
Message ended_workers(const Facts& facts, const ThreadFacts& waiter) {
  if (waiter.role() != Role::kTrainer) return "";
  size_t workers = 0;
  bool all_well = true;
  for (const ProcessInfo& process : facts.run->processes) {
    if (process.role != Role::kWorker || trainer_of(*facts.run, process) != waiter.info) continue;
    const ProcessExit* exit = facts.run->find_exit(process.key);
    if (exit == nullptr) return "";
    ++workers;
    all_well = all_well && exit->wait_status && *exit->wait_status == 0;
  }
  if (workers == 0) return "";
  OwnWords who = "all its " + own(workers) + " workers have";
  if (workers == 1) who = "its worker has";
  if (workers == 2) who = "both its workers have";
  return "; " + who + " ended" + (all_well ? " with exit code 0" : "");
}

// That a worker of its told that it called os._exit, and not for an error: what it had put into a
// queue, and the queue's thread had not yet written, is lost. Null: none did.
const StartEvent* left_at_once(const Facts& facts, const ThreadFacts& waiter) {
  const auto& events = facts.run->start_events;
  const auto found = std::ranges::find_if(events, [&](const StartEvent& event) {
    const ProcessInfo* worker = facts.run->find_process(event.process);
    return event.kind == StartEventKind::kExits && event.message == "os._exit" &&
           event.count == 0 && worker != nullptr && worker->role == Role::kWorker &&
           trainer_of(*facts.run, *worker) == waiter.info;
  });
  return found == events.end() ? nullptr : &*found;
}

bool is_in_a_queue(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "queues.py");
  });
}

// Who waits for the end of its process; null: nobody.
const ThreadFacts* joiner_of(const Facts& facts, const ThreadFacts& waiter) {
  const auto joins = [&](const ThreadFacts& each) {
    return each.need.kind == NeedKind::kChild &&
           std::ranges::any_of(each.need.providers, [&](size_t provider) {
             return facts.threads[provider].process == waiter.process;
           });
  };
  const auto found = std::ranges::find_if(facts.threads, joins);
  return found == facts.threads.end() ? nullptr : &*found;
}

// A client of a server in its own process.
bool asks_its_own_process(const Facts& facts, const ThreadFacts& waiter) {
  return is_connection(waiter.thread->wait.files.front()) && !waiter.need.providers.empty() &&
         std::ranges::all_of(waiter.need.providers, [&](size_t each) {
           return facts.threads[each].process == waiter.process;
         });
}

// A queue keeps both ends of its pipe in each process that has it.
Remedy notice_lost_peer(const Facts& facts, const ThreadFacts& waiter, bool is_joined) {
  if (asks_its_own_process(facts, waiter)) {
    return {.title =
                "It asks its own process, which answers one request at a time: let it answer each "
                "in a thread of its own, or call the function without a connection",
            .commands = {"http.server.ThreadingHTTPServer(...)", "connection.settimeout(60)"},
            .verify = "dlprobe deadlock --pid PID"};
  }
  if (is_in_a_queue(*waiter.thread) && is_joined) {
    return {.title =
                "Before you wait for the process, tell it to end: put a last item into its "
                "queue on every way out of the program",
            .commands = {"finally: queue.put(None); process.join()"},
            .verify = "dlprobe deadlock --pid PID"};
  }
  if (is_in_a_queue(*waiter.thread)) {
    return {.title =
                "Let each worker put a last item that says so when it ends, also by an exception; "
                "or get with a timeout, and see then whether the workers live",
            .commands = {"finally: queue.put(None)", "queue.get(timeout=60)"},
            .verify = "dlprobe deadlock --pid PID"};
  }
  return {.title =
              "After fork, close the end of the pipe that a process does not use: the death of "
              "the peer then shows as end of file",
          .commands = {"reader.close() in the writer, writer.close() in the reader"},
          .verify = "dlprobe deadlock --pid PID"};
}

RootCause no_peer(const Facts& facts, size_t index, Confidence confidence) {
  const ThreadFacts& waiter = facts.threads[index];
  const auto& files = waiter.thread->wait.files;
  const WaitedFile& pipe = files.front();
  const OwnWords channel = files.size() == 1 ? own(to_string(pipe.kind)) + " " + own(pipe.inode)
                                             : "one of " + own(files.size()) + " pipes and sockets";
  const bool orphan = is_orphan(facts, waiter);
  Finding finding =
      finding_about(facts, orphan ? FindingCode::kOrphanedWorker : FindingCode::kPipeWithoutPeer,
                    confidence, waiter);
  const bool for_data = waiter.need.relation == "written by";
  finding.message = name_of(facts, waiter) +
                    (for_data ? " waits for data in " : " waits for room in ") + channel +
                    ", and " + who_has_other_end(waiter, confidence) +
                    (orphan ? ", except other orphans: its trainer is gone" : "") +
                    (for_data ? ended_workers(facts, waiter) : "");
  const StartEvent* left = is_in_a_queue(*waiter.thread) ? left_at_once(facts, waiter) : nullptr;
  if (left != nullptr) {
    finding.message += "; " + describe(*facts.run, left->process) + " called os._exit" +
                       place_of(*left) +
                       ", which does not wait for the thread of a queue that writes";
    finding.advise("Before os._exit, let the queue write all that was put into it",
                   {"queue.close(); queue.join_thread()"}, "dlprobe deadlock --pid PID");
  }
  if (asks_its_own_process(facts, waiter))
    finding.message += words_of_others(facts, waiter.need.providers);
  const ThreadFacts* joiner = joiner_of(facts, waiter);
  if (joiner != nullptr) finding.message += "; " + name_of(facts, *joiner) + " waits for its end";
  if (!orphan && waiter.role() != Role::kTrainer && a_trainer_goes_on(facts)) {
    finding.severity = Severity::kInfo;
    finding.message += "; the trainer continues without it";
  }
  // PyTorch's workers have handlers for SIGTERM and SIGCHLD that write nothing.
  const bool by_signal = may_be_woken_by_signal(waiter) ||
                         (waiter.role() != Role::kWorker &&
                          catches_one_of(waiter, std::array{SIGTERM, SIGHUP, SIGCHLD}));
  if (has_other_end(facts, waiter) && by_signal) {
    finding.severity = Severity::kInfo;
    finding.confidence = Confidence::kPossible;
    finding.message += ", unless its own signal handler does";
  }
  for (const WaitedFile& file : files) {
    finding.prove(text_fact(to_string(file.kind), own(file.inode),
                            "/proc/PID/task/TID/syscall, /proc/PID/fd", facts.last->at));
  }
  finding.prove(count_fact(for_data ? NumberName("other_writers") : NumberName("other_readers"), 0,
                           "/proc/PID/fdinfo of every process", facts.last->at));
  if (confidence != Confidence::kCertain) {
    finding.rule_out("DLP0313",
                     "no other thread of its process ran meanwhile, and none sleeps for a time");
  }
  if (orphan) {
    add_orphan(finding, facts, waiter);
  } else {
    finding.remedies.push_back(notice_lost_peer(facts, waiter, joiner != nullptr));
  }
  return {std::move(finding), index};
}

// An orphan at a lock that nobody but other orphans shares, whom dlprobe does not watch: one of
// them may yet release it, for nobody.
bool waits_for_orphans(const Facts& facts, const ThreadFacts& thread) {
  return thread.doomed && thread.need.kind == NeedKind::kSharedCount &&
         thread.need.providers.empty() && is_orphan(facts, thread);
}

bool all_threads_are(const ProcessSnapshot& process, char state) {
  return !process.threads.empty() &&
         std::ranges::all_of(process.threads,
                             [&](const ThreadSnapshot& thread) { return thread.state == state; });
}

// The remedy where it is stopped by a signal or a debugger.
Remedy let_it_continue(int32_t process, bool traced) {
  const OwnWords pid = own(process);
  return {.title = traced ? "Let the debugger continue or detach; its pid is TracerPid in /proc/" +
                                pid + "/status"
                          : "Continue it, and find out who stopped it (SIGSTOP, or SIGTTOU of a "
                            "background job)",
          .commands = {traced ? "grep TracerPid /proc/" + pid + "/status" : "kill -CONT " + pid},
          .applies_to = {"bare-host"},
          .verify = "dlprobe deadlock --pid " + pid};
}

// The remedy where its cgroup is, by that file of it.
Remedy let_it_thaw(int32_t pid, std::string_view file) {
  const Message folder = as_path(file.substr(0, file.rfind('/')));
  return {.title =
              "Thaw it where it was frozen: in the container engine, or the scheduler that "
              "suspended the job",
          .commands = {"docker unpause CONTAINER", "scontrol resume JOB",
                       file.ends_with("freezer.state") ? "echo THAWED > " + as_path(file)
                                                       : "echo 0 > " + folder + "/cgroup.freeze"},
          .verify = "dlprobe deadlock --pid " + own(pid)};
}

RootCause stopped(const Facts& facts, size_t index) {
  const ThreadFacts& thread = facts.threads[index];
  const bool traced = thread.thread->state == 't';
  Finding finding = finding_about(facts, FindingCode::kWorkerStopped, Confidence::kCertain, thread);
  finding.message = describe(*facts.run, thread.process->key) +
                    (traced ? " is stopped by a debugger (state t)" : " is stopped (state T)") +
                    " and does not continue by itself";
  if (thread.role() != Role::kTrainer && !is_waited_for(facts, index)) {
    finding.severity = Severity::kInfo;
    finding.message += "; no trainer waits for it now";
  }
  finding.prove(text_fact("state", own(std::string(1, thread.thread->state)),
                          "/proc/PID/task/TID/stat", facts.last->at));
  finding.remedies.push_back(let_it_continue(thread.process->key.pid, traced));
  return {std::move(finding), index};
}

// Who alone could end its wait, a server or who reads the output, is none of the job's, and
// stopped.
bool needs_one_stopped_outside(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  if (!waiter.doomed || waiter.need.stopped_outside == nullptr) return false;
  const size_t main = facts.find(waiter.process->key, waiter.process->key.pid);
  return waiter.role() == Role::kTrainer ? main != Facts::kNone && facts.threads[main].doomed
                                         : is_waited_for(facts, index);
}

RootCause stopped_outside(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  const ChannelEnd& end = *waiter.need.stopped_outside;
  const bool is_frozen = !end.frozen_by.empty();
  const OwnWords state = is_frozen ? OwnWords("frozen") : own(std::string(1, end.state));
  const Confidence confidence =
      facts.last->all_ends_seen ? Confidence::kCertain : Confidence::kLikely;
  Finding finding = finding_about(facts, FindingCode::kWorkerStopped, confidence, waiter);
  finding.discriminator = "outside " + end.comm;
  finding.message = "process " + own(end.pid) + " (" + as_name(end.comm) + ") is " +
                    (is_frozen ? "frozen with its cgroup" : "stopped (state " + state + ")") +
                    " and does not continue by itself; " + name_of(facts, waiter) + " waits for " +
                    waiter.need.words + place_of(waiter);
  finding.prove(text_fact("state", state,
                          is_frozen ? as_path(end.frozen_by) : "/proc/" + own(end.pid) + "/stat",
                          facts.last->at));
  finding.remedies.push_back(is_frozen ? let_it_thaw(end.pid, end.frozen_by)
                                       : let_it_continue(end.pid, end.state == 't'));
  return {std::move(finding), index};
}

// All that are in one cgroup are one cause: `docker pause`, a job that its scheduler suspended.
RootCause frozen(const Facts& facts, size_t index) {
  const ThreadFacts& thread = facts.threads[index];
  const std::string_view file = thread.process->frozen_by;
  const Message folder = as_path(file.substr(0, file.rfind('/')));
  Finding finding = finding_about(facts, FindingCode::kWorkerStopped, Confidence::kCertain, thread);
  finding.discriminator = file;
  finding.message = describe(*facts.run, thread.process->key) + " is frozen with its cgroup " +
                    folder + " and does not continue by itself";
  if (thread.role() != Role::kTrainer && thread.role() != Role::kWorker) {
    finding.severity = Severity::kInfo;
  }
  finding.prove(text_fact("state", "frozen", as_path(file), facts.last->at));
  finding.remedies.push_back(let_it_thaw(thread.process->key.pid, file));
  return {std::move(finding), index};
}

// A call that ends at once on a healthy machine: it is in the kernel the whole time.
RootCause io_stall(const Facts& facts, size_t index) {
  constexpr BootNs kLong = 10 * kSecond;
  const ThreadFacts& thread = facts.threads[index];
  const BootNs stands = facts.last->at - thread.since;
  Finding finding = finding_about(facts, FindingCode::kIoStall, Confidence::kLikely, thread);
  if (stands < kLong) finding.severity = Severity::kWarning;
  finding.message = name_of(facts, thread) + " is stuck in one kernel call on " + thread.need.words;
  finding.prove(text_fact("state", own(std::string(1, thread.thread->state)),
                          "/proc/PID/task/TID/stat", facts.last->at));
  finding.prove(text_fact("system_call", own(thread.thread->wait.syscall),
                          "/proc/PID/task/TID/syscall", facts.last->at));
  finding.remedies.push_back(
      {.title = "Check the storage: a network file system that does not answer, or a failing disk",
       .commands = {"dmesg | tail", "cat /proc/pressure/io", "nfsstat -c"},
       .applies_to = {"bare-host"},
       .verify = "dlprobe deadlock --pid " + own(thread.process->key.pid)});
  return {std::move(finding), index};
}

// It waits for somebody to open the other end of a FIFO, which anybody may do who knows its name.
bool waits_for_fifo(const Facts& facts, const ThreadFacts& thread) {
  const std::vector<WaitedFile>& files = thread.thread->wait.files;
  return thread.still && !files.empty() && files.front().kind == FileKind::kFifo &&
         kind_of(thread.thread->wait, facts.machine) == WaitKind::kOpen;
}

RootCause fifo_without_peer(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  Finding finding =
      finding_about(facts, FindingCode::kPipeWithoutPeer, Confidence::kLikely, waiter);
  finding.severity = is_worth_a_warning(facts, waiter) ? Severity::kWarning : Severity::kInfo;
  finding.message = name_of(facts, waiter) + " waits for " + waiter.need.words + place_of(waiter);
  finding.advise(
      "Find out who should open it, and whether that program lives; among files of data skip what "
      "is no regular file",
      {"os.path.isfile(path)  # a FIFO is none", "os.open(path, os.O_RDONLY | os.O_NONBLOCK)"},
      "dlprobe deadlock --pid PID");
  return {std::move(finding), index};
}

// Of a pipe that it reads in Lib/subprocess.py: the one who has the other end, and is none of the
// job's. The program that was started has ended, or has closed its own; null where it has not.
const ChannelEnd* foreign_writer(const Facts& facts, const ThreadFacts& reader) {
  const bool reads_output = std::ranges::any_of(reader.thread->stack, [](const StackFrame& frame) {
    return frame.python && is_of_standard_library(frame.file, "subprocess.py");
  });
  const bool waits = (reader.still || reader.polls_again) &&
                     reader.need.kind == NeedKind::kChannel && reader.need.providers.empty();
  if (!reads_output || !waits) return nullptr;
  const auto found = std::ranges::find_if(facts.last->channel_ends, [&](const ChannelEnd& end) {
    return end.writes && end.kind == EndKind::kPipe && end.pid != reader.process->key.pid &&
           std::ranges::any_of(reader.thread->wait.files, [&](const WaitedFile& file) {
             return other_end(file) == end.inode;
           });
  });
  return found == facts.last->channel_ends.end() ? nullptr : &*found;
}

// A worker that its trainer left in the middle of a batch. It ends with that batch (PyTorch's asks
// for its parent between two), unless it never comes to that end.
RootCause orphan_at_work(const Facts& facts, size_t index) {
  const ThreadFacts& orphan = facts.threads[index];
  Finding finding = finding_about(facts, FindingCode::kOrphanedWorker, Confidence::kLikely, orphan);
  finding.severity = orphan.still ? Severity::kWarning : Severity::kInfo;
  finding.message = name_of(facts, orphan) + " is in the middle of a batch" +
                    (orphan.still ? " and waits for " + orphan.need.words : "") + place_of(orphan) +
                    ": its trainer is gone, so no process needs its output";
  add_orphan(finding, facts, orphan);
  return {std::move(finding), index};
}

}  // namespace

std::optional<RootCause> output_kept_open(const Facts& facts, const Rank& rank) {
  const ThreadFacts& reader = facts.threads[rank.trainer];
  const ChannelEnd* writer = foreign_writer(facts, reader);
  if (writer == nullptr) return std::nullopt;
  Finding finding =
      finding_about(facts, FindingCode::kPipeWithoutPeer, Confidence::kLikely, reader);
  // What was left behind may be at work, and end.
  finding.severity =
      facts.last->at - reader.since >= kLongRest ? Severity::kWarning : Severity::kInfo;
  const Message who = "process " + own(writer->pid) + " (" + as_name(writer->comm) + ")";
  finding.message = name_of(facts, reader) + " reads the output of a program that it started" +
                    place_of(reader) + ": none of its children has the pipe, but " + who +
                    " has, which such a program left behind, so no end of file comes";
  finding.prove(
      text_fact("has_the_other_end", who, "/proc/PID/fdinfo of every process", facts.last->at));
  finding.advise("Give what goes on in the background an output of its own",
                 {"sh -c 'COMMAND > /dev/null 2>&1 &'",
                  "subprocess.Popen(..., stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)"},
                 "dlprobe stacks " + own(reader.process->key.pid));
  return RootCause{std::move(finding), rank.trainer};
}

void add_orphan(Finding& finding, const Facts& facts, const ThreadFacts& orphan) {
  finding.prove(count_fact("ppid", static_cast<uint64_t>(orphan.info->ppid), "/proc/PID/stat",
                           facts.last->at));
  finding.remedies.push_back({.title = "Kill it: no process will read its output",
                              .commands = {"kill " + own(orphan.process->key.pid)},
                              .applies_to = {"bare-host"}});
  finding.advise("Make workers die with their parent",
                 {"prctl(PR_SET_PDEATHSIG, SIGKILL) at the worker's start",
                  "a worker loop that watches os.getppid()"});
}

RootCause left_with_orphans(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  Finding finding = finding_about(facts, FindingCode::kOrphanedWorker, Confidence::kLikely, waiter);
  finding.severity = Severity::kWarning;
  finding.message =
      name_of(facts, waiter) + " waits for " + waiter.need.words + ": its trainer is gone";
  add_orphan(finding, facts, waiter);
  return {std::move(finding), index};
}

std::vector<RootCause> orphans_at_work(const Facts& facts) {
  std::vector<RootCause> causes;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    const bool is_it = thread.is_main() && thread.role() == Role::kWorker &&
                       is_orphan(facts, thread) && thread.has_history &&
                       !waits_for_task(facts, thread) && !waits_for_room(thread);
    if (is_it) causes.push_back(orphan_at_work(facts, i));
  }
  return causes;
}

std::vector<RootCause> find_lost_peers(const Facts& facts) {
  std::vector<RootCause> causes;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    const auto confidence = has_no_peer(facts, thread);
    if (confidence && !waits_for_ends(*thread.thread) && !is_in_a_talk(facts, thread)) {
      causes.push_back(no_peer(facts, i, *confidence));
    }
    if (has_still_peers_alone(facts, thread)) {
      causes.push_back(no_peer(facts, i, Confidence::kLikely));
    }
    if (waits_for_orphans(facts, thread)) causes.push_back(left_with_orphans(facts, i));
    if (thread.is_main() && thread.still && !thread.process->frozen_by.empty()) {
      causes.push_back(frozen(facts, i));
    }
    const bool whole_process_stands =
        thread.is_main() && thread.still &&
        (all_threads_are(*thread.process, 'T') || all_threads_are(*thread.process, 't'));
    if (whole_process_stands) causes.push_back(stopped(facts, i));
    if (needs_one_stopped_outside(facts, i)) causes.push_back(stopped_outside(facts, i));
    if (thread.still && thread.need.kind == NeedKind::kKernel) causes.push_back(io_stall(facts, i));
  }
  return causes;
}

std::vector<RootCause> fifos_without_peer(const Facts& facts, const std::vector<Rank>& ranks) {
  std::vector<RootCause> causes;
  for (const Rank& rank : ranks) {
    std::vector<size_t> mains = rank.workers;
    if (!mains.empty()) mains.push_back(rank.trainer);
    std::set<size_t> ends;
    for (const size_t each : mains)
      ends.insert(way_through(facts, each).back());
    for (const size_t each : ends)
      if (waits_for_fifo(facts, facts.threads[each]))
        causes.push_back(fifo_without_peer(facts, each));
  }
  return causes;
}

}  // namespace dlprobe::probes::deadlock
