#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lib/os/thread_start.h"
#include "lib/subject/child_process.h"
#include "tools/dlprobe/app.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace {

// The deepest calls take a tenth of it.
constexpr rlim_t kEnoughStack = 1U << 20;

bool has_small_stack() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kEnoughStack;
}

constexpr std::string_view kNoMemory =
    "dlprobe: the system refuses the memory that dlprobe needs; what would help: more of it, or a "
    "higher limit (ulimit -v)\n";

void say_no_memory() {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kNoMemory.data(), kNoMemory.size());
}

// Memory may also end where nothing may be thrown: in a destructor of nlohmann_json.
[[noreturn]] void end_at_once() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    say_no_memory();
    ::_exit(dlprobe::kExitIncomplete);
  } catch (...) {
    __gnu_cxx::__verbose_terminate_handler();
  }
  std::abort();
}

int run_guarded(const std::vector<std::string>& arguments) {
  try {
    return dlprobe::run_app(arguments);
  } catch (const std::system_error& error) {
    // No thread, no descriptor, no memory: a limit of this machine.
    dlprobe::complain(std::string("the system refuses what dlprobe needs: ") + error.what() +
                      "; what would help: higher limits (ulimit -u, ulimit -n)");
    return dlprobe::kExitIncomplete;
  } catch (const std::bad_alloc&) {
    say_no_memory();
    return dlprobe::kExitIncomplete;
  } catch (const std::exception& error) {
    dlprobe::complain(std::string("this is a bug in dlprobe, please report it: ") + error.what());
    return dlprobe::kExitBug;
  }
}

// Threads bring stacks of their own: `ulimit -s` of the shell does not bind them, and a command
// that dlprobe starts has that limit as before.
int run_on_larger_stack(const std::vector<std::string>& arguments) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kEnoughStack);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
  // Signals go to the other thread, which reads them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = dlprobe::kExitBug;
  auto other = dlprobe::start_thread("use a larger stack", [&] {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    status = run_guarded(arguments);
  });
  if (!other) {
    dlprobe::complain(dlprobe::to_string(other.error()));
    return dlprobe::kExitIncomplete;
  }
  other->join();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_at_once);
  dlprobe::remember_inherited_state();
  // Its threads work in turns: another heap costs page faults alone.
  ::mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe): there is no other thread yet
  const std::vector<std::string> arguments(argv, argv + argc);
  return has_small_stack() ? run_on_larger_stack(arguments) : run_guarded(arguments);
}
