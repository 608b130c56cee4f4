#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "lib/base/error.h"
#include "lib/base/own_words.h"

namespace dlprobe {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;  ///< in bytes, as kMiB and kGiB
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline constexpr int64_t kMillisecond = 1'000'000;  ///< in nanoseconds, as kSecond
inline constexpr int64_t kSecond = 1'000'000'000;

/// "64.0 MiB", "1.9 GiB", "512 B": binary units, one decimal from KiB on.
OwnWords format_bytes(uint64_t bytes);

/// "350 ms", "2.4 s", "3 min 20 s", "2 h 5 min".
OwnWords format_duration(std::chrono::nanoseconds duration);

/// "1 thread", "3 threads", "2 processes", "0 batches": a number with its English noun, which is
/// given in the singular.
OwnWords counted(uint64_t count, std::string_view noun);

/// "the only worker", "both workers", "all 3 workers"; "no worker" for 0.
OwnWords all_of(uint64_t count, std::string_view noun);

/// A size that a person typed: "4096", "64m", "64M", "64MiB", "2g". Units are powers of 1024.
/// kInvalid with what is wrong otherwise; fractions and negative numbers are not sizes.
Expected<uint64_t> parse_size(std::string_view text);

/// A duration that a person typed: "500ms", "30s", "10m", "2h", "1.5s". A bare number is kInvalid
/// (its unit would be a guess), as is a negative one.
Expected<std::chrono::nanoseconds> parse_duration(std::string_view text);

/// `bytes` rounded up to whole pages of `page_size` bytes; as it is for 0.
uint64_t round_up_to_pages(uint64_t bytes, uint64_t page_size);

}  // namespace dlprobe
