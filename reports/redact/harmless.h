#pragma once

#include <cstddef>
#include <string_view>

namespace dlprobe {

// What a redacted report may keep of other people's words. All else is taken for a name.

/// A word as it stands in dlprobe's own schema and pages, or in an error text of the C library.
bool is_own_word(std::string_view word);

/// A number, also with its unit; what is true or false; a value that the report's schema lists.
bool is_plain_value(std::string_view word);

/// ".py", ".so.1": where dlprobe's own words have files of that kind. Also the kernel's "
/// (deleted)".
std::string_view known_extension(std::string_view name);

/// Of letters, digits and what paths of programs have, without blanks and marks.
bool is_plain_path(std::string_view word);

/// The parts of a path that stay as they are: what is before `head` is the system's, what is from
/// `tail` on is a library's that anybody may have.
struct KeptParts {
  size_t head = 0;
  size_t tail = 0;
  bool is_whole() const { return head + 1 >= tail; }
};
KeptParts kept_parts(std::string_view path);

/// A file of the system, or of a library that anybody may have, wherever that is installed.
bool is_of_known_library(std::string_view path);

/// The name of a file, folder, program or package that is a custom or a library's, wherever it is:
/// "bin", "python3.11", "site-packages", "libgomp.so.1", "torch_6281_2629491651_1".
bool is_custom_name(std::string_view name);

/// "2.13.0", "1.13.0a0", "2.1.0+cu118".
bool is_version(std::string_view text);

}  // namespace dlprobe
