#pragma once

#include <vector>

#include "lib/model/finding.h"
#include "probes/gate/checks.h"

namespace dlprobe::probes::gate {

/// What the interpreter's files, and imports where they were tried, say against the loader.
void add_python_findings(const Source& source, std::vector<Finding>& findings);

/// The checks of the interpreter: python.found, python.torch, python.openmp ...
void check_python(Checks& checks);

}  // namespace dlprobe::probes::gate
