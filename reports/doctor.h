#pragma once

#include <span>
#include <string_view>

#include "reports/format.h"

namespace dlprobe {

/// MAJOR.MINOR of the document that `dlprobe doctor --json` writes.
inline constexpr std::string_view kDoctorSchemaVersion = "1.0";

using report::Ability;
using report::AbilityState;

/// What was looked at, with the verdict on it: fail where something required is missing, warn where
/// anything is.
report::Doctor make_doctor(report::Doctor look);

/// 0, or 1 where something that is required is missing.
int exit_code_of_doctor(const report::Doctor& doctor);

/// The formats of that document.
std::span<const ReportFormat> doctor_formats();

}  // namespace dlprobe
