#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/objects/stacks.h"

namespace dlprobe {

/// A frame for people, escaped: "main (train.py:12)", "poll (libc.so.6)", "??
/// (libgomp.so.1+0x1f0)";
/// "" for one of which nothing is known. `whole`: with the whole path.
std::string frame_text(const report::Frame& frame, bool whole = false);

/// A frame for people with its place first: "train.py:12 in main"; "" for none.
std::string place_text(const std::optional<report::Frame>& frame);

/// "0.35 ms": how long dlprobe stopped a process; "" if it did not.
std::string pause_text(const report::LastLook& look);

/// What a process of this role is called: "worker", "process".
std::string process_kind(std::optional<Role> role);
/// "worker 4711", "rank 1 (4711)", "rank 1's worker 4711": of a distributed job with its rank.
std::string process_name(std::optional<Role> role, std::optional<int32_t> rank, int64_t pid);

/// Where a process of this role stands in a list for people: the trainer first, then workers.
int role_rank(std::optional<Role> role);

/// The same text for two that differ in numbers alone: addresses, inodes, ids. To fold what is
/// alike where the numbers do not matter (for waits: AlikeWaits).
std::string without_numbers(std::string_view text);

}  // namespace dlprobe
