#pragma once

#include <string>
#include <string_view>

namespace dlprobe {

/// A function's name for people: C++ (Itanium ABI) and Rust (legacy mangling) demangled, and
/// parameters, return type, template arguments, the compiler's suffixes (".cold", ".isra.0") and
/// version namespaces left out. `std::vector<int, …>::push_back(int&&)` is
/// "std::vector<>::push_back". Hostile text, like the symbol.
std::string short_function_name(std::string_view symbol);

}  // namespace dlprobe
