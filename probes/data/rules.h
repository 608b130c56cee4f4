#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "probes/probe.h"

namespace dlprobe::probes::data {

/// DLP0801: workers of one loader, or processes that send data to one, which draw for it from a
/// generator that began in the same state in each. One for each place.
std::vector<Finding> repeated_numbers(const RunCase& one);

/// DLP0802: workers of one loader that read the same samples of an IterableDataset, or some of
/// them. One for each data set.
std::vector<Finding> repeated_samples(const Run& run);

/// DLP0607: a map-style data set that has None for at least three quarters of its samples.
std::optional<Finding> missing_samples(const Run& run);

/// DLP0802: ranks of one job that learn from the same samples.
std::vector<Finding> repeated_by_ranks(const Run& run);

/// DLP0803: batches that came with other values than their workers had sent. One for each place
/// where batches are made.
std::vector<Finding> overwritten_batches(const Run& run);

/// DLP0803: tensors in shared memory that a process wrote to again before the one that had started
/// it got them, or while that kept several of them. One for each place where they are sent.
std::vector<Finding> overwritten_tensors(const Run& run);

/// DLP0804: epochs of one loader in the same shuffled order, or in which the workers draw the same
/// random numbers. One for each place, and each generator.
std::vector<Finding> repeated_epochs(const Run& run);

/// DLP0804: workers that live on (persistent_workers) without what the trainer set since they were
/// started, though their code for a sample reads it. One for each data set.
std::vector<Finding> unheard_settings(const Run& run);

/// DLP0805: a file that several processes write and read back, each between the other's two.
std::vector<Finding> overwritten_files(const Run& run);

/// DLP0805: samples that workers change in the data set's own memory, each time they come.
std::vector<Finding> overwritten_samples(const Run& run);

/// DLP0805: what forked processes wrote and never flushed. One for each file.
std::vector<Finding> lost_bytes(const Run& run);

/// What each worker told last of a generator, of its samples or its settings.
std::vector<const StartEvent*> last_words(const Run& run, StartEventKind kind);

/// What findings of this probe have in common; `events`: the first is where the data is made.
Finding data_finding(FindingCode code, const std::vector<const StartEvent*>& events,
                     std::vector<ProcessKey> processes);

/// Whether a generator of that name is one of `random`, `numpy.random` or `torch`. PyTorch seeds
/// these in each worker: some later call seeded them alike.
bool is_of_library(std::string_view generator);

/// Seed the generators of those draws events in each worker, or each process.
Remedy seed_apart(const std::vector<const StartEvent*>& events);

}  // namespace dlprobe::probes::data
