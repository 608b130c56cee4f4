#pragma once

#include <string>
#include <string_view>

#include "reports/report.h"

namespace dlprobe {

/// What reports/html and CMake make of the page's own style and script, compiled in.
struct HtmlAssets {
  std::string_view style;
  std::string_view script;
  std::string_view style_hash;   ///< "sha256-..." for the page's Content-Security-Policy
  std::string_view script_hash;  ///< the same
};
const HtmlAssets& html_assets();

/// `object[key]` for HTML: control characters visible, markup inert.
std::string html_at(const Json& object, const char* key);

/// The charts over time with the events, and the values that the script shows; "" where the report
/// has fewer than two rows.
std::string html_timeline(const Json& report);

/// Who waits for whom, drawn, with the chain to the root cause in words below; "" without a graph.
std::string html_wait_graph(const Json& report);

/// The stacks of every process that has some, alike ones folded; "" where there are none.
std::string html_stacks(const Json& report);

}  // namespace dlprobe
