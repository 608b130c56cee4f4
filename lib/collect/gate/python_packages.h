#pragma once

#include <string>
#include <vector>

#include "lib/model/gate_facts.h"
#include "lib/os/clock.h"
#include "lib/os/file_system.h"

namespace dlprobe {

/// Where packages are looked for.
struct PackageFolders {
  std::vector<std::string> folders;       ///< as on sys.path, in order
  std::string prefix;                     ///< whose conda-meta says what conda owns
  std::vector<std::string> library_path;  ///< LD_LIBRARY_PATH
  BootNs end = 0;                         ///< when to stop looking
};

/// Reads the packages, the libraries with threads that their modules would load, and what conda
/// says of them, into `facts`: from metadata, RECORDs and ELF headers; nothing is run.
void look_at_packages(const Directory& root, const Clock& clock, const PackageFolders& where,
                      PythonFacts& facts);

}  // namespace dlprobe
