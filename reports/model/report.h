#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/error.h"
#include "reports/model/examination.h"
#include "reports/model/objects/cluster.h"
#include "reports/model/objects/look_documents.h"
#include "reports/model/objects/stacks_document.h"

namespace dlprobe {

/// One examination, or many nodes' reports as one.
struct AnyReport {
  // NOLINTBEGIN(*-explicit-constructor,*-explicit-conversions): each is one
  AnyReport(report::Report one) : report(std::move(one)) {}
  AnyReport(report::Cluster many);
  // NOLINTEND(*-explicit-constructor,*-explicit-conversions)

  report::Report report;  ///< of many nodes: the sections that both have
  std::optional<report::Cluster> cluster;
};

/// Whatever dlprobe writes in several formats.
using AnyDocument =
    std::variant<AnyReport, report::Stacks, report::Catalog, report::Doctor, report::Jobs>;

/// The JSON text of a document: two blanks of indentation, UTF-8 (invalid bytes as "\xHH"), newline
/// at the end.
std::string render_json(const AnyDocument& document);

/// Whether a reader wants the stacks: most of a report of a hang is made of them.
enum class WithStacks { kNo, kYes };

/// A report from its JSON text. kMalformed with the place; kUnsupported for another major version.
/// Without stacks no process has threads.
Expected<AnyReport> parse_report(std::string_view text, WithStacks stacks = WithStacks::kYes);

/// The JSON schema (draft 2020-12) of the report, as shipped.
std::string_view report_schema();

/// The page of a finding (docs/findings/<name>.md), compiled in.
std::string_view finding_page(FindingCode code);

/// README.md.
std::string_view readme();

}  // namespace dlprobe
