#pragma once

#include <optional>

#include "lib/model/finding.h"
#include "lib/model/rank_state.h"

namespace dlprobe::probes::deadlock {

/// Whether it waits for ranks in an operation of that kind.
bool is_in(const RankState& rank, MeetingKind kind);
/// In a message from one rank to another.
bool is_in_message(const RankState& rank);
/// In an operation of MPI.
/// At a multiprocessing.Barrier.
bool is_at_barrier(const RankState& rank);
bool is_in_mpi(const RankState& rank);

/// `dlprobe stacks` of that rank, on its node.
Remedy remedy_to_look(const RankState& rank);
/// For one whose loader is late.
Remedy remedy_for_loader(const RankState& rank);
/// By what `rank` does while `waiter` waits for it; nothing where that tells of none.
std::optional<Remedy> remedy_for(const RankState& rank, const RankState& waiter);
/// For ranks that are not in the same operation, of which `rank` is one.
Remedy remedy_to_match(const RankState& rank);
/// For a collective that all have asked for.
Remedy remedy_to_see_the_gpu();
/// The Flight Recorder: of a collective on the GPU the stacks do not tell which it is.
void add_remedy_to_record(Finding& finding);
/// For ranks whose loaders have different lengths.
Remedy same_number_of_batches();
/// For ranks of which some have less to do than others.
void add_remedies_for_uneven_data(Finding& finding, bool is_mpi);
/// For ranks that are not there; `ended`: one of them that was seen to end, or null.
void add_remedies_for_gone(Finding& finding, const RankState& waiter, const RankState* ended);

}  // namespace dlprobe::probes::deadlock
