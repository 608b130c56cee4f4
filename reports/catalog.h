#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reports/format.h"
#include "reports/model/report.h"

namespace dlprobe {

/// MAJOR.MINOR of the document that `dlprobe list --json` writes.
inline constexpr std::string_view kCatalogSchemaVersion = "1.0";

/// A probe, for the list.
struct CatalogProbe {
  std::string_view name;
  std::string_view summary;
};

/// What there is: probes, findings, report formats.
Json make_catalog(std::string_view version, std::span<const CatalogProbe> probes);

/// The formats of that document.
std::span<const ReportFormat> catalog_formats();

}  // namespace dlprobe
