#pragma once

#include "lib/base/error.h"
#include "reports/model/json.h"
#include "reports/model/shape.h"

namespace dlprobe {

/// What a document need not keep of its shape.
enum class ReadMode {
  kStrict,
  kLaterVersion,  ///< it may have values that are not known here
  kPart,          ///< it may lack fields as well: those of a report that one of many nodes has
};

/// Fills `value`, an empty object of that shape, from `json`. kMalformed with the JSON pointer of
/// the first value that is of the wrong type, or none of those that its place may have, or missing.
/// Keys that the shape does not have are passed over, a missing list within a section is empty, and
/// a missing real number is none: so is one written that JSON has no number for.
Status read_json(const Json& json, const Shape& shape, void* value,
                 ReadMode mode = ReadMode::kStrict);

}  // namespace dlprobe
