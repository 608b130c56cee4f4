#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/message.h"
#include "lib/model/ids.h"
#include "lib/model/rank_state.h"

namespace dlprobe::probes::deadlock {

// What their process groups, or dumps of PyTorch's Flight Recorder, say of ranks of one job that
// stand. Of dumps only those count that were written since these began to wait: the others are
// older than the hang. Where two ranks contradict each other, or the stacks, they say nothing.
// `waiting`, `behind`: indices into `job`.

/// By how far each rank is in a group.
struct FlightProof {
  Message words;
  bool is_live = false;  ///< by the memory of all of them at the last look
};

/// "ranks 0, 2 enqueued all_reduce number 12 (train.py:41); rank 1 (4711) completed 11 and enqueued
/// none after it (oldest dump written 40 s ago)".
std::optional<FlightProof> flight_proof_of_behind(std::span<const RankState> job,
                                                  const std::vector<size_t>& waiting,
                                                  const std::vector<size_t>& behind);

/// "ranks 0, 2 are in all_reduce number 12 of Float [8] (train.py:41), rank 1 (4711) is in ...":
/// where all of them wait in one group, and not in the same.
std::optional<FlightProof> flight_proof_of_mismatch(std::span<const RankState> job,
                                                    const std::vector<size_t>& waiting);

/// Whether, by the memory of both, `rank` has asked for what `waiter` waits in, or has no part in
/// it: then `waiter` does not wait for it.
bool has_come_to(const RankState& rank, const RankState& waiter);

/// Whether all of these have asked for one and the same collective, by their memory, with as many
/// elements each.
bool all_asked_for_the_same(std::span<const RankState> job, const std::vector<size_t>& waiting);

/// After how long the first of them reaches the timeout of its group.
std::optional<BootNs> flight_time_left(std::span<const RankState> job,
                                       const std::vector<size_t>& waiting);

}  // namespace dlprobe::probes::deadlock
