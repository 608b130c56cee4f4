#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// The hosts of a list as Slurm, pdsh and clush write it: "n[01-03,7],gpu1" is n01, n02, n03, n7,
/// gpu1. Commas, blanks and newlines between hosts. kInvalid for brackets that do not close, ranges
/// that run backwards, and more than 100,000 hosts.
Expected<std::vector<std::string>> expand_hosts(std::string_view list);

/// The same the other way round: names that differ in one number at their end are folded, each name
/// once, in the order of names and numbers.
std::string fold_hosts(const std::vector<std::string>& hosts);

}  // namespace dlprobe
