#pragma once

#include <string>

#include "reports/model/report.h"

namespace dlprobe {

/// For a ticket or a pull request: GitHub flavoured, without HTML. The graph as Mermaid text.
std::string render_markdown(const AnyReport& report);

/// One file to open in a browser: no network, no third party.
std::string render_html(const AnyReport& report);

}  // namespace dlprobe
