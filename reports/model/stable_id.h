#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace dlprobe {

/// 32 hexadecimal digits that depend on the parts alone: the same on every machine and in every
/// version. To tell things apart (FNV-1a, twice), not to prove anything.
std::string stable_id(std::initializer_list<std::string_view> parts);

}  // namespace dlprobe
