#pragma once

#include <span>
#include <string_view>

#include "lib/model/loader_job.h"
#include "reports/format.h"

namespace dlprobe {

/// MAJOR.MINOR of the document that `dlprobe ps --json` writes.
inline constexpr std::string_view kJobsSchemaVersion = "1.0";

/// The document of these jobs.
report::Jobs make_jobs(std::string_view version, const LoaderJobs& jobs);

/// The formats of that document.
std::span<const ReportFormat> jobs_formats();

}  // namespace dlprobe
