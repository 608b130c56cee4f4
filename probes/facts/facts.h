#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/evidence_names.h"
#include "lib/model/finding.h"

namespace dlprobe {

/// Shorthands for the evidence of findings; `source` is the kernel file or call that said it.
Evidence bytes_fact(NumberName name, uint64_t bytes, const Message& source,
                    std::optional<BootNs> at = {});
Evidence count_fact(NumberName name, uint64_t count, const Message& source,
                    std::optional<BootNs> at = {});
/// A span of time, told in seconds.
Evidence time_fact(NumberName name, BootNs duration, const Message& source);
Evidence number_fact(NumberName name, double value, std::string_view unit, const Message& source,
                     std::optional<BootNs> at = {});
/// Adds a line of the user's program to the finding's `places`, unless it is there or `file` is
/// empty. `line` 0: the file as a whole.
void add_source(Finding& finding, const std::string& file, int32_t line, Message what);

Evidence text_fact(std::string_view name, Message value, const Message& source,
                   std::optional<BootNs> at = {});
/// The same fact with what it was held against: "> shm_size".
Evidence held_against(Evidence fact, std::string_view threshold);

/// The finding with the registry's severity, of the given confidence.
Finding new_finding(FindingCode code, Confidence confidence);

/// Adds the finding, where there is one.
void add(std::vector<Finding>& findings, std::optional<Finding> finding);

/// Adds a finding of one run to those of all: the stronger of two accounts of one finding stays,
/// and both runs are named.
void merge_finding(std::vector<Finding>& all, Finding finding);

/// "worker 4242", "trainer 17": how a message names a process of the subject.
OwnWords describe(const Run& run, const ProcessKey& key);
/// "worker 4242 and worker 4243 and 2 more", of at least one.
OwnWords describe_some(const Run& run, const std::vector<ProcessKey>& keys);

/// Whether the process is known to have ended at or before `at`: an exit record, a zombie, or its
/// absence from the newest sample up to then although an earlier one has it.
bool is_known_dead(const Run& run, const ProcessKey& key, BootNs at);

/// The first process of that role, in key order; null if there is none.
const ProcessInfo* first_of_role(const Run& run, Role role);

/// The process of the subject that made the segment, by the pid in its name; null if it is none.
const ProcessInfo* creator_of(const Run& run, const ShmSegment& segment);

/// How many workers the run had at once, at the most.
uint64_t most_living_workers(const Run& run);

/// Adds what gives every DataLoader half of the workers that the run had, and that prefetch factor
/// where one is named (then with one worker at least): the line of code and the settings.
void add_smaller_loader(Remedy& remedy, const Run& run, std::optional<int> prefetch_factor = {});

/// Whether it is of processes that wait.
bool is_hang(const Finding& finding);

/// Whether the subject came to its end by itself, while dlprobe watched.
bool has_subject_ended(const Run& run);

/// When the process was started, on the clock of the recording.
BootNs birth_of(const HostFacts& host, const ProcessKey& key);

/// From its first sample to its last one.
BootNs watched_for(const Run& run);

/// How far the OOM killers' counters moved over the run.
struct OomCount {
  uint64_t before = 0;
  uint64_t after = 0;
  OwnWords source;  ///< the file that holds the counter
};
/// The cgroup's counter where it was read, else the host's; nothing if neither was read twice.
std::optional<OomCount> oom_count(const Run& run);

/// Whether the subject did not end by itself, but because dlprobe saw it stand still or multiply.
bool was_ended_by_dlprobe(const Run& run);
/// When dlprobe began to end it, or ran out of time; older recordings: by signals or the last look.
std::optional<BootNs> when_dlprobe_ended_it(const Run& run);

/// The reference loader failed: why, in its own last words; or the user interrupted it, or a
/// command. Nothing for another subject, or where it finished, was stopped, or never started.
/// Without a finding that explains it, nothing can be said.
std::optional<Gap> gap_of_failed_loader(const Run& run);

/// Whether one of them is an error: what went wrong has a cause.
bool has_error(std::span<const Finding> findings);

}  // namespace dlprobe
