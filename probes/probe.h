#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "lib/model/finding.h"
#include "lib/model/recording_view.h"

namespace dlprobe {

/// A question about a recording; probes/facts/seen.h has those that several probes ask.
using Question = bool (*)(const RecordingView& recording);

/// A cause that a probe can find.
struct Cause {
  FindingCode code;
  /// Whether the recording has what tells the cause from its absence. Only then is a cause that was
  /// not found one that is not there.
  Question was_visible;
  std::optional<ReportTable> table;  ///< that shows more of it
};

/// One run of a recording, as a probe judges it.
struct RunCase {
  const RecordingView& recording;
  const Run& run;
  int index = 0;                   ///< of the run in the recording
  std::span<const Finding> known;  ///< by the probes before; for one that judges the ends
  bool is_asked_alone = true;      ///< by a subcommand of its own, not among all probes
};

/// Who is asked when.
enum class ProbeUse {
  kSubject,  ///< by `dlprobe NAME`, of each kind of subject; and among all probes
  kEnds,     ///< of what no subcommand is needed for: the ends of processes; after the others
  kAll,      ///< by a command of its own: all of the above, and what it adds
  kAlone,    ///< by a command of its own, and by nobody else
};

/// One pure function from a recording to findings and gaps, and all that others may know of it:
/// reports and commands go by what stands here and by no probe's name. Probes touch nothing of the
/// machine.
struct Probe {
  std::string_view name;          ///< the subcommand: "shm"
  std::string_view summary;       ///< one line for `dlprobe list` and --help
  std::span<const Cause> causes;  ///< each that it can find, and no other
  /// Whether the recording is one of those that it says anything about; null: each is.
  Question applies_to = nullptr;
  Verdict (*examine_run)(const RunCase& run) = nullptr;  ///< what one run tells; may be null
  /// What all runs together tell; may be null. The verdict has what the runs told.
  void (*conclude)(const RecordingView& recording, Verdict& verdict) = nullptr;
  /// What "nothing was found" means, in the words of what was looked at; null: it is only counted.
  Message (*all_well)(const RecordingView& recording) = nullptr;
  std::optional<ReportTable> table;  ///< that a report of it alone has in any case

  ProbeUse use = ProbeUse::kSubject;
  bool judges_ends = false;       ///< it says, too, why processes ended
  bool keeps_runs_apart = false;  ///< the same in two runs is two findings
  bool measures_speed = false;    ///< so it matters what else the machine did

  bool needs_snapshots = false;     ///< of stacks and locks
  bool needs_shared_files = false;  ///< looks at shared files alone, which stop nobody
  bool needs_containers = false;    ///< which containers of Python grow
  int watch_of_pid_s = 15;  ///< how long a live process is watched where nobody says; by default
                            ///< two of the 5 s waits of an idle worker: a lost batch
  bool ends_when_found = false;  ///< that watch ends sooner where something of the job is found
  /// A command is run once under each start method, contained, with dlprobe's shim.
  bool tries_start_methods = false;

  /// Everything that it says of the recording.
  Verdict examine(const RecordingView& recording) const;
  /// Sets what a report must know of the probe: what was looked for, what "nothing was found"
  /// means, and which tables belong to `verdict`, its own.
  void declare(const RecordingView& recording, Verdict& verdict) const;
};

/// Each is probes::NAME::kProbe; what lies in probes/NAME is in that namespace.
#define DLP_PROBE(name)      \
  namespace probes::name {   \
  extern const Probe kProbe; \
  }
#include "probes/probes.def"
#undef DLP_PROBE

/// Every probe, in the order of probes.def.
std::span<const Probe* const> all_probes();

/// The probe of that name; null if there is none.
const Probe* find_probe(std::string_view name);

}  // namespace dlprobe
