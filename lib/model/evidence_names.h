#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace dlprobe {

/// The names of all evidence that is a number, of whatever finding, sorted: what a threshold of the
/// configuration may name.
inline constexpr auto kNumberNames = std::to_array<std::string_view>({
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
    "anonymous",
    "batches",
    "busy_share",
    "busy_threads_in_workers",
    "cgroup_shmem",
    "cgroup_used",
    "chance_without_a_trend",
    "changed_batches",
    "children_that_came_to_it",
    "compared_batches",
    "compared_samples",
    "copied",
    "cpu_time_limit",
    "cpus_online",
    "cpus_usable",
    "descents",
    "descriptors",
    "descriptors_before",
    "epochs",
    "equal_samples",
    "failed_after",
    "failed_reservations",
    "failed_workers",
    "file_size_limit",
    "for",
    "forecast",
    "forecast_file_descriptor",
    "forecast_file_system",
    "free",
    "growth",
    "growth_at_least",
    "growth_of_all_processes",
    "growth_of_resident_anonymous_memory",
    "growth_of_these_processes",
    "growth_per_batch",
    "growth_per_second",
    "hard_limit",
    "held_by_others",
    "held_by_trainer",
    "holders",
    "idle_processes",
    "idle_workers",
    "in_a_call_at_once",
    "in_flight",
    "inodes",
    "inodes_used",
    "kept",
    "largest_segment",
    "leaked_bytes",
    "leaked_files",
    "leaked_semaphores",
    "left",
    "left_by_this_run",
    "limit",
    "limit_hits",
    "limit_that_would_do",
    "loader_needs",
    "looks_behind",
    "major_faults_of_the_subject",
    "mappings",
    "max_map_count",
    "memory",
    "memory_available",
    "memory_left",
    "memory_limit",
    "memory_of_fewer",
    "memory_total",
    "minor_faults_x_page_size",
    "missing_ranks",
    "named_bytes",
    "named_files",
    "needed",
    "noise",
    "of_kind",
    "oom_kills",
    "oom_kills_of_host",
    "open",
    "open_in",
    "other_readers",
    "other_writers",
    "own_memory",
    "own_work",
    "page_cache",
    "pages_swapped_in",
    "pages_swapped_out",
    "position",
    "position_before",
    "ppid",
    "preempted",
    "processes",
    "processes_scanned",
    "processes_that_hold_it",
    "processes_that_share_it",
    "processes_unreadable",
    "refusals",
    "seen_for",
    "seen_to_grow_for",
    "segment_filled",
    "segment_size",
    "segments_held_by_trainer",
    "segments_mapped",
    "session",
    "shared_memory",
    "shm_free",
    "shm_size",
    "shm_used",
    "size_that_would_do",
    "speed",
    "speed_of_fewer",
    "speed_with_one_thread",
    "stale_bytes",
    "stale_files",
    "stalled_for",
    "stands_still_for",
    "still_shared",
    "stood_still_for",
    "swap_free",
    "swapped_out_of_the_subject",
    "taken",
    "taken_by_the_training_process",
    "team_size",
    "threads",
    "threads_here",
    "threads_in_the_circle",
    "threads_of_the_library_here",
    "threads_of_the_library_in_parent",
    "threads_of_the_team",
    "threads_that_could_write",
    "threads_that_want_a_cpu",
    "threads_that_want_the_gil",
    "time_at_a_standstill",
    "time_in_run_queue",
    "time_to_limit",
    "usable_cpus",
    "value",
    "victim_anonymous",
    "victim_rss",
    "victim_shmem",
    "waiting",
    "waiting_ranks",
    "waiting_tensors",
    "whole_group_kills",
});
static_assert(std::ranges::is_sorted(kNumberNames));

/// The name of evidence that is a number. One that kNumberNames lacks does not compile.
class NumberName {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor,misc-explicit-constructor): a literal becomes one
  consteval NumberName(const char* name) : text_(name) {
    if (!std::ranges::binary_search(kNumberNames, text_)) number_names_lack_this_one();
  }
  /// One that is put together while the program runs; a threshold can name it if it is listed.
  /// `text` must outlive the name.
  static NumberName made_of(std::string_view text) { return NumberName(text, {}); }

  std::string_view text() const { return text_; }

 private:
  struct Unchecked {};
  static void number_names_lack_this_one() {}  // no constant expression: the call does not compile
  NumberName(std::string_view text, Unchecked /*tag*/) : text_(text) {}

  std::string_view text_;
};

}  // namespace dlprobe
