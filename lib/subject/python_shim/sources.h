#pragma once

#include <string_view>

namespace dlprobe {

std::string_view sitecustomize_source();  ///< sitecustomize.py of this folder
std::string_view start_source();          ///< dlprobe_start.py of this folder
std::string_view batches_source();        ///< dlprobe_batches.py of this folder
std::string_view crash_source();          ///< dlprobe_crash.py of this folder
std::string_view data_source();           ///< dlprobe_data.py of this folder
std::string_view files_source();          ///< dlprobe_files.py of this folder
std::string_view ends_source();           ///< dlprobe_ends.py of this folder
std::string_view epochs_source();         ///< dlprobe_epochs.py of this folder
std::string_view hooks_source();          ///< dlprobe_hooks.py of this folder
std::string_view limits_source();         ///< dlprobe_limits.py of this folder
std::string_view pickle_source();         ///< dlprobe_pickle.py of this folder
std::string_view queues_source();         ///< dlprobe_queues.py of this folder
std::string_view random_source();         ///< dlprobe_random.py of this folder
std::string_view ranks_source();          ///< dlprobe_ranks.py of this folder
std::string_view results_source();        ///< dlprobe_results.py of this folder
std::string_view settings_source();       ///< dlprobe_settings.py of this folder
std::string_view signals_source();        ///< dlprobe_signals.py of this folder
std::string_view tensors_source();        ///< dlprobe_tensors.py of this folder
std::string_view overrides_source();      ///< dlprobe_overrides.py of this folder
std::string_view trace_source();          ///< dlprobe_trace.py of this folder
std::string_view writes_source();         ///< dlprobe_writes.py of this folder
std::string_view read_script_source();    ///< read_script.py of lib/subject

}  // namespace dlprobe
