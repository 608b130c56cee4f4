#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/ids.h"

namespace dlprobe {

/// What a program's text says about the processes that it starts.
enum class ScriptFactKind {
  kOther,              ///< of a newer version
  kStarts,             ///< processes are started here, or a loader is made that will
  kStartsAtImport,     ///< and so does a worker that imports the main module
  kMayStart,           ///< a loader, of which the text does not tell whether it has workers
  kMayStartAtImport,   ///< such a loader is used where a worker comes that imports the main module
  kUnpicklable,        ///< pickle refuses what is sent to a worker
  kNotFoundThere,      ///< sent by its name, but a worker has no main module to find it in
  kDefinedUnderGuard,  ///< sent by its name, which a worker's main module does not have
  kDaemonicChild,      ///< a daemonic worker starts processes
  kSetTwice,           ///< set_start_method where the method is fixed already
  kSetAtImport,        ///< set_start_method in every worker that imports the main module
  kCudaAfterFork,      ///< a forked worker uses CUDA, as the parent did before
  kHeavyAtImport,      ///< much is loaded by every worker that imports the main module
  kMpiAtImport,        ///< mpi4py.MPI is imported by every worker that imports the main module
  kMainUnreadable,     ///< the program comes from standard input: workers cannot read it
};
std::string_view to_string(ScriptFactKind kind);  ///< "starts", "starts-at-import", ...
ScriptFactKind script_fact_kind_from_string(std::string_view name);

/// One such thing. All text is hostile: it is the program's own.
struct ScriptFact {
  ScriptFactKind kind = ScriptFactKind::kOther;
  /// Where: of what happens at import the statement of the module's own level, else the line
  /// itself.
  std::string file;
  int32_t line = 0;
  std::string function;  ///< "<module>" at the module's level
  std::string what;  ///< "torch.utils.data.DataLoader", "multiprocessing.Pool", "numpy.load", ...
  /// The other place: which line starts the processes or loads; where the object was made; where
  /// the worker is started that starts others; what came first. Empty: there is none.
  std::string other_file;
  int32_t other_line = 0;
  std::string method;  ///< the start method that the program chose for it; empty: it did not
  std::string path;    ///< of what is sent: "dataset.transform.transforms[2].lambd"
  std::string type;    ///< "lambda", "nested function", "_thread.lock", "generator", ...
  std::string name;    ///< of the function or class, or what happens in the other place
  std::optional<uint64_t> bytes;  ///< of kHeavyAtImport: size of the file, if it is known

  bool operator==(const ScriptFact&) const = default;
};

/// A program's text, read by its own interpreter without running it
/// (lib/subject/script_reader/read_script.py).
struct ScriptReading {
  BootNs at = 0;
  std::string program;         ///< "script", "module", "code", "stdin"
  std::string file;            ///< the main module's, as the command names it
  std::string python;          ///< "3.11.2"
  std::string default_method;  ///< of this interpreter: "fork", "forkserver"
  bool main_imported = true;   ///< whether a worker under spawn imports the main module
  std::string error;           ///< why the text could not be read; empty: it was
  bool is_syntax_error = false;
  int32_t error_line = 0;
  bool complete = true;           ///< false: it is too large to be looked at as a whole
  int32_t own_files = 0;          ///< modules of the program's own that were read with it
  int32_t files_left_out = 0;     ///< that were not
  std::vector<ScriptFact> facts;  ///< in the order in which the program comes to them

  bool operator==(const ScriptReading&) const = default;
};

}  // namespace dlprobe
