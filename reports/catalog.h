#pragma once

#include <span>
#include <string_view>

#include "reports/format.h"

namespace dlprobe {

/// MAJOR.MINOR of the document that `dlprobe list --json` writes.
inline constexpr std::string_view kCatalogSchemaVersion = "1.0";

/// What there is: probes, findings, report formats.
report::Catalog make_catalog(std::string_view version,
                             std::span<const report::CatalogProbe> probes);

/// The formats of that document.
std::span<const ReportFormat> catalog_formats();

}  // namespace dlprobe
