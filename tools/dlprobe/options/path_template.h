#pragma once

#include <string>

#include "lib/base/error.h"

namespace dlprobe {

/// A path that a user gave, with what makes it differ between nodes and runs: %h the node (its name
/// for the scheduler, else the host's), %j the scheduler's job, %r the rank in it ("none" where
/// there is none), %p the pid of dlprobe, %% a percent sign. A slash in a value becomes '_'.
/// kInvalid for any other letter behind a '%'.
Expected<std::string> expand_path(const std::string& path);

}  // namespace dlprobe
