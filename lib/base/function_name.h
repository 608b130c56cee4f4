#pragma once

#include <string>
#include <string_view>

namespace dlprobe {

/// A function's name as its source has it, with parameters and template arguments: C++ (Itanium
/// ABI) and Rust (legacy mangling) demangled, any other symbol as it is. Hostile text, like the
/// symbol.
std::string whole_function_name(std::string_view symbol);

/// The same for people: parameters, return type, template arguments, the compiler's suffixes
/// (".cold", ".isra.0") and version namespaces left out.
/// `std::vector<int, …>::push_back(int&&)` is "std::vector<>::push_back".
std::string short_function_name(std::string_view symbol);

}  // namespace dlprobe
