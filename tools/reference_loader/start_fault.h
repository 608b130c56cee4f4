#pragma once

#include <cstdint>
#include <source_location>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/model/loader_plan.h"
#include "tools/reference_loader/fault.h"
#include "tools/reference_loader/progress.h"

namespace dlprobe::loader {

// NOTE [faults of starts]
// A worker that was not forked begins as a program of its own. In Python it then imports the main
// module, which is to say that it runs the script once more, up to what stands under the main
// guard. With a StartFault this loader does the same: run_fresh_worker() runs the program
// from its beginning. missing-main-guard is refused where it would start workers, as
// multiprocessing.spawn._check_not_importing_main does; recursive-process-creation is not.

/// Where a program is in the row of those that started one another, and what they have in common.
struct StartChain {
  int generation = 0;  ///< 0: the program that the user started
  int progress = -1;   ///< see WorkerFd::kProgress
  int tokens = -1;     ///< see WorkerFd::kTokens
};

/// The read end of a pipe with a byte for each process that may ever be started; no byte comes
/// back.
Expected<UniqueFd> make_start_tokens();

/// Whether this program may start workers at `where`; if not, that is told, and the error says why.
Status check_may_start(FaultKind fault, const StartChain& chain, StartMethod method,
                       Progress& progress,
                       std::source_location where = std::source_location::current());

/// Takes leave to start one process. kInsufficient: there were too many.
Status take_start_token(const StartChain& chain);

/// "tools/reference_loader/loader.cc", wherever it was built.
std::string source_file(std::source_location where);

/// What the program's own work took of this process.
struct OwnWork {
  double seconds = 0;
  uint64_t bytes = 0;  ///< of resident memory, which is kept
};
/// Does StartFault::own_work, as a script that loads data at module level. Nothing for all other
/// faults.
OwnWork do_own_work(const FaultEffects& effects);

}  // namespace dlprobe::loader
