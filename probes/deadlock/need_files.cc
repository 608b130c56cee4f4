// What a thread needs that waits on files.

#include <unistd.h>

#include <algorithm>

#include "lib/base/units.h"
#include "lib/foreign/libraries.h"
#include "probes/deadlock/need_parts.h"
#include "probes/deadlock/ranks.h"
#include "probes/facts/facts.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

class ChannelNeed : public Waiter {
 public:
  using Waiter::Waiter;

  // A wait on files. A timeout ends it, but not what it waits for: of poll in a loop the same wait
  // comes again.
  Need read(bool for_data) const {
    Need need{.kind = NeedKind::kChannel, .relation = for_data ? "written by" : "read by"};
    const auto& files = thread_.wait.files;
    if (files.empty()) {
      return {.kind = NeedKind::kOutside,
              .words = "the end of system call " + own(thread_.wait.syscall)};
    }
    const auto listens = [](const WaitedFile& file) {
      return file.kind == FileKind::kListeningSocket;
    };
    if (std::ranges::all_of(files, listens)) return need_of_accept(waiter_);
    need.others_may = false;
    bool is_channel = false;
    for (const WaitedFile& file : files) {
      if (const auto end = other_end(file)) {
        is_channel = add_ends(*end, for_data, need) || is_channel;
      } else if (is_shared_eventfd(file)) {
        is_channel = add_ends(file.inode, for_data, need) || is_channel;
      } else {
        need.others_may = true;
      }
    }
    const WaitedFile& first = files.front();
    need.words = words_of_wait(for_data);
    if (other_end(first) || is_shared_eventfd(first)) {
      const OwnWords channel = own(to_string(first.kind)) + " " + own(first.inode);
      need.object = channel;
      need.label = channel;
    }
    if (first.kind == FileKind::kFile) return need_of_storage(waiter_);
    if (is_event_loop()) return of_event_loop();
    constexpr int32_t kLongPoll =
        60'000;  // ms; shorter ones are loops that wait for the same again
    if (poll_timeout_ms(thread_.wait, facts_.machine).value_or(0) > kLongPoll) {
      need.others_may = true;
    }
    // A socket whose other end nobody of the tree has leads out of it.
    if (!is_channel && first.kind != FileKind::kPipe) need.kind = NeedKind::kOutside;
    need.words = words_with_ends(need);
    if (need.others_may || !need.providers.empty()) need.stopped_outside = nullptr;
    return need;
  }

 private:
  // Between processes. Within one a library wakes its threads by it, as it likes (gRPC, libuv).
  bool is_shared_eventfd(const WaitedFile& file) const {
    return file.kind == FileKind::kEventfd && file.inode != 0 &&
           std::ranges::any_of(facts_.last->channel_ends, [&](const ChannelEnd& end) {
             return end.inode == file.inode && end.pid != waiter_.process->key.pid;
           });
  }

  Message words_of_wait(bool for_data) const {
    const auto& files = thread_.wait.files;
    if (files.size() > 1) return "one of " + counted(files.size(), "file");
    if (!asks_a_name_server()) return words_of(files.front(), for_data);
    const std::string& path = files.front().path;
    const Message at = path.empty() ? Message() : " " + as_text(path);
    return "an answer of the name server" + at + " (getaddrinfo)";
  }

  // The C library's resolver waits on a socket.
  bool asks_a_name_server() const {
    const bool is_socket = thread_.wait.files.front().kind == FileKind::kSocket;
    return is_socket && std::ranges::any_of(thread_.stack, [](const StackFrame& frame) {
             return !frame.python && is_libc(frame.file) && frame.function == "__res_context_send";
           });
  }

  // A wait in epoll or select on, among others, a pipe or socket pair of which its process has the
  // other end: by that other threads, and handlers of signals, wake the loop (asyncio's self-pipe).
  bool is_event_loop() const {
    const WaitKind kind = kind_of(thread_.wait, facts_.machine);
    if (kind != WaitKind::kEpoll && kind != WaitKind::kSelect) return false;
    return std::ranges::any_of(thread_.wait.files, [&](const WaitedFile& file) {
      const auto other = other_end(file);
      return other && std::ranges::any_of(facts_.last->channel_ends, [&](const ChannelEnd& end) {
               return end.inode == *other && end.pid == waiter_.process->key.pid && end.writes;
             });
    });
  }

  // Whose end is a signal that wakes the loop.
  bool has_child() const {
    return std::ranges::any_of(facts_.run->processes, [&](const ProcessInfo& each) {
      return each.ppid == waiter_.process->key.pid &&
             !is_known_dead(*facts_.run, each.key, facts_.last->at);
    });
  }

  // It does what is due at its time, and what others of its process ask for. What it waits for
  // beside that, from other processes, is not told apart.
  Need of_event_loop() const {
    Need need{.kind = NeedKind::kNotification,
              .words = "work for its event loop" + words_of_peer(),
              .relation = "woken by one of",
              .providers = others_of_the_process(),
              .others_may = true};
    if (waiter_.role() == Role::kForkserver) return of_fork_server(std::move(need));
    const bool only_own = std::ranges::all_of(thread_.wait.files, [&](const WaitedFile& file) {
      const auto other = other_end(file);
      return other && std::ranges::none_of(facts_.last->channel_ends, [&](const ChannelEnd& end) {
               return end.inode == *other && end.pid != waiter_.process->key.pid;
             });
    });
    const bool by_itself =
        has_timeout(thread_.wait, facts_.machine) || may_be_woken_by_signal(waiter_);
    // A program may park in its loop until a signal ends it, but not in the middle of a batch.
    const bool is_needed = !need.providers.empty() || (is_in_a_task(thread_) && !has_child());
    if (only_own && !by_itself && is_needed) need.others_may = false;
    return need;
  }

  // With who of the tree has the other end.
  Message words_with_ends(const Need& need) const {
    std::vector<size_t> mains;
    for (const size_t each : need.providers)
      if (facts_.threads[each].is_main()) mains.push_back(each);
    if (!mains.empty()) {
      const bool is_manager = std::ranges::any_of(
          mains, [&](size_t each) { return serves_a_manager(*facts_.threads[each].thread); });
      return need.words + ", " + own(need.relation) + " " + join_names(facts_, mains) +
             (is_manager ? " (the server of multiprocessing.Manager)" : "");
    }
    if (!waits_for_input(thread_)) return need.words + words_with_outsider(need);
    const bool is_standard = thread_.wait.files.front().fd == STDIN_FILENO;
    return is_standard ? "input on its standard input" : "input on a terminal";
  }

  // Who has the other end of a pipe or socket that nobody of the tree has, where dlprobe sees it.
  Message words_with_outsider(const Need& need) const {
    const WaitedFile& first = thread_.wait.files.front();
    if (first.kind == FileKind::kEventfd && !is_shared_eventfd(first)) return words_of_peer();
    if (!need.providers.empty()) return "";
    const ChannelEnd* end = outsider_at(first, need.relation == "written by");
    return end == nullptr ? Message() : ", " + own(need.relation) + words_of(*end);
  }

  const ChannelEnd* outsider_at(const WaitedFile& file, bool for_data) const {
    const auto inode = other_end(file);
    if (!inode) return nullptr;
    const auto end = std::ranges::find_if(facts_.last->channel_ends, [&](const ChannelEnd& each) {
      return each.inode == *inode && threads_of(each.pid).empty() && !each.orphaned_sibling &&
             (for_data ? each.writes : each.reads);
    });
    return end == facts_.last->channel_ends.end() ? nullptr : &*end;
  }

  static Message words_of(const ChannelEnd& end) {
    return " process " + own(end.pid) + " (" + as_name(end.comm) + "), which is none of this job";
  }

  // multiprocessing's: a trainer or worker asks it for a new process, or one that it forked ends.
  Need of_fork_server(Need need) const {
    need.providers.clear();
    for (size_t i = 0; i < facts_.threads.size(); ++i) {
      const Role role = facts_.threads[i].role();
      if (role == Role::kTrainer || role == Role::kWorker) need.providers.push_back(i);
    }
    need.others_may = false;
    return need;
  }

  // Whom the loop waits for beside its own process: the first it is connected to.
  Message words_of_peer() const {
    const WaitedFile* peer = connection_of(facts_, waiter_);
    if (peer == nullptr) return "";
    const ChannelEnd* end = outsider_at(*peer, true);
    Message words = ", maybe data from a socket connected to " + as_text(peer->path);
    if (end != nullptr) words += ", written by" + words_of(*end);
    if (end != nullptr && is_stopped_outside(*facts_.run, *end, waiter_.since))
      words += " and is stopped";
    return words;
  }

  static Message words_of(const WaitedFile& file, bool for_data) {
    const OwnWords what = for_data ? "data " : "room ";
    if (!for_data && is_standard_output(file))
      return OwnWords("room in its standard ") + (file.fd == STDOUT_FILENO ? "output" : "error") +
             " (pipe " + own(file.inode) + ")";
    if (file.kind == FileKind::kPipe) {
      return what + "in pipe " + own(file.inode);
    }
    if (file.kind == FileKind::kConnectingSocket)
      return "an answer of " + as_text(file.path) + ", to which it connects (descriptor " +
             own(file.fd) + ")";
    const OwnWords kind =
        file.kind == FileKind::kOther ? "terminal or device" : own(to_string(file.kind));
    const Message words = what + (for_data ? "from " : "in ") +
                          (file.kind == FileKind::kEventfd ? "an " : "a ") + kind;
    if (file.kind == FileKind::kFifo && !file.path.empty()) return words + " " + as_path(file.path);
    const Message to = file.path.empty() ? Message() : ", connected to " + as_text(file.path);
    return words + " (descriptor " + own(file.fd) + to + ")";
  }

  // All threads of all processes that have the other end; of its own process the other threads.
  // Whether anybody of the tree has it.
  bool add_ends(uint64_t inode, bool for_data, Need& need) const {
    std::vector<int32_t> pids;
    bool is_of_tree = false;
    for (const ChannelEnd& end : facts_.last->channel_ends) {
      if (end.inode != inode || (for_data ? !end.writes : !end.reads)) continue;
      if (std::ranges::find(pids, end.pid) != pids.end()) continue;
      pids.push_back(end.pid);
      const auto threads = threads_of(end.pid);
      is_of_tree = is_of_tree || !threads.empty();
      // An orphan that was forked from the same process only keeps what it was born with.
      if (threads.empty() && !end.orphaned_sibling) add_outsider(end, need);
      for (const size_t each : threads)
        if (facts_.threads[each].thread != &thread_ && !is_known(each, need) &&
            !is_beside_the_point(each))
          need.providers.push_back(each);
    }
    const bool is_known = is_of_tree || need.stopped_outside != nullptr;
    need.others_may = need.others_may || may_be_others(pids.empty(), is_known);
    return is_of_tree;
  }

  void add_outsider(const ChannelEnd& end, Need& need) const {
    if (is_stopped_outside(*facts_.run, end, waiter_.since)) {
      need.stopped_outside = &end;
    } else {
      need.others_may = true;
    }
  }

  // Whether somebody may have the other end whom dlprobe does not see.
  bool may_be_others(bool nobody_has_it, bool one_is_known) const {
    // The kernel lets nobody wait at a pipe without another side (end of file, SIGPIPE): since the
    // threads were looked at its last peer has ended, or is not seen.
    if (nobody_has_it) return true;
    // It went on before the descriptors were looked at.
    if (!thread_.consistent) return true;
    // A pipe that came from outside may have its end in a process that dlprobe may not look into.
    return !one_is_known && !facts_.last->all_ends_seen;
  }

  static bool is_known(size_t provider, const Need& need) {
    return std::ranges::find(need.providers, provider) != need.providers.end();
  }
};

}  // namespace

bool is_standard_output(const WaitedFile& file) {
  const bool is_output = file.fd == STDOUT_FILENO || file.fd == STDERR_FILENO;
  return is_output && file.kind == FileKind::kPipe;
}

Need need_of_files(const Facts& facts, const ThreadFacts& waiter, bool for_data) {
  return ChannelNeed(facts, waiter).read(for_data);
}

bool is_connection(const WaitedFile& file) {
  const bool is_socket = file.kind == FileKind::kSocket || file.kind == FileKind::kConnectingSocket;
  return is_socket && !file.path.empty();
}

const WaitedFile* connection_of(const Facts& facts, const ThreadFacts& thread) {
  const auto first_of = [](const ThreadFacts& one) {
    const auto& files = one.thread->wait.files;
    const auto found = std::ranges::find_if(files, is_connection);
    return found == files.end() ? nullptr : &*found;
  };
  const auto& files = thread.thread->wait.files;
  const bool is_woken_by_others =
      !files.empty() && std::ranges::all_of(files, [](const WaitedFile& file) {
        return file.kind == FileKind::kEventfd;
      });
  if (!is_woken_by_others) return first_of(thread);
  for (const ThreadFacts& other : facts.threads)
    if (other.process == thread.process)
      if (const WaitedFile* connection = first_of(other)) return connection;
  return nullptr;
}

bool waits_for_input(const ThreadSnapshot& thread) {
  if (thread.wait.files.size() != 1) return false;
  const WaitedFile& file = thread.wait.files.front();
  const bool is_terminal = file.kind == FileKind::kOther && !file.path.empty();
  return file.fd == STDIN_FILENO || is_terminal;
}

bool asks_a_person(const ThreadFacts& thread) {
  return thread.still && thread.need.providers.empty() && waits_for_input(*thread.thread);
}

Need need_of_accept(const ThreadFacts& waiter) {
  Need need{.kind = NeedKind::kNewClient, .words = "a connection to its socket"};
  if (!waiter.thread->wait.files.empty()) {
    need.words += " (descriptor " + own(waiter.thread->wait.files.front().fd) + ")";
  }
  return need;
}

Need need_of_storage(const ThreadFacts& waiter) {
  Need need{.kind = NeedKind::kKernel, .words = "a disk or a file system (state D)"};
  const auto& files = waiter.thread->wait.files;
  if (files.empty() || files.front().path.empty()) return need;
  const WaitedFile& file = files.front();
  need.words = "the storage of " + as_path(file.path);
  if (!file.storage.empty()) need.words += " (" + as_text(file.storage) + ")";
  return need;
}

}  // namespace dlprobe::probes::deadlock
