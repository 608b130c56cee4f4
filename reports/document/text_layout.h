#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/report.h"

namespace dlprobe {

/// The text of `object[key]`, escaped for the terminal; "" where there is none. A report that was
/// read from a file may hold anything: these never throw.
std::string text_at(const Json& object, const char* key);
/// The number, or nothing.
std::optional<double> number_at(const Json& object, const char* key);
/// The number without its fraction; 0 where there is none, or none that is exact.
int64_t integer_at(const Json& object, const char* key);
/// The array, or the object; an empty one where there is none.
const Json& items_at(const Json& object, const char* key);
const Json& object_at(const Json& object, const char* key);
/// The text as it stands in the report, unescaped: for another report. "" if there is none.
std::string raw_at(const Json& object, const char* key);

/// `object[key]` bytes as "64.0 MiB"; "-" where there is no number: never a made-up 0.
std::string bytes_at(const Json& object, const char* key);

/// Any value for a person, by its unit: bytes, seconds, counts, escaped text.
std::string value_with_unit(const Json& value, std::string_view unit);

/// The same of a number.
std::string number_text(double number, std::string_view unit);

/// Of an entry of `suppressed[]`: "known, ticket 12 (until 2027-01-31, dlprobe.toml:9)".
std::string suppression_text(const Json& finding);

}  // namespace dlprobe
