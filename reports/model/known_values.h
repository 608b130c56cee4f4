#pragma once

#include "reports/model/report.h"

namespace dlprobe {

/// kMalformed with the JSON pointer of the first value that is none of those that the schema lists
/// for its place ("enum", "const"): a verdict, a severity, a role. Fields that the schema does not
/// know may hold anything.
Status check_known_values(const Json& report);

}  // namespace dlprobe
