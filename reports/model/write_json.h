#pragma once

#include <string>

#include "reports/model/json.h"
#include "reports/model/report.h"
#include "reports/model/shape.h"

namespace dlprobe {

/// The value of that shape as JSON, its keys in the order of the fields. Bytes that are no UTF-8
/// are written as "\xHH"; a number that is infinite or none is left out.
Json json_of(const Shape& shape, const void* value);
Json json_of(const AnyReport& report);

/// As text: two blanks of indentation, UTF-8 (invalid bytes replaced), newline at the end.
std::string text_of_json(const Json& json);

}  // namespace dlprobe
