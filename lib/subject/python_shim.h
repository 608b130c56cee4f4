#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/line_buffer.h"
#include "lib/base/unique_fd.h"
#include "lib/model/loader_plan.h"
#include "lib/model/setting.h"
#include "lib/model/start_event.h"
#include "lib/os/private_folder.h"
#include "lib/subject/python_command.h"

namespace dlprobe {

/// What a Python command is to do otherwise than its script says.
struct PythonOverrides {
  std::optional<StartMethod> start_method;  ///< the default, unless the script names another
  std::optional<SharingStrategy> sharing_strategy;  ///< of torch.multiprocessing
  std::optional<int> num_workers;                   ///< of every DataLoader
  std::optional<int> prefetch_factor;               ///< of every DataLoader with workers
  /// The start method and the sharing strategy also where the script names another.
  bool force = false;

  bool any() const { return start_method || sharing_strategy || num_workers || prefetch_factor; }
};

/// What else the shim is to do.
struct ShimOptions {
  PythonOverrides overrides;
  bool tells_batches = false;  ///< StartEventKind::kBatches, five times a second
  /// After so many starts of processes all of the command come one by one, 20 ms apart, so that a
  /// tree which multiplies is seen before it is large. 0: never.
  int paced_after = 0;
};

/// Why the interpreter of that command line would not load the shim ("-I ignores PYTHONPATH");
/// nothing if it would.
std::optional<std::string> why_shim_is_not_loaded(const PythonCommand& command);

/// kInvalid, with the reason, for a command line whose interpreter would not load the shim. One
/// that is not Python may start an interpreter later.
Status check_interpreter(const std::vector<std::string>& command);

/// The overrides, each as a setting.
std::vector<Setting> settings_of(const PythonOverrides& overrides);

/// The small Python module that an interpreter of a started command loads by itself: a
/// sitecustomize.py in a private folder that is first on PYTHONPATH, which makes way for the one
/// that the interpreter would have loaded otherwise. CPython 3.6 and later; older ones load it and
/// it does nothing.
///
/// The interpreters tell of themselves through a FIFO in that folder, opened and closed for each
/// event, or through symbolic links in it where they have no descriptor left. Nothing of it
/// outlives this object, but for PYTHONPATH in the environment of processes that go on. What a
/// process writes that crashes is in a file of its own there.
class PythonShim {
 public:
  /// Errors name the folder that could not be made or written.
  static Expected<PythonShim> prepare(const ShimOptions& options);

  /// For ChildSpec::environment.
  std::vector<std::pair<std::string, std::string>> environment() const;

  /// The path of its private folder, which is in the environment of what loads it.
  const std::string& folder() const { return folder_.path(); }

  /// To be polled for reading: read_new() has something to say.
  int descriptor() const { return events_.get(); }

  /// The events since the last call, in the order in which they came. What is no event is left out.
  std::vector<StartEvent> read_new();

  /// What processes have written that crashed since the last call: to be asked once one has ended.
  std::vector<StartEvent> read_crashes();

 private:
  static Expected<PythonShim> prepare_in(const std::string& parent, const ShimOptions& options);
  PythonShim(PrivateFolder folder, UniqueFd events)
      : folder_(std::move(folder)), events_(std::move(events)) {}

  PrivateFolder folder_;
  UniqueFd events_;
  std::map<std::string, size_t> crashes_;  ///< how much of each file was read
  LineBuffer lines_;
};

}  // namespace dlprobe
