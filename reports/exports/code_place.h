#pragma once

#include <string>

#include "reports/model/report.h"

namespace dlprobe {

/// A line of the user's program, as tools that show findings beside the code want it.
struct CodePlace {
  std::string path;  ///< relative to the working folder where it lies below it; never empty
  uint64_t line = 1;
  std::string what;       ///< "the statement that starts workers"; may be empty
  bool is_known = false;  ///< false: the program as a whole, for want of a line
};

/// Where in the program the finding is: its own first line, else the program that was examined.
CodePlace code_place(const report::Report& report, const report::Finding& finding);
/// That line of the report's program.
CodePlace code_place(const report::Report& report, const report::Location& location);

/// A path as a URI reference (RFC 3986): relative paths stay relative.
std::string uri_of(std::string_view path);

}  // namespace dlprobe
