#pragma once

#include <span>
#include <string_view>

namespace dlprobe {

/// The names of all evidence that is a number, of whatever finding, sorted: what a threshold of the
/// configuration may name. Kept equal to the probes by lint.evidence_names.
std::span<const std::string_view> names_of_numbers();

}  // namespace dlprobe
