#pragma once

#include <nlohmann/json.hpp>

namespace dlprobe {

/// A report keeps its keys in the order in which a person reads them.
using Json = nlohmann::ordered_json;

}  // namespace dlprobe
