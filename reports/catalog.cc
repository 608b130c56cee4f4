#include "reports/catalog.h"

#include <fmt/format.h>

#include <utility>

#include "lib/model/finding.h"
#include "reports/document/text_layout.h"
#include "reports/document/text_page.h"

namespace dlprobe {
namespace {

std::string render_catalog(const AnyDocument& document, const TextOptions& options) {
  const auto& catalog = std::get<report::Catalog>(document);
  TextPage page(options);
  page.paragraph("Probes", "", document::Mark::kStrong);
  for (const report::CatalogProbe& probe : catalog.probes)
    page.paragraph(fmt::format("  {:<16} ", shown(probe.name)), shown(probe.summary));
  page.heading("Findings (details: dlprobe explain CODE)");
  for (const report::CatalogFinding& finding : catalog.findings) {
    page.paragraph(fmt::format("  {} {:<24} {:<8} ", shown(finding.code), shown(finding.name),
                               shown(finding.severity)),
                   shown(finding.title));
  }
  return std::move(page).take();
}

constexpr auto kCatalogFormats = text_and_json(render_catalog);

}  // namespace

report::Catalog make_catalog(std::string_view version,
                             std::span<const report::CatalogProbe> probes) {
  report::Catalog catalog;
  catalog.schema_version = report::VersionText(kCatalogSchemaVersion);
  catalog.tool.version = version;
  catalog.probes = {probes.begin(), probes.end()};
  for (const FindingInfo& finding : all_findings()) {
    catalog.findings.push_back({.code = report::CodeText(finding.code),
                                .name = std::string(finding.name),
                                .severity = finding.severity,
                                .title = std::string(finding.title)});
  }
  for (const ReportFormat& format : report_formats())
    catalog.formats.push_back({std::string(format.name), std::string(format.what)});
  return catalog;
}

std::span<const ReportFormat> catalog_formats() {
  return kCatalogFormats;
}

}  // namespace dlprobe
