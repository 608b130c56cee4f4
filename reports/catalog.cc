#include "reports/catalog.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "lib/model/finding.h"
#include "reports/document/text_layout.h"
#include "reports/document/text_page.h"
#include "reports/model/write_json.h"

namespace dlprobe {
namespace {

std::string render_catalog(const Json& catalog, const TextOptions& options) {
  TextPage page(options);
  page.paragraph("Probes", "", document::Mark::kStrong);
  for (const Json& probe : items_at(catalog, "probes")) {
    page.paragraph(fmt::format("  {:<16} ", text_at(probe, "name")), text_at(probe, "summary"));
  }
  page.heading("Findings (dlprobe explain CODE tells more)");
  for (const Json& finding : items_at(catalog, "findings")) {
    page.paragraph(fmt::format("  {} {:<24} {:<8} ", text_at(finding, "code"),
                               text_at(finding, "name"), text_at(finding, "severity")),
                   text_at(finding, "title"));
  }
  return std::move(page).take();
}

std::string render_catalog_json(const Json& catalog, const TextOptions& /*options*/) {
  return render_json(catalog);
}

constexpr std::array<ReportFormat, 2> kCatalogFormats = {{
    {"human", "for people at a terminal", render_catalog},
    {"json", "the document that the text is made from", render_catalog_json},
}};

}  // namespace

Json make_catalog(std::string_view version, std::span<const CatalogProbe> probes) {
  Json document = {{"kind", "dlprobe.list"},
                   {"schema_version", kCatalogSchemaVersion},
                   {"tool", {{"name", "dlprobe"}, {"version", version}}}};
  Json& all = document["probes"] = Json::array();
  for (const CatalogProbe& probe : probes)
    all.push_back({{"name", probe.name}, {"summary", probe.summary}});
  Json& findings = document["findings"] = Json::array();
  for (const FindingInfo& finding : all_findings()) {
    findings.push_back({{"code", finding.code},
                        {"name", finding.name},
                        {"severity", to_string(finding.severity)},
                        {"title", finding.title}});
  }
  Json& formats = document["formats"] = Json::array();
  for (const ReportFormat& format : report_formats())
    formats.push_back({{"name", format.name}, {"what", format.what}});
  return document;
}

std::span<const ReportFormat> catalog_formats() {
  return kCatalogFormats;
}

}  // namespace dlprobe
