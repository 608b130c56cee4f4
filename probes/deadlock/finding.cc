#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/function_name.h"
#include "lib/base/path_name.h"
#include "lib/foreign/libraries.h"
#include "probes/deadlock/ranks.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

// What helps with a library that was not made to live on in a forked copy.
struct LibraryAdvice {
  std::string_view library;  ///< how its file's name begins
  const char* title;
  const char* command;  ///< empty: none
  const char* source;   ///< where that is said
  /// The command is a variable of the environment, NAME=VALUE in front.
  bool is_variable = false;
};
constexpr std::array<LibraryAdvice, 12> kAdvice = {{
    {"libopencv_", "Keep OpenCV from using threads", "cv2.setNumThreads(0)",
     "OpenCV: core/utility.hpp"},
    {"cv2.", "Keep OpenCV from using threads", "cv2.setNumThreads(0)", "OpenCV: core/utility.hpp"},
    {"omppool", "Let Numba use threads that survive a fork", "NUMBA_THREADING_LAYER=forksafe",
     "Numba user manual: the threading layers", true},
    {"libgomp", "Use one OpenMP thread before the fork", "OMP_NUM_THREADS=1 python train.py",
     "GCC bug 60035: libgomp does not survive fork", true},
    {"libiomp", "Use one OpenMP thread before the fork", "OMP_NUM_THREADS=1 python train.py",
     "pytorch issue 75147", true},
    {"libtokenizers", "Keep tokenizers from using threads", "TOKENIZERS_PARALLELISM=false",
     "huggingface/tokenizers: parallelism.rs", true},
    {"tokenizers", "Keep tokenizers from using threads", "TOKENIZERS_PARALLELISM=false",
     "huggingface/tokenizers: parallelism.rs", true},
    {"polars", "polars keeps threads: use it only under spawn or forkserver", "",
     "Polars user guide: multiprocessing"},
    {"_polars_runtime", "polars keeps threads: use it only under spawn or forkserver", "",
     "Polars user guide: multiprocessing"},
    {"libarrow", "Use one thread of Arrow in workers", "pyarrow.set_cpu_count(1)",
     "Arrow: cpp/src/arrow/util/thread_pool.h"},
    {"libgrpc", "Turn on gRPC's fork support, or open channels after the fork",
     "GRPC_ENABLE_FORK_SUPPORT=1", "gRPC: doc/fork_support.md", true},
    {"cygrpc", "Turn on gRPC's fork support, or open channels after the fork",
     "GRPC_ENABLE_FORK_SUPPORT=1", "gRPC: doc/fork_support.md", true},
}};

// "OMP_NUM_THREADS=1 python train.py" -> that variable.
Setting variable_of(std::string_view command) {
  const std::string_view assignment = command.substr(0, command.find(' '));
  const size_t equals = assignment.find('=');
  return {.kind = SettingKind::kEnvironment,
          .name = std::string(assignment.substr(0, equals)),
          .value = std::string(assignment.substr(equals + 1))};
}

}  // namespace

Finding finding_about(const Facts& facts, FindingCode code, Confidence confidence,
                      const ThreadFacts& thread) {
  Finding finding = new_finding(code, confidence);
  finding.processes = {thread.process->key};
  finding.first_seen = thread.since;
  finding.last_seen = facts.last->at;
  if (thread.still && !hands_on(facts, thread)) {
    const bool since_before = thread.since < facts.last->at - facts.span;
    finding.prove(time_fact("stood_still_for", facts.last->at - thread.since,
                            since_before ? "se.exec_start in /proc/PID/task/TID/sched"
                                         : "timeslices in /proc/PID/task/TID/schedstat"));
  }
  const std::string library = blamed_library(*thread.thread);
  const std::string function = short_function_name(blamed_function(*thread.thread));
  finding.discriminator = library;
  if (!library.empty() && !thread.thread->wait.running) {
    finding.prove(text_fact(
        "waits_in",
        function.empty() ? as_path(library) : as_name(function) + " (" + as_path(library) + ")",
        "native stack", facts.last->at));
  }
  if (const StackFrame* frame = user_frame(*thread.thread)) {
    finding.prove(text_fact(
        "your_code",
        as_name(frame->function) + " (" + as_path(frame->file) + ":" + own(frame->line) + ")",
        "Python stack", facts.last->at));
    add_source(finding, frame->file, frame->line, "waits in " + as_name(frame->function));
  }
  return finding;
}

bool add_remedy_for_library(Finding& finding, std::string_view file) {
  const auto advice = std::ranges::find_if(kAdvice, [&](const LibraryAdvice& each) {
    return base_name(file).starts_with(each.library);
  });
  if (advice == kAdvice.end()) return false;
  finding.advise(
      OwnWords(advice->title) + " (" + advice->source + ")",
      *advice->command == '\0' ? std::vector<Message>{} : std::vector<Message>{advice->command},
      "dlprobe deadlock --pid PID");
  if (advice->is_variable) finding.remedies.back().settings = {variable_of(advice->command)};
  return true;
}

void add_remedy_for_answer(Finding& finding, const Facts& facts, const ThreadFacts& thread) {
  const bool asks_a_manager = std::ranges::any_of(thread.need.providers, [&](size_t each) {
    return serves_a_manager(*facts.threads[each].thread);
  });
  if (thread.need.kind == NeedKind::kChannel && asks_a_manager) {
    finding.advise(
        "The server answers when its queue has room or an item, or its lock is free: let "
        "another process take, put or release. A timeout then names the line",
        {"queue.put(item, timeout=60)", "lock.acquire(timeout=60)"});
    return;
  }
  const auto& files = thread.thread->wait.files;
  if (thread.need.relation == "read by" && !files.empty() && is_standard_output(files.front())) {
    finding.advise(
        "Nobody reads what it prints: let the reader of that pipe go on, or print to a file",
        {"python train.py > train.log 2>&1"});
    return;
  }
  const WaitedFile* peer = connection_of(facts, thread);
  if (peer == nullptr || files.empty()) return;
  const bool is_of_thread = files.front().kind == FileKind::kEventfd;
  const bool is_outside = thread.need.kind == NeedKind::kOutside && peer == files.data();
  const bool is_of_loop = thread.need.kind == NeedKind::kNotification;
  if (is_outside && peer->path.ends_with(":53")) {
    finding.advise("See whether the name server " + as_text(peer->path) +
                       " answers (/etc/resolv.conf). No timeout of a request ends the wait for it",
                   {"getent hosts NAME", "RES_OPTIONS='timeout:2 attempts:2' python train.py"});
    return;
  }
  if (!is_of_thread && !is_outside && !is_of_loop) return;
  std::vector<Message> commands = {"socket.setdefaulttimeout(60)", "requests.get(url, timeout=60)"};
  if (is_of_loop) commands = {"async with asyncio.timeout(60): await ..."};
  if (is_of_thread) commands = {"stub.Method(request, timeout=60)"};
  finding.advise("See whether " + as_text(peer->path) +
                     " answers, and give the request a timeout: the traceback then names it",
                 std::move(commands));
}

void add_remedies_for_fork(Finding& finding, const Facts& facts, const ThreadFacts& thread) {
  if (const auto in = collective_of(*thread.thread)) {
    finding.advise("A worker is no rank: call " + as_name(in->operation) +
                       " in the trainer, and hand the dataset its result before workers start",
                   {}, "dlprobe deadlock --pid PID");
    return;
  }
  if (thread.info != nullptr && thread.info->start_method == StartMethod::kForkserver) {
    finding.remedies.push_back(
        {.title = "Let no module that the fork server preloads start a thread, or spawn workers",
         .commands = {"multiprocessing.set_forkserver_preload([])",
                      "multiprocessing.get_context('spawn')"},
         .verify = "dlprobe deadlock --pid PID",
         .settings = {{SettingKind::kStartMethod, "", "spawn"}}});
  } else {
    add_remedy_of_clean_start(finding, facts, thread.process);
  }
  for (const StackFrame& frame : thread.thread->stack) {
    if (!frame.python && add_remedy_for_library(finding, frame.file)) return;
  }
  const std::string library = blamed_library(*thread.thread);
  if (finding.code != FindingCode::kForkLostThreadPool || is_openmp(library)) return;
  finding.remedies.insert(
      finding.remedies.begin(),
      {.title = "If the threads are those of an object (a file, a decoder, a client), create it in "
                "the worker, at first use: what a library opened mostly cannot be pickled",
       .commands = {"def __getitem__(self, i): self.file = self.file or library.open(self.path)"},
       .verify = "dlprobe deadlock --pid PID"});
}

}  // namespace dlprobe::probes::deadlock
