#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/gate_facts.h"
#include "lib/os/clock.h"

namespace dlprobe {

/// Where an interpreter looks for packages.
struct PythonInstall {
  std::string executable;
  std::string version;  ///< "3.11.2"
  std::string prefix;   ///< of the environment: where conda-meta would be
  std::vector<std::string>
      folders;  ///< as on sys.path of a job, in order: those that hold packages
};

/// Asks an interpreter, which runs a few lines of ours, isolated and without site (-I -S): nothing
/// of its packages is imported, no .pth is executed. Virtual environments (pyvenv.cfg), Debian's
/// dist-packages, the user's site and PYTHONPATH are in the answer as a job would have them.
/// kUnsupported: it is older than 3.6, or no Python. kTimeout.
Expected<PythonInstall> ask_install(const std::string& interpreter, const Clock& clock,
                                    std::chrono::nanoseconds limit);

/// What came of importing modules one after another in one process.
struct ImportTrial {
  std::vector<PythonImport> imports;
  std::vector<std::string> mapped;  ///< files that the process then had mapped executable
  std::string trouble;              ///< it did not come to its end: why
};
ImportTrial try_imports(const std::string& interpreter, std::span<const std::string> modules,
                        const Clock& clock, std::chrono::nanoseconds limit);

}  // namespace dlprobe
